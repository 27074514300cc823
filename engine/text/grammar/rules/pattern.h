// Pattern: the part of JSON Schema's regular expressions (ECMA-262) that is regular: alternation,
// groups (named or not, none captured), classes, . \d \w \s and their opposites, \n \r \t \f \v \0
// \xHH \uHHHH \u{H...}, escaped punctuation, and * + ? {m} {m,} {m,n}, greedy or lazy. ^ and $ are
// allowed only at the ends of the pattern's alternatives; without them any text may precede or
// follow. Lookaheads, (?=…) and (?!…), are allowed after a leading ^.
//
// Engines disagree about \d, \w, \s and . outside ASCII. Therefore a class matches only characters
// that all engines match, and a negated class only characters that no engine puts in the class.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "engine/text/grammar/rules/char_set.h"

namespace kvgate::grammar::rules {

// A nondeterministic automaton over characters. State 0 is the start.
struct CharNfa {
  struct Edge {
    CharSet characters;
    uint32_t target = 0;
  };
  struct State {
    std::vector<Edge> edges;
    std::vector<uint32_t> empty_edges;
  };
  std::vector<State> states;
  uint32_t accept = 0;
};

// A text matches if some branch matches: each part of the branch matches, or does not if negated.
struct PatternPart {
  CharNfa nfa;
  bool negated = false;
};
using PatternBranch = std::vector<PatternPart>;
struct Pattern {
  std::vector<PatternBranch> branches;
};

struct PatternLimits {
  size_t states_max = 4'000;  // states of all automata
  int depth_max = 32;         // nesting of groups
};

// kUnsupported: a construct that is not implemented; the error says where. kInvalidArgument: a
// syntax error. kTooLarge: a limit is exceeded.
Result<Pattern> ParsePattern(std::string_view text, const PatternLimits& limits);

// Matches exactly these texts. It is one automaton, a tree that shares common beginnings.
Pattern PatternOfTexts(std::span<const std::string> texts);

}  // namespace kvgate::grammar::rules
