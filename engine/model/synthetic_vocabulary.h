// The vocabulary of a random-weight model: pieces that look like words, built by merges that the
// tokenizer will find again. Knows texts and merges, not weights.
#pragma once

#include <string>
#include <vector>

#include <kvgate/ids.h>
#include <kvgate/result.h>

namespace kvgate::model {

struct MadeVocabulary {
  std::vector<std::string> tokens;  // as the file spells them
  std::vector<int32_t> types;       // ggml's numbers: 1 normal, 2 unknown, 3 control, 6 byte
  std::vector<float> scores;        // SentencePiece: a piece made earlier merges earlier
  std::vector<std::string> merges;  // BPE: "left right", in the order of the pieces they make
  std::vector<bool> sampled;        // false: the model must never choose it
};

// SentencePiece-style: <unk>, <s>, </s>, all 256 bytes, so that any input has tokens, then the
// space mark, newline, printable ASCII, then pieces. Below 355 tokens there are no bytes, and a
// character that it lacks becomes <unk>. Bytes are not sampled. kInvalidArgument when vocab_size is
// too small.
Result<MadeVocabulary> MakeLlamaVocabulary(int vocab_size);

// Byte-level BPE in the GPT-2 alphabet: all 256 bytes, so that any input has tokens; then pieces;
// then <|endoftext|>, <|im_start|>, <|im_end|>. Only tokens of printable ASCII are sampled.
Result<MadeVocabulary> MakeQwen2Vocabulary(int vocab_size);

}  // namespace kvgate::model
