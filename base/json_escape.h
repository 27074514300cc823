// The escapes of JSON strings, for readers and writers of JSON that differ in everything else.
// What is not escaped is copied byte by byte. Thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/hex.h"
#include "base/utf8.h"

namespace kvgate {

// The characters that have a short escape besides quotes and backslashes; others become \u00xx.
// Writers differ, and what they have written must stay the same for the caches of providers.
enum class JsonShort : uint8_t {
  kNone,
  kLines,  // \n, \r and \t
  kAll,    // \b and \f too
};

// Appends the escape of one ASCII character.
inline void AppendJsonEscape(char c, JsonShort shorts, std::string& out) {
  const bool has_lines = shorts != JsonShort::kNone;
  const bool has_all = shorts == JsonShort::kAll;
  char name = 0;
  switch (c) {
    case '"':
    case '\\':
      name = c;
      break;
    case '\n':
      name = has_lines ? 'n' : '\0';
      break;
    case '\r':
      name = has_lines ? 'r' : '\0';
      break;
    case '\t':
      name = has_lines ? 't' : '\0';
      break;
    case '\b':
      name = has_all ? 'b' : '\0';
      break;
    case '\f':
      name = has_all ? 'f' : '\0';
      break;
    default:
      break;
  }
  if (name != 0) {
    out += '\\';
    out += name;
    return;
  }
  const auto byte = static_cast<unsigned char>(c);
  out += "\\u00";
  out += kHexDigits[byte >> 4];
  out += kHexDigits[byte & 15];
}

// Appends `text` with control characters, quotes and backslashes escaped.
inline void AppendJsonEscaped(std::string_view text, JsonShort shorts, std::string& out) {
  for (const char c : text) {
    if (static_cast<unsigned char>(c) < 0x20 || c == '"' || c == '\\') {
      AppendJsonEscape(c, shorts, out);
    } else {
      out += c;
    }
  }
}

// Tells what a surrogate without its partner becomes.
enum class LoneSurrogate : uint8_t {
  kReplaced,  // by U+FFFD
  kKept,      // as three ill-formed bytes, which no other escape becomes
};

// Returns the value of the four hex digits at `at`; -1 if there are none.
inline int32_t JsonHexUnit(std::string_view json, size_t at) {
  if (at + 4 > json.size()) return -1;
  int32_t unit = 0;
  for (size_t i = at; i < at + 4; ++i) {
    const int digit = HexDigit(json[i]);
    if (digit < 0) return -1;
    unit = unit * 16 + digit;
  }
  return unit;
}

// Decodes the escape whose backslash is at `at`. Returns its length in bytes, or 0 if it is
// invalid.
inline size_t DecodeJsonEscape(std::string_view json, size_t at, LoneSurrogate lone,
                               std::string& text) {
  if (at + 1 >= json.size()) return 0;
  constexpr std::string_view kNames = "\"\\/bfnrt";
  constexpr std::string_view kBytes = "\"\\/\b\f\n\r\t";
  const size_t plain = kNames.find(json[at + 1]);
  if (plain != std::string_view::npos) {
    text += kBytes[plain];
    return 2;
  }
  const int32_t first = json[at + 1] == 'u' ? JsonHexUnit(json, at + 2) : -1;
  if (first < 0) return 0;
  if (first >= 0xD800 && first < 0xDC00 && json.substr(at + 6, 2) == "\\u") {
    const int32_t second = JsonHexUnit(json, at + 8);
    if (second >= 0xDC00 && second < 0xE000) {
      const int32_t both = 0x10000 + ((first - 0xD800) << 10) + (second - 0xDC00);
      AppendUtf8(static_cast<char32_t>(both), text);
      return 12;
    }
  }
  const bool is_replaced = lone == LoneSurrogate::kReplaced && first >= 0xD800 && first < 0xE000;
  AppendUtf8(is_replaced ? U'\uFFFD' : static_cast<char32_t>(first), text);
  return 6;
}

}  // namespace kvgate
