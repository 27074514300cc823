#include "engine/reply/json_scan.h"

#include <charconv>
#include <cstddef>

namespace kvgate::reply {
namespace {

constexpr size_t kDepthMax = 256;
constexpr std::string_view kBlanks = " \t\r\n";

// Control characters, which JSON wants escaped.
void AppendEscaped(char byte, std::string& out) {
  switch (byte) {
    case '\n':
      out += "\\n";
      return;
    case '\r':
      out += "\\r";
      return;
    case '\t':
      out += "\\t";
      return;
    default:
      break;
  }
  constexpr std::string_view kDigits = "0123456789abcdef";
  const auto code = static_cast<unsigned char>(byte);
  out += "\\u00";
  out += kDigits[code >> 4U];
  out += kDigits[code & 15U];
}

bool IsControl(char byte) { return static_cast<unsigned char>(byte) < 0x20; }

// Four hex digits at the front, taken away.
std::optional<uint32_t> TakeHex(std::string_view& text) {
  uint32_t code = 0;
  if (text.size() < 4) return std::nullopt;
  const auto [end, problem] = std::from_chars(text.data(), text.data() + 4, code, 16);
  if (problem != std::errc() || end != text.data() + 4) return std::nullopt;
  text.remove_prefix(4);
  return code;
}

// Behind "\u". A surrogate without its partner becomes U+FFFD.
bool TakeUnicode(std::string_view& text, std::string& out) {
  std::optional<uint32_t> code = TakeHex(text);
  if (!code) return false;
  if (*code >= 0xD800 && *code < 0xDC00 && text.starts_with("\\u")) {
    std::string_view rest = text.substr(2);
    const std::optional<uint32_t> low = TakeHex(rest);
    if (low && *low >= 0xDC00 && *low < 0xE000) {
      text = rest;
      code = 0x10000 + ((*code - 0xD800) << 10) + (*low - 0xDC00);
    }
  }
  if (*code >= 0xD800 && *code < 0xE000) code = 0xFFFD;
  AppendUtf8(*code, out);
  return true;
}

// A strict reader of the grammar, for short texts.
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
    AppendEscaped(byte, value);
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
  std::string_view rest = json.substr(1, json.size() - 2);
  std::string text;
  while (!rest.empty()) {
    const char byte = rest.front();
    rest.remove_prefix(1);
    if (byte == '"') return std::nullopt;
    if (byte != '\\') {
      text += byte;
      continue;
    }
    if (rest.empty()) return std::nullopt;
    const char kind = rest.front();
    rest.remove_prefix(1);
    constexpr std::string_view kKinds = "\"\\/bfnrt";
    constexpr std::string_view kMeant = "\"\\/\b\f\n\r\t";
    if (const size_t index = kKinds.find(kind); index != std::string_view::npos) {
      text += kMeant[index];
    } else if (kind != 'u' || !TakeUnicode(rest, text)) {
      return std::nullopt;
    }
  }
  return text;
}

std::string EncodeJsonString(std::string_view text) {
  std::string json = "\"";
  for (const char byte : text) {
    if (IsControl(byte)) {
      AppendEscaped(byte, json);
      continue;
    }
    if (byte == '"' || byte == '\\') json += '\\';
    json += byte;
  }
  return json + "\"";
}

void AppendUtf8(uint32_t code, std::string& out) {
  const auto put = [&](uint32_t byte) { out += static_cast<char>(byte); };
  if (code < 0x80) {
    put(code);
  } else if (code < 0x800) {
    put(0xC0 | code >> 6);
    put(0x80 | (code & 0x3F));
  } else if (code < 0x10000) {
    put(0xE0 | code >> 12);
    put(0x80 | (code >> 6 & 0x3F));
    put(0x80 | (code & 0x3F));
  } else {
    put(0xF0 | code >> 18);
    put(0x80 | (code >> 12 & 0x3F));
    put(0x80 | (code >> 6 & 0x3F));
    put(0x80 | (code & 0x3F));
  }
}

bool IsJson(std::string_view text) { return Checker(text).Whole(); }

}  // namespace kvgate::reply
