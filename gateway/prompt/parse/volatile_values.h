// Volatile values: single times and ids in running text, as volatile_text looks for them. Pure.
#pragma once

#include <cstddef>
#include <optional>
#include <string_view>

#include "gateway/prompt/parse/volatile_text.h"

namespace kvgate::prompt {

inline bool IsDigit(char c) { return c >= '0' && c <= '9'; }
inline bool IsLetter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

// The value that holds the digit at `at`, the first one behind `floor`: what it begins with may
// stand in front of `at` ("Sunday, November 2…"). Nothing: the digit belongs to ordinary text.
std::optional<VolatileSpan> VolatileValue(std::string_view text, size_t at, size_t floor);

// What may stand beside a value on a line that holds only volatile values: "current", "is", "utc".
bool IsPlainWord(std::string_view word);
inline constexpr size_t kPlainWordsMax = 10;  // on one line

}  // namespace kvgate::prompt
