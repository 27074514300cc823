// UTF-8: decoding, checking, cutting and writing. Well-formed is what the Unicode Standard says in
// table 3-7: no surrogates, no overlong forms. Thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace kvgate {

enum class Utf8Status : uint8_t {
  kValid,       // `length` bytes are one character
  kInvalid,     // `length` bytes are the longest ill-formed part that one U+FFFD replaces
  kIncomplete,  // the text ends after `length` bytes, inside a character
};

struct Utf8Step {
  Utf8Status status = Utf8Status::kInvalid;
  uint32_t length = 0;
  char32_t code_point = 0;  // with kValid
};

// The bytes are a variable because a literal may have another address in each translation unit, so
// that a loop might begin in one and end in another.
inline constexpr char kReplacementBytes[] = "\xEF\xBF\xBD";
inline constexpr std::string_view kReplacementCharacter = kReplacementBytes;

// Returns true for the bytes of a character behind its first one.
constexpr bool IsUtf8Continuation(char byte) {
  return (static_cast<unsigned char>(byte) & 0xC0) == 0x80;
}

// Decodes the character at the start of `text`. REQUIRES: text is not empty.
inline Utf8Step NextUtf8(std::string_view text) {
  const auto lead = static_cast<uint8_t>(text[0]);
  if (lead < 0x80) return {.status = Utf8Status::kValid, .length = 1, .code_point = lead};
  if (lead < 0xC2 || lead > 0xF4) return {.status = Utf8Status::kInvalid, .length = 1};
  const uint32_t length = lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
  // E0 80.. and F0 80.. would be overlong, ED A0.. a surrogate, F4 90.. beyond U+10FFFF.
  const uint8_t second_min = lead == 0xE0 ? 0xA0 : lead == 0xF0 ? 0x90 : 0x80;
  const uint8_t second_max = lead == 0xED ? 0x9F : lead == 0xF4 ? 0x8F : 0xBF;
  char32_t code_point = lead & (0x7Fu >> length);
  for (uint32_t i = 1; i < length; ++i) {
    if (i == text.size()) return {.status = Utf8Status::kIncomplete, .length = i};
    const auto byte = static_cast<uint8_t>(text[i]);
    const uint8_t low = i == 1 ? second_min : 0x80;
    const uint8_t high = i == 1 ? second_max : 0xBF;
    if (byte < low || byte > high) return {.status = Utf8Status::kInvalid, .length = i};
    code_point = (code_point << 6) | (byte & 0x3Fu);
  }
  return {.status = Utf8Status::kValid, .length = length, .code_point = code_point};
}

// Returns the length in bytes of the longest well-formed prefix.
size_t ValidUtf8Bytes(std::string_view text);
inline bool IsValidUtf8(std::string_view text) { return ValidUtf8Bytes(text) == text.size(); }

// Appends `text` to `out` with each ill-formed part as U+FFFD, but stops at an incomplete character
// at the end. Returns the number of bytes consumed.
size_t AppendValidUtf8(std::string_view text, std::string& out);

// Appends one code point. A number that is no character becomes ill-formed bytes.
inline void AppendUtf8(char32_t code_point, std::string& out) {
  const auto put = [&](char32_t byte) { out += static_cast<char>(byte); };
  if (code_point < 0x80) {
    put(code_point);
  } else if (code_point < 0x800) {
    put(0xC0 | code_point >> 6);
    put(0x80 | (code_point & 0x3F));
  } else if (code_point < 0x10000) {
    put(0xE0 | code_point >> 12);
    put(0x80 | (code_point >> 6 & 0x3F));
    put(0x80 | (code_point & 0x3F));
  } else {
    put(0xF0 | code_point >> 18);
    put(0x80 | (code_point >> 12 & 0x3F));
    put(0x80 | (code_point >> 6 & 0x3F));
    put(0x80 | (code_point & 0x3F));
  }
}

// Returns the number of characters. Bytes that are not UTF-8 count unless they look like
// continuation bytes.
inline size_t CountUtf8Characters(std::string_view text) {
  // Continuation bytes are those below -64. The loop has no branches, so that it is vectorised.
  size_t count = 0;
  for (const char byte : text) count += static_cast<signed char>(byte) >= -64 ? 1 : 0;
  return count;
}

// Returns the last position at or before `at` that is not inside a character.
// REQUIRES: at <= text.size().
inline size_t Utf8CutBefore(std::string_view text, size_t at) {
  while (at > 0 && at < text.size() && IsUtf8Continuation(text[at])) --at;
  return at;
}

}  // namespace kvgate
