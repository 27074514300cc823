#include "gateway/prompt/planner/plan_layout.h"

#include <algorithm>

namespace kvgate::prompt::planner {

using parse::Role;

namespace {

using ledger::BreakpointSyntax;

bool IsSharedRole(Role role) { return role == Role::kSystem || role == Role::kDeveloper; }

size_t CountShared(std::span<const PlanSegment> segments) {
  size_t count = 0;
  while (count < segments.size() && (segments[count].section != parse::Section::kMessages ||
                                     IsSharedRole(segments[count].role))) {
    ++count;
  }
  return count;
}

}  // namespace

bool CanHold(const PlanSegment& segment, BreakpointSyntax syntax) {
  if (!segment.markable || segment.is_volatile || segment.content == parse::Content::kThinking) {
    return false;
  }
  if (syntax != BreakpointSyntax::kBreakpoint) return syntax == BreakpointSyntax::kCacheControl;
  // OpenAI accepts breakpoints on input text and media only, not on tools or the model's output.
  return segment.section != parse::Section::kTools && segment.role != Role::kAssistant &&
         segment.role != Role::kTool &&
         (segment.content == parse::Content::kText || segment.content == parse::Content::kMedia);
}

Layout FindLayout(const LayoutArgs& args) {
  const std::span<const PlanSegment> segments = args.segments;
  Layout layout;
  layout.num_shared = CountShared(segments);
  layout.barrier = segments.size();
  layout.volatile_vanishes = args.volatile_vanishes;
  layout.ends.reserve(segments.size());
  const auto stays = [&](const parse::Identity& prefix) {
    return args.volatile_stays || std::ranges::find(args.settled, prefix.low) != args.settled.end();
  };
  double tokens = 0;
  bool is_stable = true;
  for (size_t i = 0; i < segments.size(); ++i) {
    const PlanSegment& segment = segments[i];
    tokens += segment.num_tokens;
    is_stable &= !segment.is_volatile;
    if (is_stable && i < layout.num_shared) layout.shared_tokens = tokens;
    layout.ends.push_back(tokens);
    layout.is_agents |=
        segment.section == parse::Section::kTools || segment.role == Role::kAssistant;
    if (layout.barrier < segments.size()) continue;
    if (i >= args.num_trusted) {
      layout.barrier = i;
    } else if (segment.is_volatile) {
      if (!stays(segment.prefix)) layout.barrier = i;
    } else if (CanHold(segment, args.syntax)) {
      layout.tail = i;
      if (segment.is_summary && i >= layout.num_shared && !layout.summary) layout.summary = i;
      const bool is_first = args.syntax == BreakpointSyntax::kBreakpoint && !layout.stable;
      if (i < layout.num_shared || is_first) layout.stable = i;
    }
    const bool has_notice = segment.notice != parse::Identity();
    if (has_notice && layout.barrier == segments.size() && !stays(segment.notice)) {
      layout.barrier = i + 1;
    }
  }
  return layout;
}

}  // namespace kvgate::prompt::planner
