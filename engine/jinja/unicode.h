// Code points: UTF-8 in and out, and what Python's str methods know of each character. Thread-safe.
//
// Text is valid UTF-8 wherever it comes from (parser, Data); a byte that is not is taken for a
// character of its own, so that nothing here reads past an end.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace kvgate::jinja {

struct Decoded {
  char32_t code = 0;
  size_t size = 1;  // bytes
};
// The character at `offset`. REQUIRES: offset < text.size().
Decoded DecodeAt(std::string_view text, size_t offset);
// The offset where the character that ends at `end` begins. REQUIRES: 0 < end <= text.size().
size_t CharacterBefore(std::string_view text, size_t end);
void AppendUtf8(char32_t code, std::string& out);
size_t CountCharacters(std::string_view text);
// The byte offset of the index-th character; text.size() when there are fewer.
size_t OffsetOfCharacter(std::string_view text, size_t index);
// The offset of the first byte that is not UTF-8; npos when all is well.
size_t FindInvalidUtf8(std::string_view text);

// As str.isalpha() and the like say of one character.
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

// One character may become up to three; unused places are zero.
using CaseMapping = std::array<char32_t, 3>;
CaseMapping ToLower(char32_t code);
CaseMapping ToUpper(char32_t code);
CaseMapping ToTitle(char32_t code);

}  // namespace kvgate::jinja
