// UTF-8, byte by byte: where characters begin, what is ill-formed, what is merely not finished yet.
// Well-formed as in the Unicode Standard, table 3-7: no surrogates, no overlong forms.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace kvgate::tokenizer {

enum class Utf8Status : uint8_t {
  kValid,       // `length` bytes are one character
  kInvalid,     // `length` bytes are the longest ill-formed part that one U+FFFD replaces
  kIncomplete,  // all `length` bytes there are begin a character whose end is missing
};

struct Utf8Step {
  Utf8Status status = Utf8Status::kInvalid;
  uint32_t length = 0;
  char32_t code_point = 0;  // with kValid
};

// The character at the start of `text`. REQUIRES: text not empty.
Utf8Step NextUtf8(std::string_view text);
// Bytes of the longest well-formed prefix.
size_t ValidUtf8Bytes(std::string_view text);
void AppendUtf8(char32_t code_point, std::string& out);

// Appends `text` to `out` with each ill-formed part as U+FFFD, up to a character that is incomplete
// at the end. Returns the number of bytes taken.
size_t AppendValidUtf8(std::string_view text, std::string& out);

inline constexpr std::string_view kReplacementCharacter = "\xEF\xBF\xBD";

}  // namespace kvgate::tokenizer
