// JsonVocabulary: what a tokenizer.json says of its tokens: the model's vocabulary and merges,
// added tokens, what stands at the ends of a text, and how tokens become text again.
#pragma once

#include <string>
#include <vector>

#include <kvgate/result.h>

#include "engine/tokenizer/json_node.h"
#include "engine/tokenizer/vocabulary.h"

namespace kvgate::tokenizer {

// "model" of type BPE or Unigram: texts, types, scores, merges, the unknown token.
Result<void> ReadJsonModel(const JsonNode& model, Vocabulary& vocabulary);

struct AddedToken {
  TokenId id = 0;
  bool is_special = false;
  bool is_normalized = false;  // looked for in normalised text
};
// "added_tokens": sets the types and how they strip, and returns them in the order of the file.
Result<std::vector<AddedToken>> ReadAddedTokens(const JsonNode& root, Vocabulary& vocabulary);

// "post_processor": sets prefix and suffix.
Result<void> ReadPostProcessor(const JsonNode& node, Vocabulary& vocabulary);

// tokenizer_config.json: BOS, EOS and the chat template.
Result<void> ReadTokenizerConfig(const JsonNode& config, Vocabulary& vocabulary);

// "decoder": what each token stands for; sets add_space_prefix where Decode drops a blank at the
// start. `is_byte_level`: tokens are spelled in the byte alphabet.
Result<std::vector<std::string>> ReadDecoder(const JsonNode& node, bool is_byte_level,
                                             Vocabulary& vocabulary);

}  // namespace kvgate::tokenizer
