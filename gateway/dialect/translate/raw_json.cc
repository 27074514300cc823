#include "gateway/dialect/translate/raw_json.h"

#include <simdjson.h>

#include <algorithm>
#include <charconv>
#include <cmath>

#include "base/hex.h"
#include "engine/text/output/json_scan.h"

namespace kvgate::dialect::translate {
namespace {

constexpr std::string_view kBlanks = " \t\r\n";

// Returns the offset behind the string at the front of `text`, which includes its quotes; npos if
// it does not end.
size_t StringEnd(std::string_view text) {
  size_t at = 1;
  while (true) {
    at = text.find('"', at);
    if (at == std::string_view::npos) return at;
    size_t begin = at;
    while (text[begin - 1] == '\\') --begin;
    if ((at - begin) % 2 == 0) return at + 1;
    ++at;
  }
}

// Validates the grammar. Strings are first skipped to their end and then checked, because a few
// long strings make up most of a body.
class Checker {
 public:
  explicit Checker(std::string_view text) : text_(text) {}
  bool Whole() { return Value(0) && (Skip(), text_.empty()); }

 private:
  void Skip() { text_.remove_prefix(std::min(text_.find_first_not_of(kBlanks), text_.size())); }
  bool Take(char byte) {
    Skip();
    if (!text_.starts_with(byte)) return false;
    text_.remove_prefix(1);
    return true;
  }
  bool Word(std::string_view word) {
    if (!text_.starts_with(word)) return false;
    text_.remove_prefix(word.size());
    return true;
  }
  static bool EscapesAreRight(std::string_view text) {
    for (size_t at = text.find('\\'); at != std::string_view::npos; at = text.find('\\', at)) {
      if (at + 1 >= text.size()) return false;
      const char kind = text[at + 1];
      if (kind == 'u') {
        if (at + 6 > text.size()) return false;
        const std::string_view digits = text.substr(at + 2, 4);
        if (!std::all_of(digits.begin(), digits.end(), IsHexDigit)) return false;
      } else if (std::string_view("\"\\/bfnrt").find(kind) == std::string_view::npos) {
        return false;
      }
      at += 2;
    }
    return true;
  }
  bool String() {
    if (!text_.starts_with('"')) return false;
    const size_t end = StringEnd(text_);
    if (end == std::string_view::npos) return false;
    const std::string_view inside = text_.substr(1, end - 2);
    text_.remove_prefix(end);
    const bool control = std::any_of(inside.begin(), inside.end(),
                                     [](char c) { return static_cast<unsigned char>(c) < 0x20; });
    return !control && EscapesAreRight(inside);
  }
  size_t Digits() {
    const size_t count = std::min(text_.find_first_not_of("0123456789"), text_.size());
    text_.remove_prefix(count);
    return count;
  }
  bool Number() {
    Word("-");
    const bool zero = text_.starts_with('0');
    const size_t whole = Digits();
    if (whole == 0 || (zero && whole > 1)) return false;
    if (Word(".") && Digits() == 0) return false;
    if (Word("e") || Word("E")) {
      if (!Word("+")) Word("-");
      return Digits() > 0;
    }
    return true;
  }
  bool Value(int depth) {
    Skip();
    if (depth > RawJson::kDepthMax || text_.empty()) return false;
    switch (text_.front()) {
      case '{':
        return Items('}', true, depth);
      case '[':
        return Items(']', false, depth);
      case '"':
        return String();
      default:
        return Word("true") || Word("false") || Word("null") || Number();
    }
  }
  bool Items(char close, bool keyed, int depth) {
    text_.remove_prefix(1);
    if (Take(close)) return true;
    do {
      if (keyed) {
        Skip();
        if (!String() || !Take(':')) return false;
      }
      if (!Value(depth + 1)) return false;
    } while (Take(','));
    return Take(close);
  }

  std::string_view text_;
};

// Walks over the values of a container in a text that is known to be valid JSON.
class Walker {
 public:
  explicit Walker(std::string_view container) : rest_(container.substr(1)) {}

