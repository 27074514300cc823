#include "engine/text/tokenizer/vocabulary/vocabulary.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <iterator>
#include <limits>
#include <span>
#include <unordered_map>
#include <utility>

#include "base/digest.h"

namespace kvgate::tokenizer::vocabulary {
namespace {

constexpr std::string_view kPrefix = "tokenizer.ggml.";
// A token id is an int32. Real models stay far below this, and all tables stay below 4 GiB.
constexpr size_t kNumTokensMax = size_t{1} << 24;

Error Bad(std::string_view key, std::string detail) {
  return MakeError(ErrorCode::kDataLoss, "tokenizer",
                   fmt::format("{}{}: {}", kPrefix, key, detail));
}

std::string Key(std::string_view name) { return std::string(kPrefix) + std::string(name); }

Result<std::optional<TokenId>> ReadId(const modelfile::ModelFile& file, std::string_view name,
                                      std::optional<TokenId> fallback, int vocab_size) {
  if (file.Find(Key(name)) == nullptr) {
    if (fallback && *fallback >= vocab_size) return std::optional<TokenId>();
    return fallback;
  }
  KVGATE_TRY(const int64_t id, file.GetInteger(Key(name)));
  // Converters write -1 (or its unsigned form) for "none".
  if (id == -1 || id == std::numeric_limits<uint32_t>::max()) return std::optional<TokenId>();
  if (id < 0 || id >= vocab_size) {
    return Bad(name, fmt::format("{} is not a token; the vocabulary has {}", id, vocab_size));
  }
  return std::optional<TokenId>(static_cast<TokenId>(id));
}

Result<bool> ReadFlag(const modelfile::ModelFile& file, std::string_view name, bool fallback) {
  if (file.Find(Key(name)) == nullptr) return fallback;
  return file.GetBool(Key(name));
}

Result<void> ReadTokens(const modelfile::ModelFile& file, Vocabulary& vocabulary) {
  KVGATE_TRY(const auto texts, file.GetStrings(Key("tokens")));
  if (texts.empty()) return Bad("tokens", "the vocabulary is empty");
  if (texts.size() > kNumTokensMax) {
    return Bad("tokens", fmt::format("{} tokens; the limit is {}", texts.size(), kNumTokensMax));
  }
  vocabulary.texts.assign(texts.begin(), texts.end());
  vocabulary.types.assign(texts.size(), TokenType::kNormal);
  if (file.Find(Key("token_type")) == nullptr) return {};
  KVGATE_TRY(const std::vector<int32_t> types, file.GetIntegers(Key("token_type")));
  if (types.size() != texts.size()) {
    return Bad("token_type", fmt::format("{} entries for {} tokens", types.size(), texts.size()));
  }
  for (size_t i = 0; i < types.size(); ++i) {
    if (types[i] < 0 || types[i] > static_cast<int>(TokenType::kByte)) {
      return Bad("token_type", fmt::format("entry {} is {}, no known type", i, types[i]));
    }
    // 0 is "undefined", which old converters wrote for ordinary tokens.
    if (types[i] != 0) vocabulary.types[i] = static_cast<TokenType>(types[i]);
  }
  return {};
}

Result<void> ReadScores(const modelfile::ModelFile& file, Vocabulary& vocabulary) {
  if (file.Find(Key("scores")) == nullptr) return {};
  KVGATE_TRY(const auto scores, file.GetFloats(Key("scores")));
  if (scores.size() != vocabulary.texts.size()) {
    return Bad("scores",
               fmt::format("{} entries for {} tokens", scores.size(), vocabulary.texts.size()));
  }
  vocabulary.scores.assign(scores.begin(), scores.end());
  return {};
}

Result<void> ReadMerges(const modelfile::ModelFile& file, Vocabulary& vocabulary) {
  KVGATE_TRY(const auto merges, file.GetStrings(Key("merges")));
  vocabulary.merges.reserve(merges.size());
  for (size_t rank = 0; rank < merges.size(); ++rank) {
    const std::string_view merge = merges[rank];
    // The alphabets do not spell a space as ' ', so the first ' ' after the first byte is the
    // separator.
    const size_t space = merge.find(' ', 1);
    if (space == std::string_view::npos || space + 1 == merge.size()) {
      return Bad("merges",
                 fmt::format("entry {} is not two texts with a space between them", rank));
    }
    vocabulary.merges.emplace_back(merge.substr(0, space), merge.substr(space + 1));
  }
  return {};
}

// The tokenizers of some models let a special token absorb adjacent blanks: the phi-3 family those
// after its chat markers, some embedding models those before <mask>. GGUF has no field for this, so
// it is inferred from names.
void MarkStripping(std::string_view architecture, std::string_view model_name,
                   Vocabulary& vocabulary) {
  vocabulary.strips_left.assign(vocabulary.texts.size(), false);
  vocabulary.strips_right.assign(vocabulary.texts.size(), false);
  vocabulary.is_single_word.assign(vocabulary.texts.size(), false);
  const bool has_mask = architecture == "nomic-bert-moe" || architecture == "jina-bert-v3" ||
                        vocabulary.pre.starts_with("jina-v2-");
  for (size_t i = 0; has_mask && i < vocabulary.texts.size(); ++i) {
    vocabulary.strips_left[i] = vocabulary.texts[i] == "<mask>";
  }
  std::string name(model_name);
  std::transform(name.begin(), name.end(), name.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  if (name.find("phi-3") == std::string::npos && name.find("phi3") == std::string::npos) return;
  for (TokenId id = 0; id < vocabulary.size(); ++id) {
    const std::string& text = vocabulary.texts[static_cast<size_t>(id)];
    const bool is_special =
        vocabulary.is_control(id) || vocabulary.type(id) == TokenType::kUserDefined;
    const bool keeps = text == "<unk>" || text == "<s>" || text == "<|endoftext|>";
    vocabulary.strips_right[static_cast<size_t>(id)] = is_special && !keeps;
  }
}

// Texts that end a turn in known models. A file itself names at most one or two as eos and eot.
constexpr std::string_view kEndTexts[] = {"<|eot_id|>",
                                          "<|im_end|>",
                                          "<|end|>",
                                          "<|return|>",
                                          "<|call|>",
                                          "<|calls|>",
                                          "<|flush|>",
                                          "<|eom_id|>",
                                          "<EOT>",
                                          "< EOT >",
                                          "<|EOT|>",
                                          "_<EOT>",
                                          "[EOT]",
                                          "[EOS]",
                                          "[e~[",
                                          "<end_of_turn>",
                                          "<|endoftext|>",
                                          "<turn|>",
                                          "</s>",
                                          "<eos>",
                                          "<|end_of_text|>",
                                          "<|tool_response>",
                                          "<|end_of_turn|>",
                                          "<end_of_utterance>",
                                          "<｜end▁of▁sentence｜>"};

Result<void> MarkEndOfGeneration(const modelfile::ModelFile& file, Vocabulary& vocabulary) {
  vocabulary.MarkEndTexts();
  std::vector<bool>& ends = vocabulary.end_of_generation;
  if (vocabulary.eos) ends[static_cast<size_t>(*vocabulary.eos)] = true;
  for (const std::string_view name : {"eot_token_id", "eom_token_id"}) {
    KVGATE_TRY(const auto id, ReadId(file, name, std::nullopt, vocabulary.size()));
    if (id) ends[static_cast<size_t>(*id)] = true;
  }
  return {};
}

void AppendBytes(std::string& out, const void* data, size_t size) {
  out.append(static_cast<const char*>(data), size);
}

void AppendText(std::string& out, std::string_view text) {
  const uint64_t size = text.size();
  AppendBytes(out, &size, sizeof(size));
  out.append(text);
}

}  // namespace

void Vocabulary::MarkEndTexts() {
  end_of_generation.assign(texts.size(), false);
  std::unordered_map<std::string_view, TokenId> found;
  for (TokenId id = 0; id < size(); ++id) {
    if (type(id) != TokenType::kControl) continue;
    const std::string_view text = texts[static_cast<size_t>(id)];
    if (std::find(std::begin(kEndTexts), std::end(kEndTexts), text) == std::end(kEndTexts))
      continue;
    end_of_generation[static_cast<size_t>(id)] = true;
    found.emplace(text, id);
  }
  const auto goes_on_behind = [&](std::string_view text) {
    if (found.contains(text)) end_of_generation[static_cast<size_t>(found.at(text))] = false;
  };
  // In the harmony format and similar ones, <|end|> closes one of several messages.
  if ((found.contains("<|return|>") && found.contains("<|call|>")) ||
      (found.contains("<|flush|>") && found.contains("<|calls|>"))) {
    goes_on_behind("<|end|>");
  }
  // For Gemma 4, </s> is the HTML tag and does not end a turn.
  if (found.contains("<|tool_response>")) goes_on_behind("</s>");
}

Fingerprint Vocabulary::ComputeFingerprint() const {
  std::string bytes;
  AppendText(bytes, model);
  AppendText(bytes, pre);
  for (const std::optional<TokenId> id : {bos, eos, unknown}) {
    const TokenId value = id.value_or(-1);
    AppendBytes(bytes, &value, sizeof(value));
  }
  for (const bool flag : {add_bos, add_eos, add_space_prefix}) bytes.push_back(flag ? 1 : 0);
  const uint64_t counts[3] = {texts.size(), scores.size(), merges.size()};
  AppendBytes(bytes, counts, sizeof(counts));
  for (size_t i = 0; i < texts.size(); ++i) {
    AppendText(bytes, texts[i]);
    bytes.push_back(static_cast<char>(types[i]));
    bytes.push_back(static_cast<char>((strips_right[i] ? 1 : 0) | (strips_left[i] ? 2 : 0) |
                                      (is_single_word[i] ? 4 : 0)));
  }
  AppendBytes(bytes, scores.data(), scores.size() * sizeof(double));
  for (const auto& [left, right] : merges) {
    AppendText(bytes, left);
    AppendText(bytes, right);
  }
  for (const std::vector<TokenId>* ids : {&prefix, &suffix}) {
    const uint64_t size = ids->size();
    AppendBytes(bytes, &size, sizeof(size));
    AppendBytes(bytes, ids->data(), ids->size() * sizeof(TokenId));
  }
  const auto [low, high] = Xxh3(std::as_bytes(std::span(bytes)));
  return {.low = low, .high = high};
}

Result<Vocabulary> ReadVocabulary(const modelfile::ModelFile& file,
                                  const VocabularyDefaults& defaults) {
  Vocabulary vocabulary;
  KVGATE_TRY(vocabulary.model, file.GetString(Key("model")));
  if (file.Find(Key("pre")) != nullptr) {
    KVGATE_TRY(vocabulary.pre, file.GetString(Key("pre")));
  }
  KVGATE_TRY_VOID(ReadTokens(file, vocabulary));
  KVGATE_TRY_VOID(ReadScores(file, vocabulary));
  if (file.Find(Key("merges")) != nullptr) {
    KVGATE_TRY_VOID(ReadMerges(file, vocabulary));
  }
  const int size = vocabulary.size();
  KVGATE_TRY(vocabulary.bos, ReadId(file, "bos_token_id", defaults.bos, size));
  KVGATE_TRY(vocabulary.eos, ReadId(file, "eos_token_id", defaults.eos, size));
  KVGATE_TRY(vocabulary.unknown, ReadId(file, "unknown_token_id", defaults.unknown, size));
  KVGATE_TRY(vocabulary.add_bos, ReadFlag(file, "add_bos_token", defaults.add_bos));
  KVGATE_TRY(vocabulary.add_eos, ReadFlag(file, "add_eos_token", defaults.add_eos));
  KVGATE_TRY(vocabulary.add_space_prefix,
             ReadFlag(file, "add_space_prefix", defaults.add_space_prefix));
  if (file.Find("tokenizer.chat_template") != nullptr) {
    KVGATE_TRY(vocabulary.chat_template, file.GetString("tokenizer.chat_template"));
  }
  std::string name;
  if (file.Find("general.name") != nullptr) {
    KVGATE_TRY(name, file.GetString("general.name"));
  }
  std::string architecture;
  if (file.Find("general.architecture") != nullptr) {
    KVGATE_TRY(architecture, file.GetString("general.architecture"));
  }
  MarkStripping(architecture, name, vocabulary);
  KVGATE_TRY_VOID(MarkEndOfGeneration(file, vocabulary));
  for (TokenId id = 0; id < size; ++id) {
    const bool is_control = vocabulary.is_control(id);
    if (!is_control && vocabulary.type(id) != TokenType::kUserDefined) continue;
    vocabulary.specials.Add(vocabulary.texts[static_cast<size_t>(id)], id, is_control);
  }
  return vocabulary;
}

}  // namespace kvgate::tokenizer::vocabulary
