// Layout: where in a request's segments a cached prefix can end and be found again. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "gateway/prompt/planner/plan.h"

namespace kvgate::prompt {

struct Layout {
  std::vector<double> ends;  // estimated tokens up to the end of each segment
  size_t num_shared = 0;     // segments of tools and system; leading system messages count
  double shared_tokens = 0;  // of them, in front of the first volatile one
  // The first segment that will not be there again as it is; as many as there are segments: none.
  size_t barrier = 0;
  std::optional<size_t> stable;  // the last in front of the barrier that tools and system can mark
  std::optional<size_t> tail;    // the last of all in front of the barrier that can be marked
  bool volatile_vanishes = false;  // what stands at the barrier will most likely be gone
  bool is_agents = false;          // has tools or an assistant's turn: comes again

  double total() const { return ends.empty() ? 0 : ends.back(); }
  double At(const std::optional<size_t>& segment) const { return segment ? ends[*segment] : 0; }
};

// Whether a marker of this kind can stand on a segment; never on volatile or thinking ones (V4).
bool CanHold(const PlanSegment& segment, ledger::MarkerSyntax syntax);

// A volatile segment of which `settled` holds the prefix was sent in the request before in the same
// place: it stays. With `volatile_stays` all of them do: the conversation's have so far.
struct LayoutArgs {
  std::span<const PlanSegment> segments;
  ledger::MarkerSyntax syntax = ledger::MarkerSyntax::kNone;
  std::span<const uint64_t> settled = {};
  bool volatile_stays = false;
  bool volatile_vanishes = false;  // most have not
};
Layout FindLayout(const LayoutArgs& args);

}  // namespace kvgate::prompt