  // Returns false if the container has ended.
  bool AtValue() {
    Skip();
    if (rest_.front() == ',') {
      rest_.remove_prefix(1);
      Skip();
    }
    return rest_.front() != '}' && rest_.front() != ']';
  }
  void PassColon() {
    Skip();
    rest_.remove_prefix(1);
  }
  std::string_view Take() {
    Skip();
    const size_t size = SizeOf();
    const std::string_view value = rest_.substr(0, size);
    rest_.remove_prefix(size);
    return value;
  }

 private:
  void Skip() { rest_.remove_prefix(rest_.find_first_not_of(kBlanks)); }

  size_t SizeOf() const {
    const char first = rest_.front();
    if (first == '"') return StringEnd(rest_);
    if (first != '{' && first != '[') {
      return std::min(rest_.find_first_of(" \t\r\n,]}"), rest_.size());
    }
    size_t depth = 0;
    size_t at = 0;
    while (true) {
      const char c = rest_[at];
      if (c == '"') {
        at += StringEnd(rest_.substr(at));
        continue;
      }
      if (c == '{' || c == '[') ++depth;
      if ((c == '}' || c == ']') && --depth == 0) return at + 1;
      ++at;
    }
  }

  std::string_view rest_;
};

}  // namespace

Result<RawJson> RawJson::Parse(std::string_view document) {
  if (!simdjson::validate_utf8(document.data(), document.size())) {
    return MakeError(ErrorCode::kInvalidArgument, "translate", "The body is not valid UTF-8.");
  }
  if (!Checker(document).Whole()) {
    return MakeError(ErrorCode::kInvalidArgument, "translate",
                     "The body is not JSON, or is nested too deep.");
  }
  return RawJson(output::TrimBlanks(document));
}

bool RawJson::is_number() const {
  return !text_.empty() && (text_[0] == '-' || (text_[0] >= '0' && text_[0] <= '9'));
}

std::string RawJson::String() const {
  if (!is_string()) return {};
  if (text_.find('\\') == std::string_view::npos) {
    return std::string(text_.substr(1, text_.size() - 2));
  }
  return output::DecodeJsonString(text_).value_or("");
}

std::optional<double> RawJson::Number() const {
  if (!is_number()) return std::nullopt;
  double value = 0;
  const auto [end, problem] = std::from_chars(text_.data(), text_.data() + text_.size(), value);
  if (problem != std::errc() || end != text_.data() + text_.size()) return std::nullopt;
  return value;
}

std::optional<int64_t> RawJson::Integer() const {
  if (!is_number()) return std::nullopt;
  int64_t value = 0;
  const auto [end, problem] = std::from_chars(text_.data(), text_.data() + text_.size(), value);
  if (problem == std::errc() && end == text_.data() + text_.size()) return value;
  const std::optional<double> number = Number();
  constexpr double kExactMax = 9007199254740992.0;  // 2^53
  if (!number || std::abs(*number) > kExactMax || std::trunc(*number) != *number) {
    return std::nullopt;
  }
  return static_cast<int64_t>(*number);
}

std::vector<RawJson> RawJson::Elements() const {
  std::vector<RawJson> elements;
  if (!is_array()) return elements;
  Walker walker(text_);
  while (walker.AtValue()) elements.push_back(RawJson(walker.Take()));
  return elements;
}

std::vector<std::pair<std::string, RawJson>> RawJson::Members() const {
  std::vector<std::pair<std::string, RawJson>> members;
  if (!is_object()) return members;
  Walker walker(text_);
  while (walker.AtValue()) {
    std::string key = RawJson(walker.Take()).String();
    walker.PassColon();
    members.emplace_back(std::move(key), RawJson(walker.Take()));
  }
  return members;
}

RawJson RawObject::Find(std::string_view key) const {
  const auto found = std::find_if(members_.rbegin(), members_.rend(),
                                  [&](const auto& member) { return member.first == key; });
  return found == members_.rend() ? RawJson() : found->second;
}

}  // namespace kvgate::dialect::translate
