// WordScanner: the expressions of the two most common pre-tokenizer families, GPT-2's and Llama
// 3's, as hand-written loops: several times as fast as PCRE2, and linear by construction. A test
// compares them with the expressions. Thread-safe.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "engine/text/tokenizer/unicode/char_class.h"

namespace kvgate::tokenizer::split {

// Selects which words are cut. Expression() is the specification.
struct WordShape {
  enum class Style {
    kGpt2,    // "'s", " word", " 123", " !?", white space except the blank before a word
    kLlama3,  // "'S", ".word", "123", " !?\n", white space up to the last line end
  };
  Style style = Style::kGpt2;
  // The remaining options apply to kLlama3.
  size_t digits_max = 3;            // most digits in a word; 0: no limit
  bool has_contractions = true;     // 's, 't, 're, 've, 'm, 'll, 'd in any case
  bool marks_are_letters = false;   // \p{M} counts as \p{L}
  bool chunks_spaces = false;       // trailing blanks are cut in runs of 512, 256 ... 4, 2 and 1
  bool slash_ends_symbols = false;  // a slash may follow symbols, like line ends

  std::string Expression() const;
  friend bool operator==(const WordShape&, const WordShape&) = default;
};

class WordScanner {
 public:
  explicit WordScanner(const WordShape& shape)
      : shape_(shape), classes_(unicode::CharClassTable::Get()) {}
  // Appends offset + end of every word of `text`. REQUIRES: text is valid UTF-8.
  void Cut(std::string_view text, size_t offset, std::vector<size_t>& ends) const;

 private:
  class Cursor;
  void CutGpt2(std::string_view text, size_t offset, std::vector<size_t>& ends) const;
  void CutLlama3(std::string_view text, size_t offset, std::vector<size_t>& ends) const;

  WordShape shape_;
  const unicode::CharClassTable& classes_;
};

}  // namespace kvgate::tokenizer::split
