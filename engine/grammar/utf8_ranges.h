// Ranges of characters as ranges of bytes: what an automaton over UTF-8 needs.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "engine/grammar/char_set.h"

namespace kvgate::grammar {

struct ByteRange {
  uint8_t first = 0;
  uint8_t last = 0;  // inclusive
  friend bool operator==(const ByteRange&, const ByteRange&) = default;
};

// All texts whose i-th byte is in the i-th range.
struct ByteSequence {
  std::array<ByteRange, 4> ranges = {};
  size_t length = 0;  // 1 to 4
};

// The UTF-8 of exactly the characters of the range. REQUIRES: no surrogate in it.
std::vector<ByteSequence> Utf8Sequences(CharRange range);

}  // namespace kvgate::grammar
