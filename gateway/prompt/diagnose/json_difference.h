// JsonDifference: the first place, in the order of their bytes, where two JSON texts differ. Texts
// may end early (a value that was cut): what is there is compared. Pure; any thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace kvgate::prompt {

struct JsonDifference {
  enum class Kind : uint8_t {
    kNone,       // they differ in nothing but white space between values
    kValue,      // two values at one path
    kAdded,      // a member or element that only the second text has
    kRemoved,    // one that only the first text has
    kReordered,  // the members of an object stand in another order; the path is the object's
  };
  Kind kind = Kind::kNone;
  std::string path = {};  // ".input_schema.properties.q.type", "[2]"; empty: the whole. Bounded
  std::string_view before = {};  // the values there as they are written; empty: none
  std::string_view after = {};
};
JsonDifference FindJsonDifference(std::string_view before, std::string_view after);

// The value at "function.name" as it is written; empty: there is none. Of a member that stands
// twice the first.
std::string_view FindJsonValue(std::string_view json, std::string_view dotted_path);

}  // namespace kvgate::prompt
