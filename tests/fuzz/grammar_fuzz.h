// Both grammar fuzzers use this to write a text that matches a grammar.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <string>

#include "engine/text/grammar/mask/state_table.h"

namespace kvgate::grammar {

// Writes some random bytes, then takes the shortest way to an end; aborts if there is none.
inline std::optional<std::string> WalkGrammar(const rules::Grammar& grammar, uint64_t seed) {
  const auto automaton = mask::Automaton::Build(grammar, {.nodes_max = 20'000});
  if (!automaton) return std::nullopt;
  mask::StateTable states(*automaton);
  mask::StateId state = states.Start();
  std::string text;
  for (int i = 0; i < 10 && states.work() < 100'000; ++i) {
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    const auto first = static_cast<unsigned>(seed >> 56);
    for (unsigned offset = 0; offset < 256; ++offset) {
      const auto byte = static_cast<uint8_t>(first + offset);
      const mask::StateId next = states.Next(state, byte);
      if (next == mask::StateTable::kDead) continue;
      state = next;
      text += static_cast<char>(byte);
      break;
    }
  }
  while (!states.can_end(state)) {
    mask::StateId nearer = mask::StateTable::kDead;
    for (unsigned byte = 0; byte < 256 && nearer == mask::StateTable::kDead; ++byte) {
      const mask::StateId next = states.Next(state, static_cast<uint8_t>(byte));
      if (next == mask::StateTable::kDead || states.min_bytes(next) >= states.min_bytes(state))
        continue;
      nearer = next;
      text += static_cast<char>(byte);
    }
    if (nearer == mask::StateTable::kDead) {
      // With many rules the shortest way may need more frames than the automaton has.
      if (grammar.num_rules() < 20) std::abort();
      return std::nullopt;
    }
    state = nearer;
    if (text.size() > 1'000'000) return std::nullopt;
  }
  return text;
}

}  // namespace kvgate::grammar
