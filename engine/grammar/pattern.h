// Pattern: regular expressions as JSON Schema has them (ECMA-262), the part that is one:
// alternation, groups (named or not, none captured), classes, . \d \w \s and their opposites, \n \r
// \t \f \v \0 \xHH \uHHHH \u{H...}, escaped punctuation, and * + ? {m} {m,} {m,n}, greedy or lazy.
// ^ and $ only at the ends of the pattern's alternatives; without them anything may stand there.
//
// Readers disagree about what \d, \w, \s and . are outside ASCII, so: a class takes only what all
// of them take, a negated class only what none of them takes.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include <kvgate/result.h>

#include "engine/grammar/grammar.h"
#include "engine/grammar/json_parts.h"

namespace kvgate::grammar {

// A nondeterministic automaton over characters. State 0 is the start.
struct Pattern {
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

struct PatternLimits {
  size_t states_max = 4'000;
  size_t rules_max = 20'000;  // states times lengths
  int depth_max = 32;         // of groups
};

// kUnsupported: a part that we do not have, named with its place. kInvalidArgument: no pattern.
// kTooLarge: a limit.
Result<Pattern> ParsePattern(std::string_view text, const PatternLimits& limits);

// The JSON strings, quotes included, that match and have so many characters. kTooLarge: a limit.
Result<ExprId> AddPattern(Grammar& grammar, JsonParts& parts, const Pattern& pattern,
                          RepeatCount length, const PatternLimits& limits);

}  // namespace kvgate::grammar
