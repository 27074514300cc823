// CharDfa: the set of texts that a string may have, as a deterministic automaton over characters.
// It accepts the texts that meet every given condition; a condition is a pattern that must match,
// or must not.
//
// It is deterministic so that a partial text is in exactly one state whatever the patterns are, and
// so that negation costs no more than conjunction. The price is the number of states, which is
// bounded: a pattern whose automaton explodes is refused within about 50 ms.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "engine/text/grammar/rules/grammar.h"
#include "engine/text/grammar/rules/json_parts.h"
#include "engine/text/grammar/rules/pattern.h"

namespace kvgate::grammar::rules {

struct TextCondition {
  Pattern pattern;
  bool negated = false;
};

struct CharDfa {
  static constexpr uint32_t kDead = UINT32_MAX;
  struct State {
    std::vector<uint32_t> next;  // indexed by class
    bool accepts = false;
    uint32_t min_rest = 0;  // length in characters of the shortest path to an accepting state
  };
  std::vector<CharSet> classes;  // disjoint; together they hold all characters
  // The first character of each range of the classes, ascending, with the class it belongs to.
  std::vector<std::pair<char32_t, uint32_t>> begins;
  std::vector<State> states;  // 0 is the start; each reaches an accepting one
  uint64_t work = 0;          // steps that building took

  bool empty() const { return states.empty(); }
  uint32_t ClassOf(char32_t character) const;
  size_t bytes() const { return states.size() * (classes.size() * sizeof(uint32_t) + 64); }
  bool Takes(std::string_view text) const;
  // Returns the length of the longest text, or nothing if the lengths are unbounded.
  std::optional<uint32_t> LengthMax() const;
};

struct DfaLimits {
  size_t states_max = 3'000;
  uint64_t work_max = 10'000'000;  // steps that building may take; about 50 ms
};

// Returns kTooLarge if a limit is exceeded.
Result<CharDfa> MakeDfa(std::span<const TextCondition> conditions, const DfaLimits& limits);

enum class Spelling : uint8_t {
  kJson,   // inside a JSON string, without its quotes
  kPlain,  // as UTF-8
};
struct TextOptions {
  RepeatCount length = {};  // in characters
  Spelling spelling = Spelling::kJson;
  // Limit on the rules added to the grammar. If counting characters up to length.max would need
  // more, the maximum length is lowered to what the rules can count.
  size_t rules_max = 8'000;
};
// Returns the texts that `dfa` accepts and whose length is allowed, or Grammar::Nothing if there
// are none. kTooLarge: there are not even enough rules to count to the minimum length.
Result<ExprId> AddTexts(Grammar& grammar, JsonParts& parts, const CharDfa& dfa,
                        const TextOptions& options);

}  // namespace kvgate::grammar::rules
