// UnigramTokenizer: SentencePiece's Unigram ("t5"): text is normalised by the model's own table,
// blanks are collapsed and written as U+2581, and the pieces with the highest total score are
// taken.
//
// Text offsets are mapped to tokens only at special tokens, because pieces consist of normalised
// text and may span several words.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "engine/text/tokenizer/unicode/charsmap.h"
#include "engine/text/tokenizer/unigram_model.h"
#include "engine/text/tokenizer/vocabulary_tokenizer.h"

namespace kvgate::tokenizer {

class UnigramTokenizer final : public VocabularyTokenizer {
 public:
  static Result<std::unique_ptr<Tokenizer>> Load(const modelfile::ModelFile& file);

 private:
  struct Rules {
    unicode::Charsmap charsmap;
    bool folds_spaces = false;     // a run of blanks becomes one, or none at the edges
    bool escapes_spaces = true;    // written as U+2581
    bool space_is_suffix = false;  // the added blank is at the end, not at the start
  };
  UnigramTokenizer(vocabulary::Vocabulary vocabulary, std::vector<std::string> token_bytes,
                   Rules rules);
  void EncodeFragment(const Fragment& fragment, TokenRun& run) const override;
  std::string Normalize(std::string_view text) const;

  Rules rules_;
  UnigramModel model_;
};

}  // namespace kvgate::tokenizer
