// The vocabulary of a random-weight model: pieces that look like words, built by merges that a
// tokenizer reproduces. It knows texts and merges, not weights.
#pragma once

#include <string>
#include <vector>

#include "base/ids.h"
#include "base/result.h"

namespace kvgate::model {

struct SyntheticVocabulary {
  std::vector<std::string> tokens;  // in the file's spelling
  std::vector<int32_t> types;       // ggml's numbers: 1 normal, 2 unknown, 3 control, 6 byte
  // SentencePiece: a piece made earlier has a higher score and merges earlier
  std::vector<float> scores;
  std::vector<std::string> merges;  // BPE: "left right", in the order of the pieces they make
  std::vector<bool> sampled;        // false: the model must never sample it
};

// SentencePiece-style: <unk>, <s>, </s>, all 256 bytes, so that any input has tokens, then the
// space mark, newline, printable ASCII, then pieces. Below 355 tokens there are no bytes, and an
// unknown character becomes <unk>. Bytes are not sampled. Fails with kInvalidArgument if vocab_size
// is too small.
Result<SyntheticVocabulary> MakeLlamaVocabulary(int vocab_size);

// Byte-level BPE in GPT-2's alphabet: all 256 bytes, so that any input has tokens; then pieces;
// then <|endoftext|>, <|im_start|>, <|im_end|>. Only tokens of printable ASCII, space and newline
// are sampled. Fails with kInvalidArgument if vocab_size is too small.
Result<SyntheticVocabulary> MakeQwen2Vocabulary(int vocab_size);

}  // namespace kvgate::model
