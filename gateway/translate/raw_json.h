// RawJson: a value of a JSON text as the bytes that stand there. A document is checked once, whole;
// after that values are views of it, and what is not asked for is not read. Numbers, escapes and
// the order of keys are whatever the text has. The text outlives the views. Pure; any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <kvgate/result.h>

namespace kvgate::translate {

class RawJson {
 public:
  // Nothing: what is absent, or null.
  RawJson() = default;
  // kInvalidArgument: not JSON in valid UTF-8, or nested deeper than kDepthMax.
  static Result<RawJson> Parse(std::string_view document);
  static constexpr int kDepthMax = 64;

  explicit operator bool() const { return !text_.empty() && text_ != "null"; }
  // As it stands there, without blanks around; of a string with its quotes.
  std::string_view text() const { return text_; }
  bool is_object() const { return text_.starts_with('{'); }
  bool is_array() const { return text_.starts_with('['); }
  bool is_string() const { return text_.starts_with('"'); }
  bool is_bool() const { return text_ == "true" || text_ == "false"; }
  bool is_true() const { return text_ == "true"; }
  bool is_number() const;

  // The text of a string; empty of anything else. A surrogate without its partner is U+FFFD.
  std::string String() const;
  // A whole number that fits; also one spelled 3.0.
  std::optional<int64_t> Integer() const;
  std::optional<double> Number() const;

  // Of anything but an array none.
  std::vector<RawJson> Elements() const;
  // Of anything but an object none.
  std::vector<std::pair<std::string, RawJson>> Members() const;

 private:
  explicit RawJson(std::string_view text) : text_(text) {}
  std::string_view text_;
};

// An object's members, to be asked for by name.
class RawObject {
 public:
  RawObject() = default;
  explicit RawObject(const RawJson& value) : value_(value), members_(value.Members()) {}
  // Of a key that stands twice the last one counts, as in the providers' parsers.
  RawJson Find(std::string_view key) const;
  RawJson operator[](std::string_view key) const { return Find(key); }
  std::string String(std::string_view key) const { return Find(key).String(); }
  const std::vector<std::pair<std::string, RawJson>>& members() const { return members_; }
  const RawJson& value() const { return value_; }

 private:
  RawJson value_;
  std::vector<std::pair<std::string, RawJson>> members_;
};

}  // namespace kvgate::translate
