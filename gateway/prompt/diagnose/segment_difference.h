// SegmentDifference compares two lists of segments of one section, as sent: tools, system or turns
// of a conversation's previous request and of this one. Pure; any thread may call it.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "gateway/prompt/diagnose/prefix_break.h"
#include "gateway/prompt/history/conversation.h"

namespace kvgate::prompt::diagnose {

using SegmentList = std::vector<const history::SentSegment*>;

struct SegmentDifference {
  BreakCause cause = BreakCause::kNone;
  std::string path = {};
  std::string_view volatile_kind = {};  // kind of the first volatile text, if nothing else differs
  bool same_value = false;              // equal as parsed: only the spelling differs
  size_t index = 0;                     // in the list of this request; all in front of it is equal
  std::string_view before = {};         // the values that differ; views into the requests' bytes
  std::string_view after = {};
};

// Compares tools as sets, by name: an added tool is reported as added even if it moves others.
// Returns nullopt if all are equal.
std::optional<SegmentDifference> CompareTools(const SegmentList& before, const SegmentList& now);
std::optional<SegmentDifference> CompareSystem(const SegmentList& before, const SegmentList& now);
// New turns of `now` behind all others are no difference.
std::optional<SegmentDifference> CompareTurns(const SegmentList& before, const SegmentList& now);

// Returns true for one of the provider's own tools that searches the web.
bool IsSearchTool(const history::SentSegment& tool);

}  // namespace kvgate::prompt::diagnose
