// UnigramModel: SentencePiece's Unigram: of all ways to split a text into pieces, it takes the one
// with the highest sum of scores. It knows neither normalisation nor special tokens. Immutable;
// thread-safe.
#pragma once

#include <array>
#include <optional>
#include <string_view>

#include "engine/text/tokenizer/vocabulary/byte_trie.h"
#include "engine/text/tokenizer/vocabulary/vocabulary.h"
#include "engine/text/tokenizer/vocabulary_tokenizer.h"

namespace kvgate::tokenizer {

class UnigramModel {
 public:
  // Keeps a reference to the vocabulary, which must have scores. Pieces are the normal, unused and
  // user-defined tokens. Characters that no piece covers become byte tokens if all 256 exist;
  // otherwise a run of them becomes one unknown token.
  explicit UnigramModel(const vocabulary::Vocabulary& vocabulary);

  // `text`: normalised, with blanks written as in the pieces.
  void Encode(std::string_view text, TokenRun& run) const;

 private:
  void AppendUnknown(std::string_view bytes, TokenRun& run) const;

  const vocabulary::Vocabulary& vocabulary_;
  vocabulary::ByteTrie pieces_;
  double unknown_score_ = 0;
  std::array<TokenId, 256> byte_tokens_{};
  bool has_bytes_ = false;
};

}  // namespace kvgate::tokenizer
