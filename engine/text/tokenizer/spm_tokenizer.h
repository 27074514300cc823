// SpmTokenizer: SentencePiece's BPE ("llama"): spaces are written as U+2581, the pair whose union
// has the highest score merges first, characters outside the vocabulary fall back to bytes.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include <kvgate/result.h>

#include "engine/tokenizer/pair_merger.h"
#include "engine/tokenizer/vocabulary_tokenizer.h"

namespace kvgate::tokenizer {

class SpmTokenizer final : public VocabularyTokenizer {
 public:
  static Result<std::unique_ptr<Tokenizer>> Load(const model::ModelFile& file);

 private:
  struct Tables {
    PairMerger merger;
    // A character's symbol; one that occurs in pieces but is none itself has a number >=
    // vocab_size.
    std::unordered_map<char32_t, uint32_t> characters;
    std::array<uint32_t, 128> ascii{};       // the same for the most common ones
    std::array<TokenId, 256> byte_tokens{};  // "<0x0A>"; -1 where the vocabulary has none
    bool splits_words = false;  // no piece goes on behind a space: words can be merged one by one
  };
  SpmTokenizer(Vocabulary vocabulary, std::vector<std::string> token_bytes, Tables tables);
  static Tables MakeTables(const Vocabulary& vocabulary);
  void FillWords();

  void EncodeFragment(const Fragment& fragment, TokenRun& run) const override;
  // `word`: with its spaces already written as U+2581. `symbols` is scratch.
  void EncodeWord(std::string_view word, std::vector<Symbol>& symbols, TokenRun& run) const;
  void MergeWord(std::string_view word, std::vector<Symbol>& symbols) const;
  void AppendBytes(std::string_view bytes, TokenRun& run) const;
  bool is_token(uint32_t symbol) const { return symbol < static_cast<uint32_t>(vocab_size()); }

  Tables tables_;
  WordTable words_;
};

}  // namespace kvgate::tokenizer
