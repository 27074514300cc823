// SpmTokenizer: SentencePiece's BPE ("llama"): spaces are written as U+2581, the pair whose union
// has the highest score is merged first, and characters outside the vocabulary fall back to bytes.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/result.h"
#include "engine/text/tokenizer/vocabulary/pair_merger.h"
#include "engine/text/tokenizer/vocabulary_tokenizer.h"

namespace kvgate::tokenizer {

class SpmTokenizer final : public VocabularyTokenizer {
 public:
  static Result<std::unique_ptr<Tokenizer>> Load(const modelfile::ModelFile& file);

 private:
  struct Tables {
    vocabulary::PairMerger merger;
    // The symbol of a character. A character that occurs in pieces but is not a piece has a number
    // >= vocab_size.
    std::unordered_map<char32_t, uint32_t> characters;
    std::array<uint32_t, 128> ascii{};       // the same for ASCII, which is most common
    std::array<TokenId, 256> byte_tokens{};  // "<0x0A>"; -1 if the vocabulary has none
    bool splits_words = false;  // no piece crosses into the next word: words are merged one by one
  };
  SpmTokenizer(vocabulary::Vocabulary vocabulary, std::vector<std::string> token_bytes,
               Tables tables);
  static Tables MakeTables(const vocabulary::Vocabulary& vocabulary);
  void FillWords();

  void EncodeFragment(const Fragment& fragment, TokenRun& run) const override;
  // `word`: with its spaces already written as U+2581. `symbols` is scratch memory.
  void EncodeWord(std::string_view word, std::vector<vocabulary::Symbol>& symbols,
                  TokenRun& run) const;
  void MergeWord(std::string_view word, std::vector<vocabulary::Symbol>& symbols) const;
  void AppendBytes(std::string_view bytes, TokenRun& run) const;
  bool is_token(uint32_t symbol) const { return symbol < static_cast<uint32_t>(vocab_size()); }

  Tables tables_;
  vocabulary::WordTable words_;
};

}  // namespace kvgate::tokenizer
