#include "gateway/prompt/planner/plan_breakpoints.h"

#include <algorithm>
#include <map>

namespace kvgate::prompt::planner {

using parse::Breakpoint;

namespace {

// If there are more breakpoints than the rules allow, those of the largest rank are given up first.
enum class Rank : uint8_t {
  kTail,
  kChain,
  kStable,
  kCallersTurn,
  kCallersPrefix,
  kSummary,
  kSpare
};

struct Wish {
  Rank rank;
  int32_t ttl_seconds;
};
using Wishes = std::map<size_t, Wish>;  // by segment

void Add(Wishes& wishes, size_t segment, const Wish& wish) {
  const auto [at, is_new] = wishes.emplace(segment, wish);
  if (is_new) return;
  at->second.rank = std::min(at->second.rank, wish.rank);
  at->second.ttl_seconds = std::max(at->second.ttl_seconds, wish.ttl_seconds);
}

int32_t TtlOf(const PlanArgs& args, Lifetime lifetime) {
  const ledger::CacheRules& rules = args.row->rules;
  return static_cast<int32_t>(lifetime == Lifetime::kLong ? rules.ttl_long_seconds
                                                          : rules.ttl_seconds);
}

// Returns the last segment in [begin, end) that can hold a breakpoint.
std::optional<size_t> LastHolder(const PlanArgs& args, size_t begin, size_t end) {
  for (size_t i = end; i > begin; --i) {
    if (CanHold(args.segments[i - 1], args.row->rules.breakpoints)) return i - 1;
  }
  return std::nullopt;
}

std::optional<size_t> FirstHolder(const PlanArgs& args, size_t begin, size_t end) {
  for (size_t i = begin; i < end; ++i) {
    if (CanHold(args.segments[i], args.row->rules.breakpoints)) return i;
  }
  return std::nullopt;
}

Breakpoint WithTtl(const PlanArgs& args, Breakpoint breakpoint) {
  if (!args.ttl_supported) {
    breakpoint.ttl_seconds = static_cast<int32_t>(args.row->rules.ttl_seconds);
  }
  return breakpoint;
}

// Returns true if some breakpoint lets the provider find the entry that ends at `entry`.
bool IsReached(const BreakpointArgs& args, const Wishes& wishes, size_t entry) {
  const size_t reach = static_cast<size_t>(args.args.row->rules.lookback_blocks);
  const auto reaches = [&](size_t segment) {
    return segment >= entry && (reach == 0 || segment - entry < reach);
  };
  if (args.callers.automatic && reaches(args.callers.automatic_segment)) return true;
  return std::ranges::any_of(wishes, [&](const auto& wish) { return reaches(wish.first); });
}

void AddChain(const BreakpointArgs& args, Wishes& wishes) {
  if (!args.readable || IsReached(args, wishes, *args.readable)) return;
  const size_t reach = static_cast<size_t>(args.args.row->rules.lookback_blocks);
  // The entry's own end may hold one also where nothing new is to be written behind it.
  const size_t end = std::max(
      *args.readable + 1,
      reach == 0 ? args.layout.barrier : std::min(args.layout.barrier, *args.readable + reach));
  if (const auto holder = FirstHolder(args.args, *args.readable, end)) {
    Add(wishes, *holder, {Rank::kChain, TtlOf(args.args, Lifetime::kTtl)});
  }
}

// Adds breakpoints from the tail to the front so that no block is out of reach of all of them.
// Entries that are not known (written before a restart) are then found, and a branch finds one near
// its fork.
void AddSpares(const BreakpointArgs& args, Wishes& wishes) {
  const auto reach = static_cast<size_t>(args.args.row->rules.lookback_blocks);
  if (args.tail == Lifetime::kNone || !args.layout.tail || reach == 0) return;
  const size_t front = std::max(args.readable.value_or(0), args.layout.num_shared);
  size_t behind = *args.layout.tail;
  for (int64_t i = 0; i < args.args.row->rules.breakpoints_max && behind >= front + reach; ++i) {
    const auto holder = FirstHolder(args.args, behind - reach, behind);
    if (!holder || args.layout.ends[*holder] < args.minimum_tokens) return;
    Add(wishes, *holder, {Rank::kSpare, TtlOf(args.args, args.tail)});
    behind = *holder;
  }
}

// It costs no write of its own, since what is in front of the tail is written with that.
void AddSummary(const BreakpointArgs& args, Wishes& wishes) {
  const std::optional<size_t>& summary = args.layout.summary;
  if (args.tail == Lifetime::kNone || !summary) return;
  if (args.layout.ends[*summary] < args.minimum_tokens) return;
  Add(wishes, *summary, {Rank::kSummary, TtlOf(args.args, args.tail)});
}

// Gives up the least useful breakpoints; among equals, the one nearest the front.
void Limit(Wishes& wishes, size_t max) {
  while (wishes.size() > max) {
    auto worst = wishes.begin();
    for (auto at = wishes.begin(); at != wishes.end(); ++at) {
      if (at->second.rank > worst->second.rank) worst = at;
    }
    wishes.erase(worst);
  }
}

}  // namespace

CallersBreakpoints ReadCallersBreakpoints(const PlanArgs& args, const Layout& layout) {
  CallersBreakpoints callers;
  std::map<size_t, Breakpoint> found;
  const auto add = [&](size_t segment, Breakpoint breakpoint) {
    const auto [at, is_new] = found.emplace(segment, breakpoint);
    if (!is_new) at->second.ttl_seconds = std::max(at->second.ttl_seconds, breakpoint.ttl_seconds);
  };
  for (size_t i = 0; i < args.segments.size(); ++i) {
    const PlanSegment& segment = args.segments[i];
    if (!segment.breakpoint) continue;
    const bool stays = segment.markable && segment.content != parse::Content::kThinking &&
                       (!segment.is_volatile || i < layout.barrier || !layout.volatile_vanishes);
    const auto at = stays ? i : LastHolder(args, 0, i);
    if (at) add(*at, WithTtl(args, *segment.breakpoint));
  }
  if (args.automatic) {
    const Breakpoint breakpoint = WithTtl(args, *args.automatic);
    // It stands on the last block that can hold one, which for the provider may be a volatile one.
    const bool all_stays = layout.barrier == args.segments.size();
    const bool may_stay = all_stays || !layout.tail || !layout.volatile_vanishes;
    if (args.row->rules.automatic_breakpoint && may_stay) {
      callers.automatic = breakpoint;
      callers.automatic_segment = all_stays ? layout.tail.value_or(0) : args.segments.size() - 1;
    } else if (layout.tail) {
      add(*layout.tail, breakpoint);
    }
  }
  for (const auto& [segment, breakpoint] : found)
    callers.breakpoints.push_back({segment, breakpoint});
  return callers;
}

Breakpoints PlaceBreakpoints(const BreakpointArgs& args) {
  const Layout& layout = args.layout;
  Wishes wishes;
  for (const PlannedBreakpoint& own : args.callers.breakpoints) {
    const Rank rank = own.segment == layout.tail                    ? Rank::kTail
                      : args.args.segments[own.segment].is_volatile ? Rank::kSpare
                      : own.segment < layout.num_shared             ? Rank::kCallersPrefix
                                                                    : Rank::kCallersTurn;
    Add(wishes, own.segment, {rank, own.breakpoint.ttl_seconds});
  }
  Breakpoints out;
  out.automatic = args.callers.automatic;
  if (args.stable != Lifetime::kNone && layout.stable) {
    Add(wishes, *layout.stable, {Rank::kStable, TtlOf(args.args, args.stable)});
  }
  if (args.tail != Lifetime::kNone && layout.tail) {
    const int32_t ttl = TtlOf(args.args, args.tail);
    if (out.automatic && args.callers.automatic_segment == *layout.tail) {
      out.automatic->ttl_seconds = std::max(out.automatic->ttl_seconds, ttl);
    } else {
      Add(wishes, *layout.tail, {Rank::kTail, ttl});
    }
  }
  AddChain(args, wishes);
  AddSummary(args, wishes);
  AddSpares(args, wishes);
  const auto max = static_cast<size_t>(args.args.row->rules.breakpoints_max);
  Limit(wishes, max - (out.automatic && max > 0 ? 1 : 0));
  // No breakpoint may ask for a longer ttl than one in front of it.
  int32_t longest = out.automatic ? out.automatic->ttl_seconds : 0;
  for (auto at = wishes.rbegin(); at != wishes.rend(); ++at) {
    longest = at->second.ttl_seconds = std::max(longest, at->second.ttl_seconds);
    out.breakpoints.push_back({at->first, {parse::BreakpointKind::kCacheControl, longest}});
  }
  std::ranges::reverse(out.breakpoints);
  return out;
}

}  // namespace kvgate::prompt::planner
