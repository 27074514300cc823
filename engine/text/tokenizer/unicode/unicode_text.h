// UnicodeText: Unicode's normal forms and properties over UTF-8, by utf8proc's tables. Bytes that
// are no UTF-8 stay as they are. Linear but for sorting long rows of marks. Thread-safe.
#pragma once

#include <string>
#include <string_view>

namespace kvgate::tokenizer {

enum class NormalForm { kNfc, kNfd, kNfkc, kNfkd };

std::string Normalize(std::string_view text, NormalForm form);
// Character by character, as Unicode's full mapping without context: İ becomes i and a dot above.
std::string LowerCase(std::string_view text);
// Without the characters of category M.
std::string StripMarks(std::string_view text);

// ASCII punctuation and symbols, and Unicode's category P.
bool IsPunctuation(char32_t code_point);
// What \w means in Unicode's terms: what is alphabetic, marks, decimal digits, connectors, joiners.
bool IsWordCharacter(char32_t code_point);

}  // namespace kvgate::tokenizer
