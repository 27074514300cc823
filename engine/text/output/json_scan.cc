#include "engine/text/output/json_scan.h"

#include <algorithm>
#include <cstddef>

#include "base/json_escape.h"

namespace kvgate::output {
namespace {

constexpr size_t kDepthMax = 256;
constexpr std::string_view kBlanks = " \t\r\n";

bool IsControl(char byte) { return static_cast<unsigned char>(byte) < 0x20; }

// A strict JSON validator for short texts.
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
  bool String() {
    if (!text_.starts_with('"')) return false;
    size_t end = 1;
    while (end < text_.size() && text_[end] != '"') {
      if (IsControl(text_[end])) return false;
      end += text_[end] == '\\' ? 2 : 1;
    }
    if (end >= text_.size()) return false;
    const bool read = DecodeJsonString(text_.substr(0, end + 1)).has_value();
    text_.remove_prefix(end + 1);
    return read;
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
  bool Value(size_t depth) {
    Skip();
    if (depth > kDepthMax || text_.empty()) return false;
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
  bool Items(char close, bool keyed, size_t depth) {
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

}  // namespace

ScanStatus JsonScan::StepInString(char byte, std::string& value) {
  if (IsControl(byte) && !escaped_) {
    AppendJsonEscape(byte, JsonShort::kLines, value);
    return ScanStatus::kMore;
  }
  value += byte;
  if (escaped_) {
    escaped_ = false;
  } else if (byte == '\\') {
    escaped_ = true;
  } else if (byte == '"') {
    in_string_ = false;
    if (stack_.empty()) return ScanStatus::kDone;
  }
  return ScanStatus::kMore;
}

ScanStatus JsonScan::Step(char byte, std::string& value) {
  if (in_string_) return StepInString(byte, value);
  if (scalar_ && (IsBlank(byte) || byte == ',' || byte == '}' || byte == ']')) {
    return ScanStatus::kDoneBefore;
  }
  value += byte;
  if (!begun_) {
    begun_ = true;
    const bool word = (byte >= '0' && byte <= '9') || byte == '-' || (byte >= 'A' && byte <= 'z');
    if (byte != '{' && byte != '[' && byte != '"') {
      scalar_ = word && byte != '\\' && byte != ']' && byte != '^' && byte != '`';
      return scalar_ ? ScanStatus::kMore : ScanStatus::kFailed;
    }
  }
  if (byte == '"') {
    in_string_ = true;
  } else if (byte == '{' || byte == '[') {
    if (stack_.size() >= kDepthMax) return ScanStatus::kFailed;
    stack_ += byte == '{' ? '}' : ']';
  } else if (byte == '}' || byte == ']') {
    if (stack_.empty() || stack_.back() != byte) return ScanStatus::kFailed;
    stack_.pop_back();
    if (stack_.empty()) return ScanStatus::kDone;
  }
  return ScanStatus::kMore;
}

std::string_view TrimBlanks(std::string_view text) {
  const size_t begin = text.find_first_not_of(kBlanks);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kBlanks) + 1 - begin);
}

std::optional<std::string> DecodeJsonString(std::string_view json) {
  if (json.size() < 2 || json.front() != '"' || json.back() != '"') return std::nullopt;
  const std::string_view inside = json.substr(1, json.size() - 2);
  std::string text;
  for (size_t at = 0; at < inside.size();) {
    if (inside[at] == '"') return std::nullopt;
    if (inside[at] != '\\') {
      text += inside[at++];
      continue;
    }
    const size_t length = DecodeJsonEscape(inside, at, LoneSurrogate::kReplaced, text);
    if (length == 0) return std::nullopt;
    at += length;
  }
  return text;
}

std::string EncodeJsonString(std::string_view text) {
  std::string json = "\"";
  AppendJsonEscaped(text, JsonShort::kLines, json);
  return json + "\"";
}

bool IsJson(std::string_view text) { return Checker(text).Whole(); }

}  // namespace kvgate::output
