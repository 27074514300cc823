// CharDfa: which texts a string may be, as a deterministic automaton over characters: what meets
// all of some conditions, each a pattern that it matches or does not match.
//
// Deterministic, so that a text under way stands in one place whatever the patterns are, and that
// "not" is as easy as "and". The price is the number of states, which is bounded: a pattern that
// explodes is refused within some ten milliseconds.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include <kvgate/result.h>

#include "engine/grammar/grammar.h"
#include "engine/grammar/json_parts.h"
#include "engine/text/grammar/rules/pattern.h"

namespace kvgate::grammar {

struct TextCondition {
  Pattern pattern;
  bool negated = false;
};

struct CharDfa {
  static constexpr uint32_t kDead = UINT32_MAX;
  struct State {
    std::vector<uint32_t> next;  // by class
    bool accepts = false;
    uint32_t min_rest = 0;  // characters of the shortest way to an accepting state
  };
  std::vector<CharSet> classes;  // apart from each other, together all characters
  // The first characters of the classes' ranges, ascending, each with its class.
  std::vector<std::pair<char32_t, uint32_t>> begins;
  std::vector<State> states;  // 0 is the start; every one comes to an accepting one
  uint64_t work = 0;          // that it took, in steps

  bool empty() const { return states.empty(); }
  uint32_t ClassOf(char32_t character) const;
  size_t bytes() const { return states.size() * (classes.size() * sizeof(uint32_t) + 64); }
  bool Takes(std::string_view text) const;
  // Of the longest text; absent: there is none.
  std::optional<uint32_t> LengthMax() const;
};

struct DfaLimits {
  size_t states_max = 3'000;
  uint64_t work_max = 10'000'000;  // steps of making it; some 50 ms
};

// kTooLarge: a limit.
Result<CharDfa> MakeDfa(std::span<const TextCondition> conditions, const DfaLimits& limits);

enum class Spelling : uint8_t {
  kJson,   // inside a JSON string, without its quotes
  kPlain,  // as UTF-8
};
struct TextOptions {
  RepeatCount length = {};  // in characters
  Spelling spelling = Spelling::kJson;
  // Of the grammar made here. Where counting characters would take more, no text is longer than
  // what they are enough for.
  size_t rules_max = 8'000;
};
// The texts of the automaton of that length; Grammar::Nothing where there are none.
// kTooLarge: not even the shortest can be counted.
Result<ExprId> AddTexts(Grammar& grammar, JsonParts& parts, const CharDfa& dfa,
                        const TextOptions& options);

}  // namespace kvgate::grammar
