// Code points: lenient UTF-8 decoding, and the character properties behind Python's str methods.
// Thread-safe.
//
// The parser and Data guarantee valid UTF-8. An invalid byte is nevertheless treated as a character
// of its own, so that nothing reads past the end.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace kvgate::jinja::value {

struct Decoded {
  char32_t code = 0;
  size_t size = 1;  // bytes
};
// The character at `offset`. REQUIRES: offset < text.size().
Decoded DecodeAt(std::string_view text, size_t offset);
// Returns where the character that ends at `end` begins. REQUIRES: 0 < end <= text.size().
size_t CharacterBefore(std::string_view text, size_t end);
// Returns the byte offset of the index-th character, or text.size() if there are fewer.
size_t OffsetOfCharacter(std::string_view text, size_t index);

// The results of str.isalpha() and its relatives for one character.
bool IsAlpha(char32_t code);
bool IsDecimal(char32_t code);
bool IsDigit(char32_t code);
bool IsNumeric(char32_t code);
bool IsAlnum(char32_t code);
bool IsSpace(char32_t code);
bool IsPrintable(char32_t code);
bool IsUpper(char32_t code);
bool IsLower(char32_t code);
bool IsTitlecase(char32_t code);

// A character maps to one to three characters; unused places are zero.
using CaseMapping = std::array<char32_t, 3>;
CaseMapping ToLower(char32_t code);
CaseMapping ToUpper(char32_t code);
CaseMapping ToTitle(char32_t code);

}  // namespace kvgate::jinja::value
