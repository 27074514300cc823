// CharClass: the class of a code point as the tokenizers' regular expressions see it. The table is
// built once per process from PCRE2's own properties, so that hand-written scanners and expressions
// agree on every character. Thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

namespace kvgate::tokenizer::unicode {

// Bit flags. A character has at most one of kLetter, kNumber and kMark; a kSpace has none of them.
struct CharClass {
  static constexpr uint8_t kLetter = 1;  // \p{L}
  static constexpr uint8_t kNumber = 2;  // \p{N}
  static constexpr uint8_t kSpace = 4;   // White_Space
  static constexpr uint8_t kMark = 8;    // \p{M}
};

class CharClassTable {
 public:
  // Returns the table of this process.
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
  // Blocks with equal content are stored once.
  uint16_t blocks_[0x110000 >> kBlockBits] = {};
  std::vector<uint8_t> classes_;
};

// Skip white space: return the end of the run that begins at `position`, or the start of the run
// that ends there. Bytes that are not UTF-8 do not count as white space.
size_t SkipSpaces(std::string_view text, size_t position);
size_t SkipSpacesBack(std::string_view text, size_t position);

}  // namespace kvgate::tokenizer::unicode
