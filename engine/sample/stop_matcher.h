// StopMatcher: finds stop strings in text that arrives in pieces, holding back exactly what may yet
// become one. Not thread-safe.
//
// The outcome does not depend on how the text is cut: bytes are looked at one after another, the
// first byte that completes a stop string ends the text, and of several completed by that byte the
// longest counts. Linear in the text.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace kvgate::sample {

class StopMatcher {
 public:
  // Empty strings never match.
  explicit StopMatcher(std::vector<std::string> stops);

  struct Output {
    std::string text;      // safe to emit now
    bool stopped = false;  // a stop string was found; nothing may follow
    std::string matched;   // which
  };
  // After a stop every further call gives stopped and no text.
  Output Push(std::string_view text);
  // The generation ended: what was held back.
  std::string Finish();

 private:
  struct Stop {
    std::string text;
    std::vector<uint32_t> failure;  // Knuth-Morris-Pratt
    uint32_t num_matched = 0;       // bytes of `text` that the seen text ends with
  };
  // Moves every stop by one byte; the longest one completed, or null.
  const Stop* Advance(char byte);

  std::vector<Stop> stops_;
  std::string held_;       // from held_begin_ on: seen and not yet emitted
  size_t held_begin_ = 0;  // cut off in bulk, so that holding much back stays linear
  bool is_stopped_ = false;
  std::string matched_;
};

}  // namespace kvgate::sample
