// Vocabulary: what a GGUF file says of its tokens, checked: texts, types, scores, special ids,
// flags. It knows no way to cut text. Immutable after Read; thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <kvgate/ids.h>
#include <kvgate/result.h>

#include "engine/model/model_file.h"
#include "engine/tokenizer/special_matcher.h"

namespace kvgate::tokenizer {

// The numbers of `tokenizer.ggml.token_type`.
enum class TokenType : uint8_t {
  kNormal = 1,
  kUnknown = 2,
  kControl = 3,
  kUserDefined = 4,
  kUnused = 5,
  kByte = 6,
};

// What holds where the file is silent; each tokenizer model has its own.
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
  std::string pre;    // how words are cut: a name, or the text of a tokenizer.json
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
  // Per token, of special ones: blanks before or behind it in the text belong to it; it is found
  // only where no word goes on at its edges.
  std::vector<bool> strips_left;
  std::vector<bool> strips_right;
  std::vector<bool> is_single_word;
  // What stands at the ends of a whole text beside BOS and EOS.
  std::vector<TokenId> prefix;
  std::vector<TokenId> suffix;
  SpecialMatcher specials;

  int size() const { return static_cast<int>(texts.size()); }
  TokenType type(TokenId token) const { return types[static_cast<size_t>(token)]; }
  bool contains(TokenId token) const { return token >= 0 && token < size(); }
  // Shown only on demand, and found in text only where that is asked for.
  bool is_control(TokenId token) const {
    return type(token) == TokenType::kControl || type(token) == TokenType::kUnknown;
  }
  // Texts by which models end a turn, as kControl tokens.
  void MarkEndTexts();
  // XXH3-128 over all of the above that decides Encode.
  Fingerprint ComputeFingerprint() const;
};

// kDataLoss: a key is missing or senseless; detail names it.
Result<Vocabulary> ReadVocabulary(const model::ModelFile& file, const VocabularyDefaults& defaults);

}  // namespace kvgate::tokenizer
