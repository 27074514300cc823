// WordScanner: the expressions of the two commonest families of pre-tokenizers, GPT-2's and Llama
// 3's, as loops over characters: several times as fast as under PCRE2, and linear by construction.
// What they must equal is the expression; the test compares them. Thread-safe.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "engine/tokenizer/char_class.h"

namespace kvgate::tokenizer {

// Which words there are. Expression() is the specification.
struct WordShape {
  enum class Style {
    kGpt2,    // "'s", " word", " 123", " !?", white space but for the blank before a word
    kLlama3,  // "'S", ".word", "123", " !?\n", white space up to the last line end
  };
  Style style = Style::kGpt2;
  // The rest is for kLlama3.
  size_t digits_max = 3;            // a word has this many digits at most; 0: any number
  bool has_contractions = true;     // 's, 't, 're, 've, 'm, 'll, 'd in any case
  bool marks_are_letters = false;   // \p{M} goes with \p{L}
  bool chunks_spaces = false;       // trailing blanks in runs of 512, 256 ... 4, 2 and 1
  bool slash_ends_symbols = false;  // a slash may follow symbols where line ends may

  std::string Expression() const;
  friend bool operator==(const WordShape&, const WordShape&) = default;
};

class WordScanner {
 public:
  explicit WordScanner(const WordShape& shape) : shape_(shape), classes_(CharClassTable::Get()) {}
  // Appends offset + the end of every word of `text`. REQUIRES: text is valid UTF-8.
  void Cut(std::string_view text, size_t offset, std::vector<size_t>& ends) const;

 private:
  class Cursor;
  void CutGpt2(std::string_view text, size_t offset, std::vector<size_t>& ends) const;
  void CutLlama3(std::string_view text, size_t offset, std::vector<size_t>& ends) const;

  WordShape shape_;
  const CharClassTable& classes_;
};

}  // namespace kvgate::tokenizer
