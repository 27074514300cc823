// ReplayedWindow: the window of a transcript of which no event says what was left out, because its
// caller keeps it. What is left out is found by going through it from its beginning, as if each of
// its units had once been the newest: a transcript that has grown at its end loses the same units
// as before until the window is full again, so that what is cached of the prompt stays cached.
// Pure; any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace kvgate::session::window {

// What is left out or stays as a whole: a message, or what the model said with the results of its
// calls.
struct Unit {
  int64_t tokens = 0;
  bool is_user = false;
};

struct Replayed {
  size_t first = 0;                 // this unit and all behind it stay
  std::optional<size_t> user = {};  // and the user's unit that they answer, if it is before them
};

struct ReplayArgs {
  int64_t hard = 0;   // tokens that the prompt may have
  int64_t fixed = 0;  // tokens of what always stays
  std::span<const Unit> units = {};
};
// At `hard` the oldest units go until the low threshold of ThresholdsOf is reached. The newest unit
// always stays, also if it does not fit. Takes time linear in the units.
Replayed ReplayWindow(const ReplayArgs& args);

}  // namespace kvgate::session::window
