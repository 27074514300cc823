// PretokenizerFamilies: the rules by which models split text into words, keyed by the names in
// `tokenizer.ggml.pre`. Data only, no algorithms.
#pragma once

#include <array>
#include <string>
#include <string_view>

#include "engine/text/tokenizer/split/word_scanner.h"

namespace kvgate::tokenizer::split {

// One pass over the pieces that the earlier passes produced.
struct CutRule {
  enum class Kind {
    kNone,
    kWords,        // words by `shape`, without gaps
    kExpression,   // matches, and the text between them, are words
    kDigitGroups,  // the same, and matches are cut into threes from the end: 12 345 678
    kDigitCuts,    // matches are cut into threes from the end, but not at their edges
  };
  Kind kind = Kind::kNone;
  std::string_view expression = {};
  WordShape shape = {};
};

struct PretokenizerFamily {
  std::string_view names;  // separated by blanks
  std::array<CutRule, 6> rules;
  // A word that is in the vocabulary is that token, whatever the merges say (the rule of llama 3).
  bool ignores_merges = false;
  bool adds_bos = false;         // if the file does not say
  bool always_adds_bos = false;  // even if the file says no, because converters wrote it wrong
  // SentencePiece's method under the name of byte-level BPE: a blank is U+2581, symbols are
  // characters with a fallback to bytes, and words are lines.
  bool is_sentencepiece = false;
  bool keeps_line_ends = false;  // a run of \n that is a token is that token
};

// Returns null for an unknown name. "" means "default".
const PretokenizerFamily* FindPretokenizerFamily(std::string_view name);
// Returns every name, for error messages.
std::string PretokenizerNames();

}  // namespace kvgate::tokenizer::split
