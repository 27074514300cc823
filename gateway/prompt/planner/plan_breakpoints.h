// The markers that go out: the caller's own where they can stay, what the choice asks for, what
// keeps the chain of entries within reach; as many as the rules allow, the longer ttl first. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "gateway/prompt/planner/plan.h"
#include "gateway/prompt/planner/plan_cost.h"
#include "gateway/prompt/planner/plan_layout.h"

namespace kvgate::prompt {

// The caller's own, as they will go out: none on unmarkable segments, nor on volatile ones once the
// conversation's have been seen to vanish: each moves to the nearest segment in front of it that
// can hold one (V4, V6). No ttl where the upstream takes none (G8); the automatic one as an
// explicit one where it would stand on what does not come again, or is not taken (G9).
struct CallersMarkers {
  std::vector<PlannedMarker> markers;  // in order, one a segment
  std::optional<Marker> automatic;     // where it can stay
  size_t automatic_segment = 0;        // where it stands then
  bool any() const { return !markers.empty() || automatic.has_value(); }
};
CallersMarkers ReadCallersMarkers(const PlanArgs& args, const Layout& layout);

struct MarkerArgs {
  const PlanArgs& args;
  const Layout& layout;
  const CallersMarkers& callers;
  Lifetime stable = Lifetime::kNone;
  Lifetime tail = Lifetime::kNone;
  // The segment that the longest known entry ends with: to be read, a marker must stand on it or
  // within the rules' lookback behind it.
  std::optional<size_t> readable = {};
  double minimum_tokens = 0;  // as the segments estimate them: below it nothing is added
};
struct Markers {
  std::vector<PlannedMarker> markers;  // in order
  std::optional<Marker> automatic;
};
Markers PlaceMarkers(const MarkerArgs& args);

}  // namespace kvgate::prompt
