// RawObject: the members of a JSON object as they are written, so that what is kept goes out again
// byte for byte. It points into the text that it was read from. Pure; any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace kvgate::session::transcript {

class RawObject {
 public:
  // Returns nullopt for what is no object.
  static std::optional<RawObject> Read(std::string_view json);

  // The value of a member; empty if it is missing or null.
  std::string_view At(std::string_view name) const;
  // A member that is a string or a whole number; "" or 0 for anything else.
  std::string StringAt(std::string_view name) const;
  int64_t IntegerAt(std::string_view name) const;

 private:
  std::vector<std::pair<std::string_view, std::string_view>> members_;  // raw names, raw values
};

// The elements of a list, as they are written; none if it is no list.
std::vector<std::string_view> ElementsOf(std::string_view list);

}  // namespace kvgate::session::transcript
