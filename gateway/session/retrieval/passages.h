// Passages: what a turn said, in pieces that are found and said again one by one. Pure; any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "gateway/session/log/logged_turn.h"

namespace kvgate::session::retrieval {

struct Passage {
  uint32_t message = 0;   // its message, counted over the turn's input and answer
  bool is_user = false;   // the user's words, not an answer, a call or a result
  std::string text = {};  // who spoke and what was said: "User: …", "Result: …"
};

inline constexpr size_t kPassageBytes = 480;        // that it has at most, but for its speaker
inline constexpr size_t kMessageBytesMax = 48'000;  // of a longer one the beginning is cut up

// The turn's passages in their order, the same each time. What the system says, thinking and media
// have none.
std::vector<Passage> PassagesOf(const log::LoggedTurn& turn);

// Cuts a text at the ends of lines, where it has none of sentences, and else of characters.
std::vector<std::string_view> CutUp(std::string_view text, size_t bytes_max);

}  // namespace kvgate::session::retrieval
