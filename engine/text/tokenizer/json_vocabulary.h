// JsonVocabulary: reads the tokens of a tokenizer.json: the model's vocabulary and merges, added
// tokens, the tokens at the ends of a text, and how tokens are decoded.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "engine/text/tokenizer/split/json_node.h"
#include "engine/text/tokenizer/vocabulary/vocabulary.h"

namespace kvgate::tokenizer {

// Reads "model" of type BPE or Unigram: texts, types, scores, merges, the unknown token.
Result<void> ReadJsonModel(const split::JsonNode& model, vocabulary::Vocabulary& vocabulary);

struct AddedToken {
  TokenId id = 0;
  bool is_special = false;
  bool is_normalized = false;  // matched in normalised text
};
// Reads "added_tokens": sets their types and how they strip blanks, and returns them in the order
// of the file.
Result<std::vector<AddedToken>> ReadAddedTokens(const split::JsonNode& root,
                                                vocabulary::Vocabulary& vocabulary);

// Reads "post_processor": sets prefix and suffix.
Result<void> ReadPostProcessor(const split::JsonNode& node, vocabulary::Vocabulary& vocabulary);

// Reads tokenizer_config.json: BOS, EOS and the chat template.
Result<void> ReadTokenizerConfig(const split::JsonNode& config, vocabulary::Vocabulary& vocabulary);

// Reads "decoder" and returns the bytes of each token. Sets add_space_prefix if Decode must drop a
// blank at the start. `is_byte_level`: tokens are spelled in the byte alphabet.
Result<std::vector<std::string>> ReadDecoder(const split::JsonNode& node, bool is_byte_level,
                                             vocabulary::Vocabulary& vocabulary);

}  // namespace kvgate::tokenizer
