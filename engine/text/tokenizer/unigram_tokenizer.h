// UnigramTokenizer: SentencePiece's Unigram ("t5"): text is normalised by the model's own table,
// blanks are folded and written as U+2581, then the highest-scoring pieces are taken.
//
// Places in the text are found again in the tokens at special tokens only: pieces stand for
// normalised text, and may reach over words.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include <kvgate/result.h>

#include "engine/tokenizer/charsmap.h"
#include "engine/text/tokenizer/unigram_model.h"
#include "engine/tokenizer/vocabulary_tokenizer.h"

namespace kvgate::tokenizer {

class UnigramTokenizer final : public VocabularyTokenizer {
 public:
  static Result<std::unique_ptr<Tokenizer>> Load(const model::ModelFile& file);

 private:
  struct Rules {
    Charsmap charsmap;
    bool folds_spaces = false;     // a run of blanks is one, at the edges none
    bool escapes_spaces = true;    // as U+2581
    bool space_is_suffix = false;  // the added blank stands at the end, not at the start
  };
  UnigramTokenizer(Vocabulary vocabulary, std::vector<std::string> token_bytes, Rules rules);
  void EncodeFragment(const Fragment& fragment, TokenRun& run) const override;
  std::string Normalize(std::string_view text) const;

  Rules rules_;
  UnigramModel model_;
};

}  // namespace kvgate::tokenizer
