// Pattern: regular expressions as JSON Schema has them (ECMA-262), the part that is one:
// alternation, groups (named or not, none captured), classes, . \d \w \s and their opposites, \n \r
// \t \f \v \0 \xHH \uHHHH \u{H...}, escaped punctuation, and * + ? {m} {m,} {m,n}, greedy or lazy.
// ^ and $ only at the ends of the pattern's alternatives; without them anything may stand there.
// Behind a leading ^ also lookaheads, (?=…) and (?!…).
//
// Readers disagree about what \d, \w, \s and . are outside ASCII, so: a class takes only what all
// of them take, a negated class only what none of them takes.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <kvgate/result.h>

#include "engine/grammar/char_set.h"

namespace kvgate::grammar {

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

// A text matches where some branch has it: all of its parts do, or do not.
struct PatternPart {
  CharNfa nfa;
  bool negated = false;
};
using PatternBranch = std::vector<PatternPart>;
struct Pattern {
  std::vector<PatternBranch> branches;
};

struct PatternLimits {
  size_t states_max = 4'000;  // of its automata
  int depth_max = 32;         // of groups
};

// kUnsupported: a part that we do not have, named with its place. kInvalidArgument: no pattern.
// kTooLarge: a limit.
Result<Pattern> ParsePattern(std::string_view text, const PatternLimits& limits);

// What only these texts match: one automaton, a tree of what they begin with alike.
Pattern PatternOfTexts(std::span<const std::string> texts);

}  // namespace kvgate::grammar
