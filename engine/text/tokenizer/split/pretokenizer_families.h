// PretokenizerFamilies: how models cut text into words, by the names that `tokenizer.ggml.pre` has
// for them. Data; it runs nothing.
#pragma once

#include <array>
#include <string>
#include <string_view>

#include "engine/text/tokenizer/split/word_scanner.h"

namespace kvgate::tokenizer {

// One pass over the pieces that the passes before it left.
struct CutRule {
  enum class Kind {
    kNone,
    kWords,        // by `shape`, which leaves no gaps
    kExpression,   // a match is a word, and so is what lies between matches
    kDigitGroups,  // the same, and each match is cut into threes from its end: 12 345 678
    kDigitCuts,    // a match is cut into threes from its end, its own edges are no cuts
  };
  Kind kind = Kind::kNone;
  std::string_view expression = {};
  WordShape shape = {};
};

struct PretokenizerFamily {
  std::string_view names;  // with blanks between
  std::array<CutRule, 6> rules;
  // A word that is in the vocabulary is that token, whatever the merges say (the llama 3 rule).
  bool ignores_merges = false;
  bool adds_bos = false;         // where the file does not say
  bool always_adds_bos = false;  // even where the file says no: converters wrote it wrong
  // SentencePiece's way under byte-level BPE's name: a blank is U+2581, text is characters with a
  // fall-back to bytes, and words are lines.
  bool is_sentencepiece = false;
  bool keeps_line_ends = false;  // a run of \n that is a token is that token
};

// Null for a name we do not know. "" is "default".
const PretokenizerFamily* FindPretokenizerFamily(std::string_view name);
// Every name, for messages.
std::string PretokenizerNames();

}  // namespace kvgate::tokenizer
