// Converts ranges of characters to ranges of bytes for an automaton over UTF-8.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "engine/text/grammar/rules/char_set.h"

namespace kvgate::grammar::rules {

struct ByteRange {
  uint8_t first = 0;
  uint8_t last = 0;  // inclusive
  friend bool operator==(const ByteRange&, const ByteRange&) = default;
};

// Matches all byte strings whose i-th byte is in the i-th range.
struct ByteSequence {
  std::array<ByteRange, 4> ranges = {};
  size_t length = 0;  // 1 to 4
};

// Returns the UTF-8 of exactly the characters of the range. REQUIRES: it contains no surrogates.
std::vector<ByteSequence> Utf8Sequences(CharRange range);

}  // namespace kvgate::grammar::rules
