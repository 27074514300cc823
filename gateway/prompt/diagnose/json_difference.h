// JsonDifference finds the first place, in byte order, at which two JSON texts differ. A text may
// end early because its value was cut; then only the part that exists is compared. Pure; any
// thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace kvgate::prompt::diagnose {

struct JsonDifference {
  enum class Kind : uint8_t {
    kNone,       // they differ at most in white space between values
    kValue,      // two values at the same path
    kAdded,      // a member or element that only the second text has
    kRemoved,    // one that only the first text has
    kReordered,  // an object's members are in another order; the path is the object's
  };
  Kind kind = Kind::kNone;
  std::string path = {};  // ".input_schema.properties.q.type", "[2]"; empty: the root. Bounded
  std::string_view before = {};  // the values as written; empty: none
  std::string_view after = {};
};
JsonDifference FindJsonDifference(std::string_view before, std::string_view after);

// Returns the value at a path such as "function.name" as written; empty if there is none. If a
// member occurs twice, the first counts.
std::string_view FindJsonValue(std::string_view json, std::string_view dotted_path);

}  // namespace kvgate::prompt::diagnose
