// CharClass: what kind of character a code point is to the tokenizers' expressions. The table is
// made once a process from PCRE2's own properties, so that code which cuts words by hand and
// expressions agree on every character. Thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

namespace kvgate::tokenizer {

// Bits; a character has at most one of kLetter, kNumber, kMark, and kSpace none of them.
struct CharClass {
  static constexpr uint8_t kLetter = 1;  // \p{L}
  static constexpr uint8_t kNumber = 2;  // \p{N}
  static constexpr uint8_t kSpace = 4;   // White_Space
  static constexpr uint8_t kMark = 8;    // \p{M}
};

class CharClassTable {
 public:
  // The one of this process.
  static const CharClassTable& Get();

  uint8_t operator[](char32_t code_point) const {
    if (code_point > 0x10FFFF) return 0;
    return classes_[size_t{blocks_[code_point >> kBlockBits]} << kBlockBits |
                    (code_point & kBlockMask)];
  }

 private:
  CharClassTable();
  static constexpr int kBlockBits = 8;
  static constexpr char32_t kBlockMask = (1 << kBlockBits) - 1;
  // Blocks of equal content are kept once.
  uint16_t blocks_[0x110000 >> kBlockBits] = {};
  std::vector<uint8_t> classes_;
};

// White space at the edge of a part of a text: the end of the run that begins at `position`, and
// the start of the run that ends there. Bytes that are no UTF-8 are none.
size_t SkipSpaces(std::string_view text, size_t position);
size_t SkipSpacesBack(std::string_view text, size_t position);

}  // namespace kvgate::tokenizer
