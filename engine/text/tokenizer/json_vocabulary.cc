#include "engine/text/tokenizer/json_vocabulary.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <unordered_map>
#include <utility>

#include "engine/text/tokenizer/bpe_model.h"
#include "engine/text/tokenizer/split/text_pattern.h"
#include "engine/text/tokenizer/vocabulary/sentencepiece_text.h"

namespace kvgate::tokenizer {

using split::JsonNode;
using split::TextPattern;
using vocabulary::TokenType;
using vocabulary::Vocabulary;

namespace {

constexpr int64_t kTokensMax = 1 << 24;
constexpr size_t kPieceBytesMax = 1 << 16;
constexpr int kDepthMax = 16;

// Stores a token under its id. Gaps become unused tokens without text.
Result<void> PutToken(const JsonNode& where, int64_t id, std::string text, TokenType type,
                      Vocabulary& vocabulary) {
  if (id < 0 || id >= kTokensMax) {
    return where.Bad(fmt::format("is token {}, not in 0 to {}", id, kTokensMax - 1));
  }
  if (text.size() > kPieceBytesMax) {
    return where.Unsupported(
        fmt::format("has {} bytes; the limit is {}", text.size(), kPieceBytesMax));
  }
  const size_t index = static_cast<size_t>(id);
  if (index >= vocabulary.texts.size()) {
    vocabulary.texts.resize(index + 1);
    vocabulary.types.resize(index + 1, TokenType::kUnused);
  }
  vocabulary.texts[index] = std::move(text);
  vocabulary.types[index] = type;
  return {};
}

// A file with few tokens must not claim memory for millions of ids.
Result<void> CheckDensity(const JsonNode& where, const Vocabulary& vocabulary, size_t num_tokens) {
  if (vocabulary.texts.size() <= 16 * num_tokens + 4096) return {};
  return where.Bad(
      fmt::format("has ids up to {} for {} tokens", vocabulary.texts.size() - 1, num_tokens));
}

std::optional<TokenId> FindText(const Vocabulary& vocabulary, std::string_view text) {
  const auto at = std::find(vocabulary.texts.begin(), vocabulary.texts.end(), text);
  if (at == vocabulary.texts.end()) return std::nullopt;
  return static_cast<TokenId>(at - vocabulary.texts.begin());
}

Result<void> ReadMerges(const JsonNode& node, Vocabulary& vocabulary) {
  KVGATE_TRY(const std::vector<JsonNode> merges, node.Elements());
  vocabulary.merges.reserve(merges.size());
  for (const JsonNode& merge : merges) {
    const nlohmann::json& value = merge.value();
    if (value.is_array() && value.size() == 2 && value[0].is_string() && value[1].is_string()) {
      vocabulary.merges.emplace_back(value[0].get<std::string>(), value[1].get<std::string>());
      continue;
    }
    if (!value.is_string()) return merge.Bad("is neither \"left right\" nor [\"left\", \"right\"]");
    const std::string& text = value.get_ref<const std::string&>();
    const size_t space = text.find(' ');
    if (space == std::string::npos || text.find(' ', space + 1) != std::string::npos) {
      return merge.Bad("is not two texts with a space between them");
    }
    vocabulary.merges.emplace_back(text.substr(0, space), text.substr(space + 1));
  }
  return {};
}

Result<void> ReadBpe(const JsonNode& model, Vocabulary& vocabulary) {
  for (const char* key : {"continuing_subword_prefix", "end_of_word_suffix"}) {
    KVGATE_TRY(const std::string text, model.String(key, ""));
    if (!text.empty()) return model.At(key).Unsupported(fmt::format("'{}' is not supported", text));
  }
  if (const JsonNode dropout = model.At("dropout");
      !dropout.is_null() && dropout.value() != 0 && dropout.value() != 0.0) {
    return dropout.Unsupported("is not supported: tokens would be random");
  }
  const JsonNode tokens = model.At("vocab");
  if (!tokens.value().is_object()) return tokens.Bad("is no object");
  for (const auto& [text, id] : tokens.value().items()) {
    if (!id.is_number_integer()) return tokens.Bad(fmt::format("'{}' has no integer id", text));
    KVGATE_TRY_VOID(PutToken(tokens, id.get<int64_t>(), text, TokenType::kNormal, vocabulary));
  }
  KVGATE_TRY_VOID(CheckDensity(tokens, vocabulary, tokens.value().size()));
  return ReadMerges(model.At("merges"), vocabulary);
}

Result<void> ReadUnigram(const JsonNode& model, Vocabulary& vocabulary) {
  KVGATE_TRY(const std::vector<JsonNode> tokens, model.At("vocab").Elements());
  for (const JsonNode& token : tokens) {
    const nlohmann::json& value = token.value();
    if (!value.is_array() || value.size() != 2 || !value[0].is_string() || !value[1].is_number()) {
      return token.Bad("is not [\"text\", score]");
    }
    const int64_t id = vocabulary.size();
    KVGATE_TRY_VOID(
        PutToken(token, id, value[0].get<std::string>(), TokenType::kNormal, vocabulary));
    const double score = value[1].get<double>();
    if (!std::isfinite(score) || std::abs(score) > 1e30) return token.Bad("has a senseless score");
    vocabulary.scores.push_back(score);
  }
  const JsonNode unknown = model.At("unk_id");
  if (unknown.is_null()) return {};
  KVGATE_TRY(const int64_t id, unknown.Integer());
  if (id < 0 || id >= vocabulary.size()) return unknown.Bad(fmt::format("{} is no token", id));
  vocabulary.unknown = static_cast<TokenId>(id);
  return {};
}

// Reads the special tokens of a template, before and after the text.
Result<void> ReadTemplate(const JsonNode& node, Vocabulary& vocabulary) {
  KVGATE_TRY(const std::vector<JsonNode> pieces, node.At("single").Elements());
  bool behind_text = false;
  for (const JsonNode& piece : pieces) {
    if (!piece.At("Sequence").is_null()) {
      behind_text = true;
      continue;
    }
    KVGATE_TRY(const std::string name, piece.At("SpecialToken").At("id").String());
    const JsonNode ids = node.At("special_tokens").At(name).At("ids");
    KVGATE_TRY(const std::vector<JsonNode> elements, ids.Elements());
    for (const JsonNode& element : elements) {
      KVGATE_TRY(const int64_t id, element.Integer());
      if (id < 0 || id >= vocabulary.size()) return element.Bad(fmt::format("{} is no token", id));
      std::vector<TokenId>& side = behind_text ? vocabulary.suffix : vocabulary.prefix;
      side.push_back(static_cast<TokenId>(id));
    }
  }
  return {};
}

// Reads a pair such as ["[SEP]", 102].
Result<TokenId> ReadPair(const JsonNode& node, const Vocabulary& vocabulary) {
  KVGATE_TRY(const std::vector<JsonNode> pair, node.Elements());
  if (pair.size() != 2) return node.Bad("is not [\"text\", id]");
  KVGATE_TRY(const int64_t id, pair[1].Integer());
  if (id < 0 || id >= vocabulary.size()) return pair[1].Bad(fmt::format("{} is no token", id));
  return static_cast<TokenId>(id);
}

Result<void> ReadPostProcessor(const JsonNode& node, int depth, Vocabulary& vocabulary) {
  if (node.is_null()) return {};
  KVGATE_TRY(const std::string type, node.At("type").String());
  if (type == "ByteLevel") return {};  // affects offsets only
  if (type == "TemplateProcessing") return ReadTemplate(node, vocabulary);
  if (type == "BertProcessing" || type == "RobertaProcessing") {
    KVGATE_TRY(const TokenId begin, ReadPair(node.At("cls"), vocabulary));
    KVGATE_TRY(const TokenId end, ReadPair(node.At("sep"), vocabulary));
    vocabulary.prefix.push_back(begin);
    vocabulary.suffix.push_back(end);
    return {};
  }
  if (type == "Sequence") {
    if (depth == kDepthMax) return node.Bad("is nested too deeply");
    KVGATE_TRY(const std::vector<JsonNode> steps, node.At("processors").Elements());
    for (const JsonNode& step : steps) {
      KVGATE_TRY_VOID(ReadPostProcessor(step, depth + 1, vocabulary));
    }
    return {};
  }
  return node.At("type").Unsupported(
      fmt::format("'{}' is not supported; supported are TemplateProcessing, ByteLevel, "
                  "BertProcessing, RobertaProcessing and Sequence",
                  type));
}

// How tokens are decoded, collected from the steps of a decoder.
struct DecodeRules {
  std::vector<std::pair<TextPattern, std::string>> replacements;
  bool spells_bytes = false;
  bool strips_start = false;
};

Result<void> ReadDecodeStep(const JsonNode& node, int depth, DecodeRules& rules) {
  KVGATE_TRY(const std::string type, node.At("type").String());
  if (type == "ByteLevel") {
    rules.spells_bytes = true;
  } else if (type == "Replace") {
    KVGATE_TRY(TextPattern pattern, TextPattern::FromJson(node.At("pattern")));
    KVGATE_TRY(std::string content, node.At("content").String());
    rules.replacements.emplace_back(std::move(pattern), std::move(content));
  } else if (type == "Metaspace") {
    KVGATE_TRY(const std::string mark, node.At("replacement").String());
    const nlohmann::json pattern = {{"String", mark}};
    KVGATE_TRY(TextPattern found, TextPattern::FromJson({pattern, node.path()}));
    rules.replacements.emplace_back(std::move(found), " ");
    KVGATE_TRY(const bool adds_prefix, node.Bool("add_prefix_space", true));
    KVGATE_TRY(const std::string scheme,
               node.String("prepend_scheme", adds_prefix ? "always" : "never"));
    rules.strips_start = rules.strips_start || scheme != "never";
  } else if (type == "Strip") {
    KVGATE_TRY(const std::string content, node.At("content").String());
    KVGATE_TRY(const int64_t start, node.At("start").Integer());
    KVGATE_TRY(const int64_t stop, node.At("stop").Integer());
    if (content != " " || start > 1 || stop != 0) {
      return node.Unsupported("strips more than one blank from the start, which is not supported");
    }
    rules.strips_start = rules.strips_start || start == 1;
  } else if (type == "Sequence") {
    if (depth == kDepthMax) return node.Bad("is nested too deeply");
    KVGATE_TRY(const std::vector<JsonNode> steps, node.At("decoders").Elements());
    for (const JsonNode& step : steps) KVGATE_TRY_VOID(ReadDecodeStep(step, depth + 1, rules));
  } else if (type != "ByteFallback" && type != "Fuse") {
    return node.At("type").Unsupported(
        fmt::format("'{}' is not supported; supported are Sequence, ByteLevel, Metaspace, Replace, "
                    "ByteFallback, Fuse and Strip",
                    type));
  }
  return {};
}

// Returns the token with a given text, which is a string or an object with a "content".
Result<std::optional<TokenId>> ReadNamedToken(const JsonNode& node, const Vocabulary& vocabulary) {
  if (node.is_null()) return std::optional<TokenId>();
  const JsonNode content = node.value().is_object() ? node.At("content") : node;
  KVGATE_TRY(const std::string text, content.String());
  return FindText(vocabulary, text);
}

}  // namespace

Result<void> ReadJsonModel(const JsonNode& model, Vocabulary& vocabulary) {
  KVGATE_TRY(const std::string type, model.String("type", "BPE"));
  if (type == "BPE") {
    KVGATE_TRY_VOID(ReadBpe(model, vocabulary));
    KVGATE_TRY(vocabulary.unknown, ReadNamedToken(model.At("unk_token"), vocabulary));
  } else if (type == "Unigram") {
    KVGATE_TRY_VOID(ReadUnigram(model, vocabulary));
  } else {
    return model.At("type").Unsupported(
        fmt::format("'{}' is not supported; supported are BPE and Unigram", type));
  }
  if (vocabulary.texts.empty()) return model.At("vocab").Bad("is empty");
  vocabulary.model = "json " + type;
  KVGATE_TRY(const bool falls_back, model.Bool("byte_fallback", false));
  for (size_t i = 0; falls_back && i < vocabulary.texts.size(); ++i) {
    if (vocabulary::ParseByteToken(vocabulary.texts[i])) vocabulary.types[i] = TokenType::kByte;
  }
  return {};
}

Result<std::vector<AddedToken>> ReadAddedTokens(const JsonNode& root, Vocabulary& vocabulary) {
  std::vector<AddedToken> added;
  const JsonNode list = root.At("added_tokens");
  if (!list.is_null()) {
    KVGATE_TRY(const std::vector<JsonNode> tokens, list.Elements());
    const size_t num_model_tokens = vocabulary.texts.size();
    struct Flags {
      size_t index;
      bool strips_left, strips_right, is_single_word;
    };
    std::vector<Flags> flags;
    std::unordered_map<std::string, int64_t> known;  // texts of the model keep their ids
    for (size_t i = 0; i < num_model_tokens; ++i) {
      known.emplace(vocabulary.texts[i], static_cast<int64_t>(i));
    }
    for (const JsonNode& token : tokens) {
      KVGATE_TRY(int64_t id, token.At("id").Integer());
      KVGATE_TRY(std::string text, token.At("content").String());
      if (const auto at = known.find(text); at != known.end()) id = at->second;
      KVGATE_TRY(const bool special, token.Bool("special", false));
      KVGATE_TRY(const bool normalized, token.Bool("normalized", !special));
      KVGATE_TRY(const bool lstrip, token.Bool("lstrip", false));
      KVGATE_TRY(const bool rstrip, token.Bool("rstrip", false));
      KVGATE_TRY(const bool single_word, token.Bool("single_word", false));
      KVGATE_TRY_VOID(PutToken(token, id, std::move(text),
                               special ? TokenType::kControl : TokenType::kUserDefined,
                               vocabulary));
      added.push_back({.id = static_cast<TokenId>(id),
                       .is_special = special,
                       .is_normalized = normalized && !special});
      flags.push_back({static_cast<size_t>(id), lstrip, rstrip, single_word});
    }
    KVGATE_TRY_VOID(CheckDensity(list, vocabulary, num_model_tokens + tokens.size()));
    for (std::vector<bool>* row :
         {&vocabulary.strips_left, &vocabulary.strips_right, &vocabulary.is_single_word}) {
      row->assign(vocabulary.texts.size(), false);
    }
    for (const Flags& token : flags) {
      vocabulary.strips_left[token.index] = token.strips_left;
      vocabulary.strips_right[token.index] = token.strips_right;
      vocabulary.is_single_word[token.index] = token.is_single_word;
    }
  }
  const size_t size = vocabulary.texts.size();
  vocabulary.strips_left.resize(size);
  vocabulary.strips_right.resize(size);
  vocabulary.is_single_word.resize(size);
  if (!vocabulary.scores.empty()) vocabulary.scores.resize(size);
  if (vocabulary.unknown) {
    vocabulary.types[static_cast<size_t>(*vocabulary.unknown)] = TokenType::kUnknown;
  }
  return added;
}

Result<void> ReadPostProcessor(const JsonNode& node, Vocabulary& vocabulary) {
  return ReadPostProcessor(node, 0, vocabulary);
}

Result<void> ReadTokenizerConfig(const JsonNode& config, Vocabulary& vocabulary) {
  KVGATE_TRY(vocabulary.bos, ReadNamedToken(config.At("bos_token"), vocabulary));
  KVGATE_TRY(vocabulary.eos, ReadNamedToken(config.At("eos_token"), vocabulary));
  const JsonNode chat_template = config.At("chat_template");
  if (chat_template.value().is_string()) {
    vocabulary.chat_template = chat_template.value().get<std::string>();
  } else if (chat_template.value().is_array()) {
    // If there are several templates by name, "default" is the one for chat.
    KVGATE_TRY(const std::vector<JsonNode> templates, chat_template.Elements());
    for (const JsonNode& named : templates) {
      KVGATE_TRY(const std::string name, named.String("name", ""));
      if (name != "default") continue;
      KVGATE_TRY(vocabulary.chat_template, named.At("template").String());
    }
  }
  return {};
}

Result<std::vector<std::string>> ReadDecoder(const JsonNode& node, bool is_byte_level,
                                             Vocabulary& vocabulary) {
  DecodeRules rules;
  rules.spells_bytes = is_byte_level;
  if (!node.is_null()) KVGATE_TRY_VOID(ReadDecodeStep(node, 0, rules));
  vocabulary.add_space_prefix = rules.strips_start;
  std::vector<std::string> token_bytes;
  if (rules.spells_bytes) {
    token_bytes = BpeModel::TokenBytes(vocabulary, BpeModel::Alphabet::kBytes);
  } else {
    token_bytes = vocabulary.texts;
    for (size_t i = 0; i < token_bytes.size(); ++i) {
      const auto byte = vocabulary::ParseByteToken(token_bytes[i]);
      if (vocabulary.types[i] != TokenType::kByte || !byte) continue;
      token_bytes[i] = static_cast<char>(*byte);
    }
  }
  for (const auto& [pattern, content] : rules.replacements) {
    for (size_t i = 0; i < token_bytes.size(); ++i) {
      const TokenType type = vocabulary.types[i];
      const bool is_piece = type == TokenType::kNormal || type == TokenType::kUserDefined;
      if (is_piece) token_bytes[i] = pattern.Replace(token_bytes[i], content);
    }
  }
  return token_bytes;
}

}  // namespace kvgate::tokenizer
