// Recognises single times and ids in running text, for volatile_text. Pure.
#pragma once

#include <cstddef>
#include <optional>
#include <string_view>

#include "gateway/prompt/parse/volatile_text.h"

namespace kvgate::prompt::parse {

inline bool IsDigit(char c) { return c >= '0' && c <= '9'; }
inline bool IsLetter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
inline bool InWord(char c) { return IsDigit(c) || IsLetter(c) || c == '_' || c == '-'; }

// Returns the value that contains the digit at `at`, the first one behind `floor`. The value may
// begin in front of `at` ("Sunday, November 2…"). Returns nullopt if the digit belongs to ordinary
// text.
std::optional<VolatileSpan> VolatileValue(std::string_view text, size_t at, size_t floor);

// Returns true for words that may stand beside values on a volatile line: "current", "is", "utc".
bool IsPlainWord(std::string_view word);
inline constexpr size_t kPlainWordsMax = 10;  // on one line

}  // namespace kvgate::prompt::parse
