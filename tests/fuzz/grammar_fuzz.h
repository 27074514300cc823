// What both grammar fuzzers do with a grammar: write a text of it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <string>

#include "engine/grammar/state_table.h"

namespace kvgate::grammar {

// Some bytes at will, then the shortest way to an end; aborts where there is none.
inline std::optional<std::string> WalkGrammar(const Grammar& grammar, uint64_t seed) {
  const auto automaton = Automaton::Build(grammar, {.nodes_max = 20'000});
  if (!automaton) return std::nullopt;
  StateTable states(*automaton);
  StateId state = states.Start();
  std::string text;
  for (int i = 0; i < 10 && states.work() < 100'000; ++i) {
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    const auto first = static_cast<unsigned>(seed >> 56);
    for (unsigned offset = 0; offset < 256; ++offset) {
      const auto byte = static_cast<uint8_t>(first + offset);
      const StateId next = states.Next(state, byte);
      if (next == StateTable::kDead) continue;
      state = next;
      text += static_cast<char>(byte);
      break;
    }
  }
  while (!states.can_end(state)) {
    StateId nearer = StateTable::kDead;
    for (unsigned byte = 0; byte < 256 && nearer == StateTable::kDead; ++byte) {
      const StateId next = states.Next(state, static_cast<uint8_t>(byte));
      if (next == StateTable::kDead || states.min_bytes(next) >= states.min_bytes(state)) continue;
      nearer = next;
      text += static_cast<char>(byte);
    }
    if (nearer == StateTable::kDead) {
      // With many rules the shortest way may need more frames than there are.
      if (grammar.num_rules() < 20) std::abort();
      return std::nullopt;
    }
    state = nearer;
    if (text.size() > 1'000'000) return std::nullopt;
  }
  return text;
}

}  // namespace kvgate::grammar
