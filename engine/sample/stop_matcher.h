// StopMatcher: finds stop strings in text that arrives in pieces. It holds back exactly the text
// that may still become part of one. Not thread-safe.
//
// The result does not depend on how the text is cut: bytes are processed one after another, the
// first byte that completes a stop string ends the text, and if it completes several, the longest
// one counts. Linear in the text.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace kvgate::sample {

class StopMatcher {
 public:
  // Empty strings are ignored.
  explicit StopMatcher(std::vector<std::string> stops);

  struct Output {
    std::string text;      // may be emitted already
    bool stopped = false;  // a stop string was found; the text ends here
    std::string matched;   // the stop string that was found
  };
  // After a stop every further call returns stopped and no text.
  Output Push(std::string_view text);
  // Ends the text and returns the part that was held back.
  std::string Finish();

 private:
  struct Stop {
    std::string text;
    std::vector<uint32_t> failure;  // Knuth-Morris-Pratt
    uint32_t num_matched = 0;       // bytes of `text` that the processed input ends with
  };
  // Advances every stop string by one byte. Returns the longest one completed, or null.
  const Stop* Advance(char byte);

  std::vector<Stop> stops_;
  std::string held_;       // from held_begin_ on: processed and not yet emitted
  size_t held_begin_ = 0;  // the part before it is erased in bulk, which keeps the cost linear
  bool is_stopped_ = false;
  std::string matched_;
};

}  // namespace kvgate::sample
