// Window: how many of a session's oldest rounds are left out of a prompt, or folded into a summary.
// Between two drops the prompt only grows at its end, so that what is cached of it stays cached:
// nothing is left out below `high`, and there everything above `low` at once. Pure; any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>

#include "base/result.h"

namespace kvgate::session::window {

// kSummary: rounds are folded at `high`, and left out only where a prompt is beyond `hard`.
enum class Mode : uint8_t { kSummary, kHard, kOff };

// Tokens; 0: as the model's context gives them.
struct Settings {
  Mode mode = Mode::kHard;
  int64_t high = 0;
  int64_t low = 0;
  int64_t hard = 0;
  int64_t summary_tokens_max = 0;  // 0: an eighth of `hard`, 64 to 2048
  bool keep_system = true;         // messages of the system stay when their round is left out
  int keep_first_turns = 0;        // rounds at the beginning that are never left out
};

// What the window is derived from, in tokens.
struct Measures {
  int64_t context = 0;  // of the model; 0: not known
  int64_t output = 0;   // reserved for the answer
  int64_t growth = 0;   // of a round, on average
  int64_t least = 0;    // the part that always stays, and two rounds
};

struct Thresholds {
  int64_t high = 0;
  int64_t low = 0;
  int64_t hard = 0;     // 0: there is no window
  int64_t summary = 0;  // room for a summary; 0: none is made
};
// hard = context - output, high = 0.8 hard, low = high - 30 growth, but between `least`, with room
// for a summary, and 0.6 high; each may be set instead. None is above the one before it.
Thresholds ThresholdsOf(const Settings& settings, const Measures& measures);

struct Fit {
  size_t num_left_out = 0;  // rounds, the oldest of those that may be
  int64_t before = 0;       // tokens with all rounds
  int64_t after = 0;        // tokens without those
};
// `tokens` returns the prompt's tokens without that many of its rounds; it falls with their number.
// It is asked log2(num_rounds_max) times if something is left out, else once. Fails as `tokens`
// does.
using TokensWithout = std::function<Result<int64_t>(size_t num_left_out)>;
Result<Fit> FitRounds(const Thresholds& thresholds, size_t num_rounds_max,
                      const TokensWithout& tokens);

}  // namespace kvgate::session::window
