// SegmentDifference: what differs between two lists of segments of one section, as sent: tools,
// system or turns of a conversation's request before and of this one. Pure; any thread.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "gateway/prompt/history/conversation.h"
#include "gateway/prompt/prefix_break.h"

namespace kvgate::prompt {

using SegmentList = std::vector<const SentSegment*>;

struct SegmentDifference {
  BreakCause cause = BreakCause::kNone;
  std::string path = {};
  std::string_view volatile_kind = {};  // nothing but volatile text differs, and this is the first
  bool same_value = false;              // equal as parsed: only the spelling differs
  size_t index = 0;                     // in the list of now: what stands in front of it is equal
  std::string_view before = {};         // what stands there; views into the requests' bytes
  std::string_view after = {};
};

// Tools are compared as sets, by name: what was added is told as added even where it pushes others
// away. Nothing: all are equal.
std::optional<SegmentDifference> CompareTools(const SegmentList& before, const SegmentList& now);
std::optional<SegmentDifference> CompareSystem(const SegmentList& before, const SegmentList& now);
// Turns that only `now` has, behind all others, are no difference.
std::optional<SegmentDifference> CompareTurns(const SegmentList& before, const SegmentList& now);

// One of the provider's own that searches the web.
bool IsSearchTool(const SentSegment& tool);

}  // namespace kvgate::prompt
