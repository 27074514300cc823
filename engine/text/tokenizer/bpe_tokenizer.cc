#include "engine/text/tokenizer/bpe_tokenizer.h"

#include <utility>

#include "engine/text/tokenizer/vocabulary/sentencepiece_text.h"

namespace kvgate::tokenizer {

Result<std::unique_ptr<Tokenizer>> BpeTokenizer::Load(const modelfile::ModelFile& file) {
  // The pre-tokenizer determines a default of the vocabulary, so it is read first.
  std::string pre;
  if (file.Find("tokenizer.ggml.pre") != nullptr) {
    KVGATE_TRY(pre, file.GetString("tokenizer.ggml.pre"));
  }
  KVGATE_TRY(const std::string model, file.GetString("tokenizer.ggml.model"));
  if (model == "gemma4") pre = model;
  KVGATE_TRY(std::unique_ptr<split::Pretokenizer> pretokenizer, split::Pretokenizer::Create(pre));
  const split::PretokenizerFamily& family = pretokenizer->family();
  vocabulary::VocabularyDefaults defaults;
  defaults.add_bos = family.adds_bos;
  KVGATE_TRY(vocabulary::Vocabulary vocabulary, vocabulary::ReadVocabulary(file, defaults));
  vocabulary.add_bos = vocabulary.add_bos || family.always_adds_bos;
  // Only SentencePiece has the prefix; a flag left by a converter must not drop a space in Decode.
  vocabulary.add_space_prefix = false;
  const BpeModel::Alphabet alphabet =
      family.is_sentencepiece ? BpeModel::Alphabet::kCharacters : BpeModel::Alphabet::kBytes;
  std::vector<std::string> token_bytes = BpeModel::TokenBytes(vocabulary, alphabet);
  std::unique_ptr<BpeTokenizer> tokenizer(
      new BpeTokenizer(std::move(vocabulary), std::move(token_bytes), std::move(pretokenizer)));
  tokenizer->model_ =
      std::make_unique<BpeModel>(tokenizer->vocabulary(), tokenizer->token_bytes(),
                                 BpeModel::Options{.alphabet = alphabet,
                                                   .ignores_merges = family.ignores_merges,
                                                   .keeps_line_ends = family.keeps_line_ends});
  return std::unique_ptr<Tokenizer>(std::move(tokenizer));
}

BpeTokenizer::BpeTokenizer(vocabulary::Vocabulary vocabulary, std::vector<std::string> token_bytes,
                           std::unique_ptr<split::Pretokenizer> pretokenizer)
    : VocabularyTokenizer(std::move(vocabulary), std::move(token_bytes)),
      pretokenizer_(std::move(pretokenizer)) {}

void BpeTokenizer::EncodeFragment(const Fragment& fragment, TokenRun& run) const {
  std::vector<size_t> word_ends;
  word_ends.reserve(fragment.text.size() / 4 + 1);
  pretokenizer_->Split(fragment.text, word_ends);
  std::vector<vocabulary::Symbol> symbols;
  size_t begin = 0;
  for (const size_t end : word_ends) {
    const std::string_view word = fragment.text.substr(begin, end - begin);
    if (pretokenizer_->family().is_sentencepiece) {
      model_->EncodeWord(vocabulary::EscapeSpaces(word), symbols, run);
    } else {
      model_->EncodeWord(word, symbols, run);
    }
    run.MarkEnd(fragment.offset + end);
    begin = end;
  }
}

}  // namespace kvgate::tokenizer
