// JsonTokenizer: a tokenizer described by a Hugging Face tokenizer.json. Added tokens are cut out
// of the text, the rest is normalised and split into words, and BPE or Unigram encodes the words.
//
// Text offsets are mapped to tokens only at special tokens, because words may consist of normalised
// text.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "engine/text/tokenizer/bpe_model.h"
#include "engine/text/tokenizer/split/json_node.h"
#include "engine/text/tokenizer/split/normalizer.h"
#include "engine/text/tokenizer/split/word_splitter.h"
#include "engine/text/tokenizer/unigram_model.h"
#include "engine/text/tokenizer/vocabulary_tokenizer.h"

namespace kvgate::tokenizer {

class JsonTokenizer final : public VocabularyTokenizer {
 public:
  // Loads a tokenizer.json, or the folder that holds one. A tokenizer_config.json and
  // chat_template.jinja beside it, if present, define BOS, EOS and the chat template. kNotFound,
  // kIo: the file cannot be read; kDataLoss, kUnsupported: its content, named by its path in the
  // JSON.
  static Result<std::unique_ptr<Tokenizer>> Load(const std::filesystem::path& path);
  // The same from the texts under kTokenizerJsonKey and kTokenizerConfigKey. The file's own keys
  // add the chat template and the end tokens.
  static Result<std::unique_ptr<Tokenizer>> Load(const modelfile::ModelFile& file);
  // The same from texts; `config` may be empty.
  static Result<std::unique_ptr<Tokenizer>> Parse(std::string_view json, std::string_view config);

 private:
  struct Source {
    std::string_view json;
    std::string_view config;                        // empty: there is none
    std::optional<std::string_view> chat_template;  // overrides the configuration's
    std::vector<int32_t> end_tokens;                // in addition to those of the texts
  };
  static Result<std::unique_ptr<Tokenizer>> Build(const Source& source);

  // The parsed file, before the tables are built.
  struct Parts {
    vocabulary::Vocabulary vocabulary;
    std::vector<std::string> token_bytes;
    split::Normalizer normalizer;
    split::WordSplitter splitter;
    vocabulary::SpecialMatcher
        normalized_tokens;  // added tokens that are matched after normalisation
    bool is_unigram = false;
    BpeModel::Options bpe;
  };
  explicit JsonTokenizer(Parts parts);
  static Result<void> ReadModel(const split::JsonNode& root, Parts& parts);
  static Result<void> ReadAddedTokens(const split::JsonNode& root, Parts& parts);

  void EncodeFragment(const Fragment& fragment, TokenRun& run) const override;
  // `text`: normalised, without added tokens.
  void EncodeText(std::string_view text, const split::WordSplitter::Place& place,
                  TokenRun& run) const;
  void EncodeWord(std::string_view word, std::vector<vocabulary::Symbol>& scratch,
                  TokenRun& run) const;

  split::Normalizer normalizer_;
  split::WordSplitter splitter_;
  vocabulary::SpecialMatcher normalized_tokens_;
  std::unique_ptr<BpeModel> bpe_;  // exactly one of these two is set
  std::unique_ptr<UnigramModel> unigram_;
};

}  // namespace kvgate::tokenizer
