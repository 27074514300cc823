// BpeTokenizer: byte-level BPE ("gpt2", "gemma4"): the pre-tokenizer cuts words, merges by rank
// build tokens within each word.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include <kvgate/result.h>

#include "engine/text/tokenizer/bpe_model.h"
#include "engine/text/tokenizer/split/pretokenizer.h"
#include "engine/tokenizer/vocabulary_tokenizer.h"

namespace kvgate::tokenizer {

class BpeTokenizer final : public VocabularyTokenizer {
 public:
  static Result<std::unique_ptr<Tokenizer>> Load(const model::ModelFile& file);

 private:
  BpeTokenizer(Vocabulary vocabulary, std::vector<std::string> token_bytes,
               std::unique_ptr<Pretokenizer> pretokenizer);
  void EncodeFragment(const Fragment& fragment, TokenRun& run) const override;

  std::unique_ptr<Pretokenizer> pretokenizer_;
  std::unique_ptr<BpeModel> model_;
};

}  // namespace kvgate::tokenizer
