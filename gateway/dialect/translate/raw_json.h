// RawJson is a value of a JSON text as the bytes that stand there. A document is validated once, as
// a whole; after that values are views of it, and unused values are not read. Numbers, escapes and
// the order of keys stay as in the text. The text must outlive the views. All functions are pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"

namespace kvgate::dialect::translate {

class RawJson {
 public:
  // An absent value; null counts as absent, too.
  RawJson() = default;
  // Returns kInvalidArgument if the text is not JSON in valid UTF-8 or is nested deeper than
  // kDepthMax.
  static Result<RawJson> Parse(std::string_view document);
  static constexpr int kDepthMax = 64;

  explicit operator bool() const { return !text_.empty() && text_ != "null"; }
  // Returns the bytes of the value without surrounding blanks; a string includes its quotes.
  std::string_view text() const { return text_; }
  bool is_object() const { return text_.starts_with('{'); }
  bool is_array() const { return text_.starts_with('['); }
  bool is_string() const { return text_.starts_with('"'); }
  bool is_bool() const { return text_ == "true" || text_ == "false"; }
  bool is_true() const { return text_ == "true"; }
  bool is_number() const;

  // Returns the decoded text of a string, and an empty text for other types. An unpaired surrogate
  // becomes U+FFFD.
  std::string String() const;
  // Returns a whole number that fits, also if it is spelled 3.0.
  std::optional<int64_t> Integer() const;
  std::optional<double> Number() const;

  // Returns no elements if the value is not an array.
  std::vector<RawJson> Elements() const;
  // Returns no members if the value is not an object.
  std::vector<std::pair<std::string, RawJson>> Members() const;

 private:
  explicit RawJson(std::string_view text) : text_(text) {}
  std::string_view text_;
};

// An object's members, found by name.
class RawObject {
 public:
  RawObject() = default;
  explicit RawObject(const RawJson& value) : value_(value), members_(value.Members()) {}
  // If a key occurs twice the last one counts, as in the providers' parsers.
  RawJson Find(std::string_view key) const;
  RawJson operator[](std::string_view key) const { return Find(key); }
  std::string String(std::string_view key) const { return Find(key).String(); }
  const std::vector<std::pair<std::string, RawJson>>& members() const { return members_; }
  const RawJson& value() const { return value_; }

 private:
  RawJson value_;
  std::vector<std::pair<std::string, RawJson>> members_;
};

}  // namespace kvgate::dialect::translate
