// WordPieceTokenizer: BERT's ("bert"): text is cleaned, freed of accents and written in lower case,
// split at blanks, punctuation and ideographs, and each word is cut into the longest pieces of the
// vocabulary from left to right.
//
// The vocabulary is spelled as in model files: pieces that begin a word start with U+2581, those
// that continue one do not (BERT's own files: "##"). The file does not say whether a model knows
// capitals; like other users of the format, this code takes every model for an uncased one.
//
// Text offsets are mapped to tokens only at special tokens, because pieces consist of normalised
// text.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "engine/text/tokenizer/vocabulary/byte_trie.h"
#include "engine/text/tokenizer/vocabulary_tokenizer.h"

namespace kvgate::tokenizer {

class WordPieceTokenizer final : public VocabularyTokenizer {
 public:
  // A word of more characters becomes one unknown token, as in BERT's own code.
  static constexpr size_t kWordCharactersMax = 100;

  static Result<std::unique_ptr<Tokenizer>> Load(const modelfile::ModelFile& file);

  // Returns the words of a text, normalised: a run of letters, or one punctuation mark or
  // ideograph.
  static std::vector<std::string> Words(std::string_view text);

 private:
  WordPieceTokenizer(vocabulary::Vocabulary vocabulary, std::vector<std::string> token_bytes);
  void EncodeFragment(const Fragment& fragment, TokenRun& run) const override;
  void EncodeWord(std::string_view word, TokenRun& run) const;

  vocabulary::ByteTrie heads_;  // pieces that begin a word, without their mark
  vocabulary::ByteTrie tails_;  // pieces that continue one
};

}  // namespace kvgate::tokenizer
