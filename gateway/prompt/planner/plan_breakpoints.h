// Chooses the breakpoints that go out: the caller's own if they can stay, those that the cost
// choice asks for, one behind a summary, and those that keep earlier entries within reach. Their
// number follows the rules, and a longer ttl stands first. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "gateway/prompt/planner/plan.h"
#include "gateway/prompt/planner/plan_cost.h"
#include "gateway/prompt/planner/plan_layout.h"

namespace kvgate::prompt::planner {

// The caller's own breakpoints as they will go out. None stays on a segment that cannot hold it,
// nor on a volatile one once the conversation's have been seen to vanish; each moves to the nearest
// holder in front. The ttl is dropped if the upstream takes none. An automatic breakpoint becomes
// an explicit one if the upstream does not take it, or if it would stand on text that does not come
// again.
struct CallersBreakpoints {
  std::vector<PlannedBreakpoint> breakpoints;  // in order, one per segment
  std::optional<parse::Breakpoint> automatic;  // set if it can stay
  size_t automatic_segment = 0;                // its segment, if it stays
  bool any() const { return !breakpoints.empty() || automatic.has_value(); }
};
CallersBreakpoints ReadCallersBreakpoints(const PlanArgs& args, const Layout& layout);

struct BreakpointArgs {
  const PlanArgs& args;
  const Layout& layout;
  const CallersBreakpoints& callers;
  Lifetime stable = Lifetime::kNone;
  Lifetime tail = Lifetime::kNone;
  // The last segment of the longest known entry. To read the entry, a breakpoint must stand on it
  // or within the rules' lookback behind it.
  std::optional<size_t> readable = {};
  double minimum_tokens = 0;  // estimated; no breakpoint is added below it
};
struct Breakpoints {
  std::vector<PlannedBreakpoint> breakpoints;  // in order
  std::optional<parse::Breakpoint> automatic;
};
Breakpoints PlaceBreakpoints(const BreakpointArgs& args);

}  // namespace kvgate::prompt::planner
