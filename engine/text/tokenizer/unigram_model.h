// UnigramModel: SentencePiece's Unigram: of all ways to write a text with pieces, the one whose
// scores sum up highest. It knows neither normalisation nor special tokens in text. Immutable;
// thread-safe.
#pragma once

#include <array>
#include <optional>
#include <string_view>

#include "engine/tokenizer/byte_trie.h"
#include "engine/tokenizer/vocabulary.h"
#include "engine/tokenizer/vocabulary_tokenizer.h"

namespace kvgate::tokenizer {

class UnigramModel {
 public:
  // Keeps a reference to the vocabulary, which must have scores. Pieces are the normal, unused and
  // user-defined tokens. Where all 256 byte tokens are there, they stand for characters that no
  // piece covers; else the unknown token does, one for a row of them.
  explicit UnigramModel(const Vocabulary& vocabulary);

  // `text`: normalised, blanks as the pieces have them.
  void Encode(std::string_view text, TokenRun& run) const;

 private:
  void AppendUnknown(std::string_view bytes, TokenRun& run) const;

  const Vocabulary& vocabulary_;
  ByteTrie pieces_;
  double unknown_score_ = 0;
  std::array<TokenId, 256> byte_tokens_{};
  bool has_bytes_ = false;
};

}  // namespace kvgate::tokenizer
