#include "engine/text/tokenizer/unigram_tokenizer.h"

#include <fmt/format.h>

#include <cstdint>
#include <utility>
#include <variant>

#include "engine/text/tokenizer/bpe_model.h"
#include "engine/text/tokenizer/vocabulary/sentencepiece_text.h"

namespace kvgate::tokenizer {

using unicode::Charsmap;

namespace {

constexpr std::string_view kCharsmapKey = "tokenizer.ggml.precompiled_charsmap";
// Real pieces are shorter. The bound keeps encoding linear for a hostile file.
constexpr size_t kPieceBytesMax = 512;

Result<Charsmap> ReadCharsmap(const modelfile::ModelFile& file) {
  const modelfile::GgufValue* value = file.Find(kCharsmapKey);
  if (value == nullptr) return Charsmap();
  const auto* array = std::get_if<std::shared_ptr<const modelfile::GgufArray>>(value);
  if (array != nullptr) {
    if (const auto* bytes = std::get_if<std::vector<uint8_t>>(&(*array)->values)) {
      return Charsmap::Parse({reinterpret_cast<const char*>(bytes->data()), bytes->size()},
                             kCharsmapKey);
    }
    if (const auto* bytes = std::get_if<std::vector<int8_t>>(&(*array)->values)) {
      return Charsmap::Parse({reinterpret_cast<const char*>(bytes->data()), bytes->size()},
                             kCharsmapKey);
    }
  }
  return MakeError(ErrorCode::kDataLoss, "tokenizer",
                   fmt::format("{} is no array of bytes", kCharsmapKey));
}

Result<bool> ReadFlag(const modelfile::ModelFile& file, std::string_view name, bool fallback) {
  const std::string key = fmt::format("tokenizer.ggml.{}", name);
  if (file.Find(key) == nullptr) return fallback;
  return file.GetBool(key);
}

}  // namespace

Result<std::unique_ptr<Tokenizer>> UnigramTokenizer::Load(const modelfile::ModelFile& file) {
  KVGATE_TRY(vocabulary::Vocabulary vocabulary,
             vocabulary::ReadVocabulary(file, {.bos = std::nullopt,
                                               .eos = 1,
                                               .unknown = 2,
                                               .add_bos = false,
                                               .add_eos = true,
                                               .add_space_prefix = false}));
  if (vocabulary.scores.empty()) {
    return MakeError(ErrorCode::kDataLoss, "tokenizer",
                     "tokenizer.ggml.scores is missing; the model 't5' chooses by them");
  }
  for (size_t i = 0; i < vocabulary.texts.size(); ++i) {
    if (vocabulary.texts[i].size() <= kPieceBytesMax) continue;
    return MakeError(ErrorCode::kUnsupported, "tokenizer",
                     fmt::format("tokenizer.ggml.tokens: token {} has {} bytes; the limit is {}", i,
                                 vocabulary.texts[i].size(), kPieceBytesMax));
  }
  Rules rules;
  KVGATE_TRY(rules.charsmap, ReadCharsmap(file));
  KVGATE_TRY(rules.folds_spaces, ReadFlag(file, "remove_extra_whitespaces", false));
  KVGATE_TRY(rules.escapes_spaces, ReadFlag(file, "escape_whitespaces", true));
  KVGATE_TRY(rules.space_is_suffix, ReadFlag(file, "treat_whitespace_as_suffix", false));
  std::vector<std::string> token_bytes =
      BpeModel::TokenBytes(vocabulary, BpeModel::Alphabet::kCharacters);
  return std::unique_ptr<Tokenizer>(
      new UnigramTokenizer(std::move(vocabulary), std::move(token_bytes), std::move(rules)));
}

UnigramTokenizer::UnigramTokenizer(vocabulary::Vocabulary from, std::vector<std::string> bytes,
                                   Rules rules)
    : VocabularyTokenizer(std::move(from), std::move(bytes)),
      rules_(std::move(rules)),
      model_(vocabulary()) {}

std::string UnigramTokenizer::Normalize(std::string_view text) const {
  const std::string_view space = rules_.escapes_spaces ? vocabulary::kSpaceMark : " ";
  const bool adds_space = vocabulary().add_space_prefix;
  bool needs_prefix = adds_space && !rules_.space_is_suffix;
  bool in_word = false;
  std::string out;
  for (const char c : rules_.charsmap.Normalize(text)) {
    if (c == ' ') {
      in_word = false;
      if (!rules_.folds_spaces) out.append(space);
      continue;
    }
    if (!in_word && (needs_prefix || rules_.folds_spaces)) {
      out.append(space);
      needs_prefix = false;
    }
    in_word = true;
    out.push_back(c);
  }
  if (adds_space && rules_.space_is_suffix) out.append(space);
  return out;
}

void UnigramTokenizer::EncodeFragment(const Fragment& fragment, TokenRun& run) const {
  model_.Encode(Normalize(fragment.text), run);
  run.MarkEnd(fragment.offset + fragment.text.size());
}

}  // namespace kvgate::tokenizer
