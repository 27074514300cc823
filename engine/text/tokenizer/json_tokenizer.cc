#include "engine/text/tokenizer/json_tokenizer.h"

#include <fmt/format.h>

#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <system_error>
#include <utility>

#include "base/utf8.h"
#include "engine/text/tokenizer/json_vocabulary.h"

namespace kvgate::tokenizer {

using split::JsonNode;
using split::WordSplitter;

namespace {

namespace fs = std::filesystem;

constexpr size_t kFileBytesMax = size_t{256} << 20;  // the largest known file has 35 MB

Result<std::string> ReadFile(const fs::path& path) {
  std::error_code code;
  const uintmax_t size = fs::file_size(path, code);
  if (code) {
    return MakeError(ErrorCode::kNotFound, "tokenizer",
                     fmt::format("cannot open {}: {}", path.string(), code.message()));
  }
  if (size > kFileBytesMax) {
    return MakeError(
        ErrorCode::kUnsupported, "tokenizer",
        fmt::format("{} has {} bytes; the limit is {}", path.string(), size, kFileBytesMax));
  }
  std::ifstream in(path, std::ios::binary);
  std::string text((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
  if (!in) {
    return MakeError(ErrorCode::kIo, "tokenizer", fmt::format("cannot read {}", path.string()));
  }
  return text;
}

Result<nlohmann::json> ParseJson(std::string_view text, std::string_view name) {
  nlohmann::json json = nlohmann::json::parse(text, nullptr, false);
  if (json.is_discarded() || !json.is_object()) {
    return MakeError(ErrorCode::kDataLoss, "tokenizer", fmt::format("{} is no JSON object", name));
  }
  return json;
}

// Moves BOS from the template's prefix to add_bos, so that callers can leave it out.
void NameBos(vocabulary::Vocabulary& vocabulary) {
  if (vocabulary.prefix.empty()) return;
  if (!vocabulary.bos) vocabulary.bos = vocabulary.prefix.front();
  if (*vocabulary.bos != vocabulary.prefix.front()) return;
  vocabulary.add_bos = true;
  vocabulary.prefix.erase(vocabulary.prefix.begin());
}

}  // namespace

Result<std::unique_ptr<Tokenizer>> JsonTokenizer::Load(const fs::path& path) {
  std::error_code code;
  const fs::path file = fs::is_directory(path, code) ? path / "tokenizer.json" : path;
  KVGATE_TRY(const std::string json, ReadFile(file));
  std::string config;
  const fs::path config_path = file.parent_path() / "tokenizer_config.json";
  if (fs::exists(config_path, code)) {
    KVGATE_TRY(config, ReadFile(config_path));
  }
  const fs::path template_path = file.parent_path() / "chat_template.jinja";
  std::string chat_template;
  Source source = {.json = json, .config = config, .chat_template = {}, .end_tokens = {}};
  if (fs::exists(template_path, code)) {
    KVGATE_TRY(chat_template, ReadFile(template_path));
    source.chat_template = chat_template;
  }
  return Build(source);
}

Result<std::unique_ptr<Tokenizer>> JsonTokenizer::Load(const modelfile::ModelFile& file) {
  const auto text_of = [&file](std::string_view key) -> const std::string* {
    const modelfile::GgufValue* value = file.Find(key);
    return value == nullptr ? nullptr : std::get_if<std::string>(value);
  };
  const std::string* json = text_of(modelfile::kTokenizerJsonKey);
  if (json == nullptr) {
    return MakeError(
        ErrorCode::kDataLoss, "tokenizer",
        fmt::format("metadata '{}' is missing or no text", modelfile::kTokenizerJsonKey));
  }
  Source source = {.json = *json, .config = {}, .chat_template = {}, .end_tokens = {}};
  if (const std::string* config = text_of(modelfile::kTokenizerConfigKey)) source.config = *config;
  if (const std::string* text = text_of("tokenizer.chat_template")) source.chat_template = *text;
  if (file.Find(modelfile::kEndTokensKey) != nullptr) {
    KVGATE_TRY(source.end_tokens, file.GetIntegers(modelfile::kEndTokensKey));
  }
  return Build(source);
}

Result<void> JsonTokenizer::ReadModel(const JsonNode& root, Parts& parts) {
  const JsonNode model = root.At("model");
  KVGATE_TRY_VOID(ReadJsonModel(model, parts.vocabulary));
  parts.is_unigram = !parts.vocabulary.scores.empty();
  parts.bpe.alphabet =
      parts.splitter.is_byte_level() ? BpeModel::Alphabet::kBytes : BpeModel::Alphabet::kCharacters;
  parts.bpe.replaces_lost_bytes = parts.splitter.is_byte_level();
  KVGATE_TRY(parts.bpe.ignores_merges, model.Bool("ignore_merges", false));
  KVGATE_TRY(parts.bpe.fuses_unknown, model.Bool("fuse_unk", false));
  KVGATE_TRY(parts.bpe.falls_back_to_bytes, model.Bool("byte_fallback", false));
  return {};
}

Result<void> JsonTokenizer::ReadAddedTokens(const JsonNode& root, Parts& parts) {
  vocabulary::Vocabulary& vocabulary = parts.vocabulary;
  KVGATE_TRY(const std::vector<AddedToken> added, tokenizer::ReadAddedTokens(root, vocabulary));
  for (const AddedToken& token : added) {
    const std::string& text = vocabulary.texts[static_cast<size_t>(token.id)];
    if (token.is_normalized && !parts.normalizer.empty()) {
      parts.normalized_tokens.Add(parts.normalizer.Apply(text), token.id, false);
    } else {
      vocabulary.specials.Add(text, token.id, token.is_special);
    }
  }
  return {};
}

Result<std::unique_ptr<Tokenizer>> JsonTokenizer::Parse(std::string_view json,
                                                        std::string_view config) {
  return Build({.json = json, .config = config, .chat_template = {}, .end_tokens = {}});
}

Result<std::unique_ptr<Tokenizer>> JsonTokenizer::Build(const Source& source) {
  KVGATE_TRY(const nlohmann::json json, ParseJson(source.json, "tokenizer.json"));
  const JsonNode root(json, "");
  Parts parts;
  KVGATE_TRY(parts.normalizer, split::Normalizer::FromJson(root.At("normalizer")));
  KVGATE_TRY(parts.splitter, WordSplitter::FromJson(root.At("pre_tokenizer")));
  KVGATE_TRY_VOID(ReadModel(root, parts));
  KVGATE_TRY_VOID(ReadAddedTokens(root, parts));
  vocabulary::Vocabulary& vocabulary = parts.vocabulary;
  KVGATE_TRY_VOID(ReadPostProcessor(root.At("post_processor"), vocabulary));
  if (!source.config.empty()) {
    KVGATE_TRY(const nlohmann::json config, ParseJson(source.config, "tokenizer_config.json"));
    KVGATE_TRY_VOID(ReadTokenizerConfig(JsonNode(config, "tokenizer_config"), vocabulary));
  }
  if (source.chat_template) vocabulary.chat_template = *source.chat_template;
  NameBos(vocabulary);
  KVGATE_TRY(parts.token_bytes,
             ReadDecoder(root.At("decoder"), parts.splitter.is_byte_level(), vocabulary));
  vocabulary.MarkEndTexts();
  if (vocabulary.eos) vocabulary.end_of_generation[static_cast<size_t>(*vocabulary.eos)] = true;
  for (const TokenId token : source.end_tokens) {
    if (vocabulary.contains(token)) vocabulary.end_of_generation[static_cast<size_t>(token)] = true;
  }
  // Everything besides the tokens that affects Encode, for the fingerprint.
  nlohmann::json rules = {json.value("normalizer", nlohmann::json()),
                          json.value("pre_tokenizer", nlohmann::json()), parts.bpe.ignores_merges,
                          parts.bpe.fuses_unknown, parts.bpe.falls_back_to_bytes};
  vocabulary.pre = rules.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  return std::unique_ptr<Tokenizer>(new JsonTokenizer(std::move(parts)));
}

JsonTokenizer::JsonTokenizer(Parts parts)
    : VocabularyTokenizer(std::move(parts.vocabulary), std::move(parts.token_bytes)),
      normalizer_(std::move(parts.normalizer)),
      splitter_(std::move(parts.splitter)),
      normalized_tokens_(std::move(parts.normalized_tokens)) {
  if (parts.is_unigram) {
    unigram_ = std::make_unique<UnigramModel>(vocabulary());
  } else {
    bpe_ = std::make_unique<BpeModel>(vocabulary(), token_bytes(), parts.bpe);
  }
}

void JsonTokenizer::EncodeWord(std::string_view word, std::vector<vocabulary::Symbol>& scratch,
                               TokenRun& run) const {
  if (bpe_ != nullptr) {
    bpe_->EncodeWord(word, scratch, run);
  } else {
    unigram_->Encode(word, run);
  }
}

void JsonTokenizer::EncodeText(std::string_view text, const WordSplitter::Place& place,
                               TokenRun& run) const {
  std::vector<vocabulary::Symbol> scratch;
  const WordSplitter::Words words = splitter_.Split(text, place);
  for (const std::string_view word : words.words) EncodeWord(word, scratch, run);
}

void JsonTokenizer::EncodeFragment(const Fragment& fragment, TokenRun& run) const {
  std::vector<vocabulary::Symbol> scratch;
  std::string_view rest = fragment.text;
  for (bool continues = false; !rest.empty(); continues = true) {
    const size_t valid = ValidUtf8Bytes(rest);
    if (valid == 0) {
      // Each ill-formed part of the text is a word of its own.
      const std::string_view part = rest.substr(0, NextUtf8(rest).length);
      EncodeWord(unigram_ != nullptr ? kReplacementCharacter : part, scratch, run);
      rest.remove_prefix(part.size());
      continue;
    }
    const std::string text = normalizer_.Apply(rest.substr(0, valid), continues);
    rest.remove_prefix(valid);
    WordSplitter::Place place = {.is_text_start = fragment.offset == 0 && !continues,
                                 .continues = continues};
    const std::string_view normalized = text;
    size_t begin = 0;
    for (size_t position = 0; position < normalized.size();) {
      const auto match = normalized_tokens_.MayBeginWith(normalized[position])
                             ? normalized_tokens_.MatchAt(normalized, position, 0)
                             : std::nullopt;
      if (!match) {
        ++position;
        continue;
      }
      EncodeText(normalized.substr(begin, position - begin), place, run);
      run.Append(match->token);
      begin = position = match->end;
      place = {.is_text_start = false, .continues = false};
    }
    EncodeText(normalized.substr(begin), place, run);
  }
  run.MarkEnd(fragment.offset + fragment.text.size());
}

}  // namespace kvgate::tokenizer
