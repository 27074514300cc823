#include "gateway/prompt/planner/plan_layout.h"

#include <algorithm>

namespace kvgate::prompt {
namespace {

using ledger::MarkerSyntax;

bool IsSharedRole(Role role) { return role == Role::kSystem || role == Role::kDeveloper; }

size_t CountShared(std::span<const PlanSegment> segments) {
  size_t count = 0;
  while (count < segments.size() &&
         (segments[count].section != Section::kMessages || IsSharedRole(segments[count].role))) {
    ++count;
  }
  return count;
}

}  // namespace

bool CanHold(const PlanSegment& segment, MarkerSyntax syntax) {
  if (!segment.markable || segment.is_volatile || segment.content == Content::kThinking) {
    return false;
  }
  if (syntax != MarkerSyntax::kBreakpoint) return syntax == MarkerSyntax::kCacheControl;
  // Input text and media only; neither tools nor what the model has said.
  return segment.section != Section::kTools && segment.role != Role::kAssistant &&
         segment.role != Role::kTool &&
         (segment.content == Content::kText || segment.content == Content::kMedia);
}

Layout FindLayout(const LayoutArgs& args) {
  const std::span<const PlanSegment> segments = args.segments;
  Layout layout;
  layout.num_shared = CountShared(segments);
  layout.barrier = segments.size();
  layout.volatile_vanishes = args.volatile_vanishes;
  layout.ends.reserve(segments.size());
  double tokens = 0;
  bool is_stable = true;
  for (size_t i = 0; i < segments.size(); ++i) {
    const PlanSegment& segment = segments[i];
    tokens += segment.num_tokens;
    is_stable &= !segment.is_volatile;
    if (is_stable && i < layout.num_shared) layout.shared_tokens = tokens;
    layout.ends.push_back(tokens);
    layout.is_agents |= segment.section == Section::kTools || segment.role == Role::kAssistant;
    if (layout.barrier < segments.size()) continue;
    if (segment.is_volatile) {
      const bool stays = args.volatile_stays ||
                         std::ranges::find(args.settled, segment.prefix.low) != args.settled.end();
      if (!stays) layout.barrier = i;
    } else if (CanHold(segment, args.syntax)) {
      layout.tail = i;
      if (i < layout.num_shared) layout.stable = i;
    }
  }
  return layout;
}

}  // namespace kvgate::prompt
