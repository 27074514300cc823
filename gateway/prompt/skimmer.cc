#include "gateway/prompt/skimmer.h"

#include <array>

namespace kvgate::prompt {
namespace {

// Bytes that end a run inside an object or a list, outside of strings.
constexpr std::array<bool, 256> kStructural = [] {
  std::array<bool, 256> table{};
  for (const char c : {'"', '{', '}', '[', ']'}) table[static_cast<unsigned char>(c)] = true;
  return table;
}();

int HexDigit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

// Four hex digits at `at`; -1: there are none.
int32_t HexUnit(std::string_view json, size_t at) {
  if (at + 4 > json.size()) return -1;
  int32_t unit = 0;
  for (size_t i = at; i < at + 4; ++i) {
    const int digit = HexDigit(json[i]);
    if (digit < 0) return -1;
    unit = unit * 16 + digit;
  }
  return unit;
}

void AppendUtf8(uint32_t code, std::string& text) {
  if (code < 0x80) {
    text += static_cast<char>(code);
  } else if (code < 0x800) {
    text += static_cast<char>(0xC0 | code >> 6);
    text += static_cast<char>(0x80 | (code & 0x3F));
  } else if (code < 0x10000) {
    text += static_cast<char>(0xE0 | code >> 12);
    text += static_cast<char>(0x80 | (code >> 6 & 0x3F));
    text += static_cast<char>(0x80 | (code & 0x3F));
  } else {
    text += static_cast<char>(0xF0 | code >> 18);
    text += static_cast<char>(0x80 | (code >> 12 & 0x3F));
    text += static_cast<char>(0x80 | (code >> 6 & 0x3F));
    text += static_cast<char>(0x80 | (code & 0x3F));
  }
}

// The escape whose backslash stands at `at`; how many bytes it has, 0: it is none.
size_t DecodeEscape(std::string_view json, size_t at, std::string& text) {
  if (at + 1 >= json.size()) return 0;
  static constexpr std::string_view kNames = "\"\\/bfnrt";
  static constexpr std::string_view kBytes = "\"\\/\b\f\n\r\t";
  const size_t plain = kNames.find(json[at + 1]);
  if (plain != std::string_view::npos) {
    text += kBytes[plain];
    return 2;
  }
  const int32_t first = json[at + 1] == 'u' ? HexUnit(json, at + 2) : -1;
  if (first < 0) return 0;
  if (first >= 0xD800 && first < 0xDC00 && json.substr(at + 6, 2) == "\\u") {
    const int32_t second = HexUnit(json, at + 8);
    if (second >= 0xDC00 && second < 0xE000) {
      AppendUtf8(0x10000 + ((first - 0xD800) << 10) + (second - 0xDC00), text);
      return 12;
    }
  }
  AppendUtf8(first, text);
  return 6;
}

}  // namespace

bool Skimmer::SkipString() {
  // Only quotes are looked for; one behind an odd run of backslashes does not end the string.
  const size_t begin = at_ + 1;
  size_t from = begin;
  while (from < text_.size()) {
    const void* found = std::memchr(text_.data() + from, '"', text_.size() - from);
    if (found == nullptr) return false;
    const size_t quote = static_cast<const char*>(found) - text_.data();
    size_t slashes = 0;
    while (quote - slashes > begin && text_[quote - slashes - 1] == '\\') ++slashes;
    from = quote + 1;
    if (slashes % 2 == 0) {
      at_ = from;
      return true;
    }
  }
  return false;
}

bool Skimmer::SkipNested() {
  size_t depth = 0;
  while (at_ < text_.size()) {
    const char c = text_[at_];
    if (!kStructural[static_cast<unsigned char>(c)]) {
      ++at_;
    } else if (c == '"') {
      if (!SkipString()) return false;
    } else {
      depth += c == '{' || c == '[' ? 1 : -1;
      ++at_;
      if (depth == 0) return true;
    }
  }
  return false;
}

std::optional<Span> Skimmer::String() {
  if (at_ >= text_.size() || text_[at_] != '"') return std::nullopt;
  const uint32_t begin = at();
  if (!SkipString()) return std::nullopt;
  return Span{begin, at()};
}

std::optional<Span> Skimmer::Value() {
  const char first = Peek();
  const uint32_t begin = at();
  if (first == '"') return String();
  if (first == '{' || first == '[') {
    if (!SkipNested()) return std::nullopt;
    return Span{begin, at()};
  }
  while (at_ < text_.size() && !IsSpace(text_[at_]) && text_[at_] != ',' && text_[at_] != '}' &&
         text_[at_] != ']') {
    ++at_;
  }
  if (at() == begin) return std::nullopt;
  return Span{begin, at()};
}

bool DecodeString(std::string_view json, std::string& text, std::vector<uint32_t>* offsets) {
  if (json.size() < 2 || json.front() != '"' || json.back() != '"') return false;
  const std::string_view inside = json.substr(0, json.size() - 1);
  const size_t text_begin = text.size();
  size_t at = 1;
  while (at < inside.size()) {
    size_t run = at;
    while (run < inside.size() && inside[run] != '\\' && inside[run] != '"' &&
           static_cast<unsigned char>(inside[run]) >= 0x20) {
      ++run;
    }
    text.append(inside, at, run - at);
    if (offsets != nullptr) {
      for (size_t i = at; i < run; ++i) offsets->push_back(static_cast<uint32_t>(i));
    }
    at = run;
    if (at == inside.size()) break;
    if (inside[at] != '\\') return false;
    const size_t size = DecodeEscape(inside, at, text);
    if (size == 0) return false;
    if (offsets != nullptr) offsets->resize(text.size() - text_begin, static_cast<uint32_t>(at));
    at += size;
  }
  if (offsets != nullptr) offsets->push_back(static_cast<uint32_t>(json.size() - 1));
  return true;
}

bool NameIs(std::string_view raw, std::string_view key) {
  if (raw == key) return true;
  if (raw.find('\\') == std::string_view::npos) return false;
  std::string text;
  return DecodeString("\"" + std::string(raw) + "\"", text) && text == key;
}

Span MemberSpan(std::string_view text, const Skimmer::Name& name, uint32_t value_end, bool first) {
  if (!first && name.comma) return {*name.comma, value_end};
  Skimmer behind(text, value_end);
  const bool more = behind.Take(',');
  behind.SkipSpace();
  return {name.span.begin - 1, more ? behind.at() : value_end};
}

}  // namespace kvgate::prompt
