// A Template is what has been learnt about one line of prompts: how it is found again, how often it
// changed, and what a change costs. It holds words and hashes, and no values.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "gateway/prompt/templates/slot_set.h"

namespace kvgate::prompt::templates {

struct Template {
  std::shared_ptr<const Slot> slot;
  bool is_slot = false;        // else its words have changed once or twice
  std::string pattern;         // the masked line; words that have changed are marks too
  uint32_t value_changes = 0;  // within conversations
  uint32_t word_changes = 0;
  uint32_t conversations = 0;  // in which it changed
  uint32_t begun = 0;          // conversations that began with it as a slot
  uint32_t begun_changed = 0;  // of these, with another line than the one before
  uint64_t last_line = 0;      // the hash of the line with which the newest one began
  uint32_t line_tokens = 0;    // estimated
  uint32_t stake_tokens = 0;   // of the prefix that misses the cache if the line changes
  size_t num_bytes() const;
  uint64_t num_changes() const { return uint64_t{value_changes} + word_changes; }
};

// Returns true if it should move, for one that moves now or does not: if the expected cost of
// beginning with another value exceeds that of the line behind the stable prefix.
bool ShouldMove(const Template& it, bool moves_now);

// Returns the line as people read it, with "<*>" for each mark.
std::string LineOf(const Template& it);
// Says in a sentence what is done with the line, and why.
std::string WhyOf(const Template& it);

}  // namespace kvgate::prompt::templates
