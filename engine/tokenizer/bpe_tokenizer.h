// BpeTokenizer: byte-level BPE ("gpt2"): the pre-tokenizer cuts words, merges by rank build tokens
// from bytes within each word.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <kvgate/result.h>

#include "engine/tokenizer/pair_merger.h"
#include "engine/tokenizer/pretokenizer.h"
#include "engine/tokenizer/vocabulary_tokenizer.h"

namespace kvgate::tokenizer {

class BpeTokenizer final : public VocabularyTokenizer {
 public:
  static Result<std::unique_ptr<Tokenizer>> Load(const model::GgufFile& file);

 private:
  // A symbol that is no token (a merge on the way to longer tokens) is a number from vocab_size up.
  struct Tables {
    PairMerger merger;
    std::array<uint32_t, 256> byte_symbols{};
  };
  BpeTokenizer(Vocabulary vocabulary, std::vector<std::string> token_bytes,
               std::unique_ptr<Pretokenizer> pretokenizer, Tables tables);
  static Result<Tables> MakeTables(const Vocabulary& vocabulary);
  void FillWords();

  void EncodeFragment(const Fragment& fragment, TokenRun& run) const override;
  // Merges `word` by bytes; `symbols` is scratch.
  void MergeWord(std::string_view word, std::vector<Symbol>& symbols) const;
  void AppendByte(uint8_t byte, TokenRun& run) const;
  bool is_token(uint32_t symbol) const { return symbol < static_cast<uint32_t>(vocab_size()); }

  std::unique_ptr<Pretokenizer> pretokenizer_;
  Tables tables_;
  WordTable words_;
};

}  // namespace kvgate::tokenizer
