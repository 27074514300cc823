// Vocabulary: the checked token data of a GGUF file: texts, types, scores, special ids, flags. It
// does not split text. Immutable after Read; thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "engine/modelfile/model_file.h"
#include "engine/text/tokenizer/vocabulary/special_matcher.h"

namespace kvgate::tokenizer::vocabulary {

// The values of `tokenizer.ggml.token_type`.
enum class TokenType : uint8_t {
  kNormal = 1,
  kUnknown = 2,
  kControl = 3,
  kUserDefined = 4,
  kUnused = 5,
  kByte = 6,
};

// Values used if the file does not specify them; each tokenizer model has its own.
struct VocabularyDefaults {
  std::optional<TokenId> bos;
  std::optional<TokenId> eos;
  std::optional<TokenId> unknown;
  bool add_bos = false;
  bool add_eos = false;
  bool add_space_prefix = false;
};

struct Vocabulary {
  std::string model;  // "llama", "gpt2"
  std::string pre;    // how text is split into words: a name, or the text of a tokenizer.json
  std::vector<std::string> texts;
  std::vector<TokenType> types;
  std::vector<double> scores;                               // empty, or one per token
  std::vector<std::pair<std::string, std::string>> merges;  // by rank
  std::optional<TokenId> bos;
  std::optional<TokenId> eos;
  std::optional<TokenId> unknown;
  bool add_bos = false;
  bool add_eos = false;
  bool add_space_prefix = false;
  std::optional<std::string> chat_template;
  std::vector<bool> end_of_generation;  // per token
  // For each special token: it absorbs blanks before or after it, or is matched only if no word
  // continues at its edges.
  std::vector<bool> strips_left;
  std::vector<bool> strips_right;
  std::vector<bool> is_single_word;
  // Tokens at the ends of a whole text, besides BOS and EOS.
  std::vector<TokenId> prefix;
  std::vector<TokenId> suffix;
  SpecialMatcher specials;

  int size() const { return static_cast<int>(texts.size()); }
  TokenType type(TokenId token) const { return types[static_cast<size_t>(token)]; }
  bool contains(TokenId token) const { return token >= 0 && token < size(); }
  // Control tokens are shown, and matched in text, only on request.
  bool is_control(TokenId token) const {
    return type(token) == TokenType::kControl || type(token) == TokenType::kUnknown;
  }
  // Marks control tokens whose texts end a turn in known models as end of generation.
  void MarkEndTexts();
  // XXH3-128 over every field that affects Encode.
  Fingerprint ComputeFingerprint() const;
};

// kDataLoss: a key is missing or invalid; detail names it.
Result<Vocabulary> ReadVocabulary(const modelfile::ModelFile& file,
                                  const VocabularyDefaults& defaults);

}  // namespace kvgate::tokenizer::vocabulary
