// UnicodeText: Unicode normal forms and properties over UTF-8, using utf8proc's tables. Bytes that
// are not UTF-8 are unchanged. Linear time, except that long runs of marks are sorted. Thread-safe.
#pragma once

#include <string>
#include <string_view>

namespace kvgate::tokenizer::unicode {

enum class NormalForm { kNfc, kNfd, kNfkc, kNfkd };

std::string Normalize(std::string_view text, NormalForm form);
// Maps each character by Unicode's full mapping without context: İ becomes i and a dot above.
std::string LowerCase(std::string_view text);
// Removes the characters of category M, or of category Mn alone.
std::string StripMarks(std::string_view text);
std::string StripNonspacingMarks(std::string_view text);

// Returns true for Unicode's category C: controls, formats, private and unassigned characters.
bool IsOther(char32_t code_point);

// Returns true for ASCII punctuation and symbols, and for Unicode's category P.
bool IsPunctuation(char32_t code_point);
// Returns true for \w in Unicode's sense: alphabetic characters, marks, decimal digits, connectors,
// joiners.
bool IsWordCharacter(char32_t code_point);

}  // namespace kvgate::tokenizer::unicode
