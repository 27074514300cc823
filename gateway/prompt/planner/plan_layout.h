// Layout finds the segments of a request at which a cached prefix can end and be found again. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <vector>

#include "gateway/prompt/planner/plan.h"

namespace kvgate::prompt::planner {

struct Layout {
  std::vector<double> ends;  // estimated tokens up to the end of each segment
  size_t num_shared = 0;     // segments of tools and system, including leading system messages
  double shared_tokens = 0;  // of them, in front of the first volatile one
  // The first segment that is not expected to come again unchanged; the number of segments if none.
  size_t barrier = 0;
  // The last holder of a breakpoint in tools and system before it. OpenAI's `instructions` hold
  // none, so there the first holder behind them stands for it: a client's window keeps its first
  // turn.
  std::optional<size_t> stable;
  // The summary before the barrier, if it can hold a breakpoint: what stands behind it is what
  // changes when turns are taken back, or the conversation goes on elsewhere.
  std::optional<size_t> summary;
  std::optional<size_t> tail;      // the last holder of a breakpoint before the barrier
  bool volatile_vanishes = false;  // the segment at the barrier is most likely to disappear
  bool is_agents = false;  // has tools or an assistant turn, so that it is expected to come again

  double total() const { return ends.empty() ? 0 : ends.back(); }
  double At(const std::optional<size_t>& segment) const { return segment ? ends[*segment] : 0; }
};

// Returns true if a breakpoint of this syntax can stand on a segment; false for volatile and
// thinking ones, whose prefix may not come again.
bool CanHold(const PlanSegment& segment, ledger::BreakpointSyntax syntax);

// A volatile segment whose prefix is in `settled` stood in the same place in the last request, so
// it is taken to stay. With `volatile_stays` all are, because the conversation's volatile segments
// have.
struct LayoutArgs {
  std::span<const PlanSegment> segments;
  ledger::BreakpointSyntax syntax = ledger::BreakpointSyntax::kNone;
  std::span<const uint64_t> settled = {};
  bool volatile_stays = false;
  bool volatile_vanishes = false;  // most of the conversation's have
  // The segments at the front that are expected to come again; those behind them change.
  size_t num_trusted = std::numeric_limits<size_t>::max();
};
Layout FindLayout(const LayoutArgs& args);

}  // namespace kvgate::prompt::planner
