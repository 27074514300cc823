// BpeTokenizer: byte-level BPE ("gpt2", "gemma4"): the pre-tokenizer splits text into words, and
// merges by rank build the tokens of each word.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "engine/text/tokenizer/bpe_model.h"
#include "engine/text/tokenizer/split/pretokenizer.h"
#include "engine/text/tokenizer/vocabulary_tokenizer.h"

namespace kvgate::tokenizer {

class BpeTokenizer final : public VocabularyTokenizer {
 public:
  static Result<std::unique_ptr<Tokenizer>> Load(const modelfile::ModelFile& file);

 private:
  BpeTokenizer(vocabulary::Vocabulary vocabulary, std::vector<std::string> token_bytes,
               std::unique_ptr<split::Pretokenizer> pretokenizer);
  void EncodeFragment(const Fragment& fragment, TokenRun& run) const override;

  std::unique_ptr<split::Pretokenizer> pretokenizer_;
  std::unique_ptr<BpeModel> model_;
};

}  // namespace kvgate::tokenizer
