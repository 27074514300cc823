// Finds the lines whose values changed between two requests of a conversation, and how much of what
// was lost by them the mode stabilize would have saved. It reads the bytes that the conversation's
// memory holds anyway, and returns numbers and hashes only. Pure; any thread may call it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "gateway/prompt/diagnose/prefix_break.h"
#include "gateway/prompt/history/conversation.h"
#include "gateway/prompt/templates/slot_set.h"

namespace kvgate::prompt::diagnose {

struct SlotLoss {
  templates::Place place = templates::Place::kSystem;
  uint64_t mask = 0;   // of the line without its values
  size_t segment = 0;  // of the present request
  uint32_t line = 0;   // of the segment's text, counted without blank lines
  int64_t tokens = 0;  // lost by it; its share where several lines have changed
  int64_t nanodollars = 0;
};

struct SlotLossArgs {
  const history::SentRequest& before;  // of the same conversation
  const history::SentRequest& now;
  const PrefixBreak& found;
  int64_t input_tokens = 0;   // of the present request, as reported
  int64_t cached_tokens = 0;  // read by it
};
// Returns nothing if the prefix would have broken all the same: if lines came, went or got other
// words, or other text changed in front of them.
std::vector<SlotLoss> FindSlotLosses(const SlotLossArgs& args);

// Returns a line of a segment as people read it, with "<*>" in place of its values; empty if the
// bytes are not remembered.
std::string LineWithoutValues(const history::SentSegment& segment, uint32_t line);

}  // namespace kvgate::prompt::diagnose
