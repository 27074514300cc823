// JsonTokenizer: a Hugging Face tokenizer.json: added tokens are cut out, text is normalised and
// cut into words, BPE or Unigram makes tokens of them.
//
// Places in the text are found again in the tokens at special tokens only: words may stand for
// normalised text.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <kvgate/result.h>

#include "engine/text/tokenizer/bpe_model.h"
#include "engine/tokenizer/json_node.h"
#include "engine/tokenizer/normalizer.h"
#include "engine/text/tokenizer/unigram_model.h"
#include "engine/tokenizer/vocabulary_tokenizer.h"
#include "engine/tokenizer/word_splitter.h"

namespace kvgate::tokenizer {

class JsonTokenizer final : public VocabularyTokenizer {
 public:
  // A tokenizer.json, or the folder that holds one. A tokenizer_config.json and chat_template.jinja
  // beside it, where they are, say what BOS, EOS and the chat template are.
  // kNotFound, kIo: the file; kDataLoss, kUnsupported: what is in it, by its path in the JSON.
  static Result<std::unique_ptr<Tokenizer>> Load(const std::filesystem::path& path);
  // The same from the texts under kTokenizerJsonKey and kTokenizerConfigKey, with what the file's
  // own keys say of the chat template and of the tokens that end an answer.
  static Result<std::unique_ptr<Tokenizer>> Load(const model::ModelFile& file);
  // The same from texts; `config` may be empty.
  static Result<std::unique_ptr<Tokenizer>> Parse(std::string_view json, std::string_view config);

 private:
  struct Source {
    std::string_view json;
    std::string_view config;                        // empty: none
    std::optional<std::string_view> chat_template;  // wins over the configuration's
    std::vector<int32_t> end_tokens;                // beside those that the texts say
  };
  static Result<std::unique_ptr<Tokenizer>> Build(const Source& source);

  // What the file says, before the tables are made.
  struct Parts {
    Vocabulary vocabulary;
    std::vector<std::string> token_bytes;
    Normalizer normalizer;
    WordSplitter splitter;
    SpecialMatcher normalized_tokens;  // added tokens that are looked for in normalised text
    bool is_unigram = false;
    BpeModel::Options bpe;
  };
  explicit JsonTokenizer(Parts parts);
  static Result<void> ReadModel(const JsonNode& root, Parts& parts);
  static Result<void> ReadAddedTokens(const JsonNode& root, Parts& parts);

  void EncodeFragment(const Fragment& fragment, TokenRun& run) const override;
  // `text`: normalised, without added tokens.
  void EncodeText(std::string_view text, const WordSplitter::Place& place, TokenRun& run) const;
  void EncodeWord(std::string_view word, std::vector<Symbol>& scratch, TokenRun& run) const;

  Normalizer normalizer_;
  WordSplitter splitter_;
  SpecialMatcher normalized_tokens_;
  std::unique_ptr<BpeModel> bpe_;  // one of the two
  std::unique_ptr<UnigramModel> unigram_;
};

}  // namespace kvgate::tokenizer
