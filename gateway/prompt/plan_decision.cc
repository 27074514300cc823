#include "gateway/prompt/planner/plan_decision.h"

#include <algorithm>
#include <initializer_list>
#include <utility>

#include <kvgate/digest.h>

#include "gateway/prompt/planner/plan_cost.h"
#include "gateway/prompt/planner/plan_key.h"
#include "gateway/prompt/planner/plan_layout.h"
#include "gateway/prompt/planner/plan_breakpoints.h"
#include "gateway/prompt/planner/plan_memory.h"

namespace kvgate::prompt {
namespace {

using ledger::CacheKeyUse;
using ledger::CacheRules;
using ledger::MarkerSyntax;
using upstream::Endpoint;

constexpr double kMicroseconds = 1e6;
constexpr size_t kVolatilePrefixesMax = 64;
constexpr uint32_t kSettledMin = 2;    // volatile blocks that stayed, and …
constexpr uint32_t kSettledShare = 4;  // … so many for each one that did not

// Before anything has been seen. An agent's request (tools, or an assistant's turn) comes again; a
// lone question does not until it has. Guesses, soon outweighed: the accounts bound what they cost.
constexpr double kAgentContinues = 0.7;
constexpr double kLoneContinues = 0.05;
constexpr double kContinuesAgain = 0.9;  // after a second request
constexpr double kPriorWeight = 2;       // in requests
constexpr GapShares kGapsPrior = {0.9, 0.08, 0.02};
constexpr GapShares kArrivalsPrior = {0.04, 0.02, 1.94};
constexpr double kOwnGapWeight = 3;  // a conversation goes on as it has
constexpr double kOwnGapKeep = 0.9;
constexpr double kShapeGapWeight = 0.4;
constexpr double kShapeGapKeep = 0.95;
constexpr double kArrivalWeight = 1;
constexpr double kArrivalKeep = 0.9;

// What may be lost on writes that nothing reads, in requests, before they have earned anything.
constexpr double kFirstLossMax = 0.3;    // a shape, or all new shapes of a kind: one write
constexpr double kOwnLossMax = 0.6;      // a conversation that goes on: two
constexpr double kOwnLongLossMax = 1.6;  // one for the longer lifetime, after two that have lapsed
constexpr double kReadLossMax = 0.3;     // beyond these: then not even reading is tried

// Fields are told apart by their lengths.
Identity Mix(std::string_view tag, std::initializer_list<std::string_view> texts,
             const Identity& id = {}) {
  thread_local std::string bytes;  // its room is used again
  bytes.clear();
  const auto add_number = [&](uint64_t number) {
    bytes.append(reinterpret_cast<const char*>(&number), sizeof(number));
  };
  const auto add = [&](std::string_view text) {
    add_number(text.size());
    bytes += text;
  };
  add(tag);
  for (const std::string_view text : texts) add(text);
  add_number(id.low);
  add_number(id.high);
  const auto [low, high] = Xxh3(std::as_bytes(std::span(bytes)));
  return {low, high};
}

MarkerSyntax SyntaxOf(const PlanArgs& args) {
  if (args.row == nullptr) return MarkerSyntax::kNone;
  const MarkerSyntax syntax = args.row->rules.markers;
  const bool is_messages = args.endpoint == Endpoint::kMessages;
  const bool is_openai =
      args.endpoint == Endpoint::kChatCompletions || args.endpoint == Endpoint::kResponses;
  if (syntax == MarkerSyntax::kCacheControl && is_messages) return syntax;
  if (syntax == MarkerSyntax::kBreakpoint && is_openai) return syntax;
  return MarkerSyntax::kNone;
}

Gap GapOf(const CacheRules& rules, int64_t gap_us) {
  const double seconds = static_cast<double>(gap_us) / kMicroseconds;
  if (seconds <= static_cast<double>(rules.ttl_seconds)) return Gap::kWithinTtl;
  return seconds <= static_cast<double>(rules.ttl_long_seconds) ? Gap::kWithinLong : Gap::kOver;
}

// --- What a request tells by coming
// ---------------------------------------------------------------

// Which volatile segments came again as they were, and which are to be looked for next time.
void RecordVolatile(const PlanArgs& args, View& view) {
  PlannedConversation& memory = view.conversation;
  std::vector<uint64_t> now;
  for (const PlanSegment& segment : args.segments) {
    if (segment.is_volatile) now.push_back(segment.prefix.low);
  }
  const auto holds = [](const std::vector<uint64_t>& prefixes, uint64_t prefix) {
    return std::ranges::find(prefixes, prefix) != prefixes.end();
  };
  if (now.size() > kVolatilePrefixesMax) now.erase(now.begin(), now.end() - kVolatilePrefixesMax);
  for (const uint64_t before : memory.new_volatile_prefixes) {
    ++(holds(now, before) ? memory.num_settled : memory.num_vanished);
  }
  view.settled = std::move(memory.volatile_prefixes);
  memory.new_volatile_prefixes.clear();
  for (const uint64_t prefix : now) {
    if (!holds(view.settled, prefix)) memory.new_volatile_prefixes.push_back(prefix);
  }
  memory.volatile_prefixes = std::move(now);
}

// Those of one burst count as one: they cannot read what the first of them writes.
void RecordFirst(const PlanArgs& args, int64_t readable_after_us, ShapeMemory& shape,
                 GroupMemory& group) {
  if (shape.last_us == 0) {
    shape.burst_us = args.now_us;
  } else if (args.now_us - shape.burst_us >= readable_after_us) {
    shape.arrivals.Add(GapOf(args.row->rules, args.now_us - shape.last_us), kArrivalKeep);
    shape.burst_us = args.now_us;
  }
  shape.first.Issue(args.now_us);
  group.first.Issue(args.now_us);
}

void RecordNext(const PlanArgs& args, PlannedConversation& memory, ShapeMemory& shape,
                GroupMemory& group) {
  const Gap gap = GapOf(args.row->rules, args.now_us - memory.last_us);
  memory.gaps.Add(gap, kOwnGapKeep);
  shape.gaps.Add(gap, kShapeGapKeep);
  const bool was_first = memory.num_requests == 1;
  (was_first ? shape.first : shape.later).Return(memory.last_us, args.now_us);
  (was_first ? group.first : group.later).Return(memory.last_us, args.now_us);
  shape.later.Issue(args.now_us);
  group.later.Issue(args.now_us);
}

// --- What is expected
// -----------------------------------------------------------------------------

double Continues(const PlanArgs& args, const View& view, bool is_agents) {
  const PlannedConversation& memory = view.conversation;
  if (memory.num_requests <= 1) {
    const double prior = is_agents ? kAgentContinues : kLoneContinues;
    const double kind = view.group.first.Share(prior, kPriorWeight, args.now_us);
    return view.shape.first.Share(kind, kPriorWeight, args.now_us);
  }
  const double kind = view.group.later.Share(kContinuesAgain, kPriorWeight, args.now_us);
  const double shape = view.shape.later.Share(kind, kPriorWeight, args.now_us);
  // That the first was followed tells of first ones.
  const auto returned = static_cast<double>(memory.num_requests - 2);
  return (kPriorWeight * shape + returned) / (kPriorWeight + returned);
}

// The longest known entries of this request's prefix.
struct Known {
  const CacheEntry* readable = nullptr;
  size_t readable_segment = 0;
  const CacheEntry* confirmed = nullptr;  // the longest that an answer has reported
  size_t confirmed_segment = 0;
  double kept = 0;
  double kept_long = 0;
  bool stable_is_kept = false;
  bool stable_is_kept_long = false;
};

void FindEntries(const PlanArgs& args, const Layout& layout, const std::vector<CacheEntry>& entries,
                 Known& known) {
  const int64_t ttl_us = args.row->rules.ttl_seconds * int64_t{1'000'000};
  for (const CacheEntry& entry : entries) {
    if (!entry.IsAlive(args.now_us)) continue;
    for (size_t i = args.segments.size(); i > 0; --i) {
      if (args.segments[i - 1].prefix != entry.prefix) continue;
      const double tokens = layout.ends[i - 1];
      const bool is_long = entry.ttl_us > ttl_us;
      known.kept = std::max(known.kept, tokens);
      if (is_long) known.kept_long = std::max(known.kept_long, tokens);
      if (layout.stable && i - 1 == *layout.stable) {
        known.stable_is_kept = true;
        known.stable_is_kept_long |= is_long;
      }
      if (!entry.IsReadable(args.now_us)) break;
      if (known.readable == nullptr || i - 1 > known.readable_segment) {
        known.readable = &entry;
        known.readable_segment = i - 1;
      }
      const bool is_longer = known.confirmed == nullptr || i - 1 > known.confirmed_segment;
      if (entry.is_confirmed && is_longer) {
        known.confirmed = &entry;
        known.confirmed_segment = i - 1;
      }
      break;
    }
  }
}

// --- Decisions
// ------------------------------------------------------------------------------------

// What was promised: one lost write for a shape that nothing is known of, two for a conversation
// that has gone on, and for the rest a fixed share of all its traffic; more from what was saved.
bool Affords(const View& view, double total, double premium, Lifetime lifetime) {
  const PlannedConversation& memory = view.conversation;
  const double more = lifetime == Lifetime::kNone ? kReadLossMax : 0;
  if (memory.num_requests <= 1) {
    const Account::Bound bound{.num_lost = kFirstLossMax + more};
    return view.shape.account.Affords(premium, total, bound) &&
           view.group.account.Affords(premium, total, bound);
  }
  const double own = lifetime == Lifetime::kTtl ? kOwnLossMax : kOwnLongLossMax;
  return memory.account.Affords(
      premium, total, {.num_lost = own + more, .surplus = std::max(0.0, -view.shape.account.loss)});
}

// The caller's markers as lengths, for the choice.
void AddCallers(const PlanArgs& args, const View& view, const Layout& layout,
                const CallersMarkers& callers, CostArgs& cost) {
  const auto add = [&](size_t segment, const Marker& marker) {
    const double tokens = layout.ends[segment] * view.scale;
    if (tokens < static_cast<double>(args.row->rules.minimum_tokens)) return;
    cost.callers_tokens = std::max(cost.callers_tokens, tokens);
    if (marker.ttl_seconds > args.row->rules.ttl_seconds) {
      cost.callers_long_tokens = std::max(cost.callers_long_tokens, tokens);
    }
    if (segment >= layout.barrier) return;
    cost.callers_found_tokens = std::max(cost.callers_found_tokens, tokens);
    if (marker.ttl_seconds > args.row->rules.ttl_seconds) {
      cost.callers_found_long_tokens = std::max(cost.callers_found_long_tokens, tokens);
    }
  };
  for (const PlannedMarker& own : callers.markers) add(own.segment, own.marker);
  if (callers.automatic) add(callers.automatic_segment, *callers.automatic);
}

CostArgs CostArgsOf(const PlanArgs& args, const View& view, const Layout& layout,
                    const Known& known) {
  const CacheRules& rules = args.row->rules;
  const auto worth = [&](double tokens) {
    return tokens * view.scale < static_cast<double>(rules.minimum_tokens) ? 0
                                                                           : tokens * view.scale;
  };
  CostArgs cost;
  cost.factors = args.row->factors.value_or(ledger::CacheFactors());
  cost.has_long = args.ttl_supported && rules.ttl_long_seconds > rules.ttl_seconds;
  cost.total_tokens = layout.total() * view.scale;
  cost.stable_tokens = worth(layout.At(layout.stable));
  if (layout.tail != layout.stable) cost.tail_tokens = worth(layout.At(layout.tail));
  cost.common_tokens = layout.At(layout.tail) * view.scale;
  if (known.readable != nullptr) {
    cost.readable_tokens = layout.ends[known.readable_segment] * view.scale;
  }
  cost.kept_tokens = known.kept * view.scale;
  cost.kept_long_tokens = known.kept_long * view.scale;
  cost.stable_is_kept = known.stable_is_kept;
  cost.stable_is_kept_long = known.stable_is_kept_long;
  cost.continues = Continues(args, view, layout.is_agents);
  cost.gaps = Blend(kGapsPrior,
                    {{view.conversation.gaps, kOwnGapWeight}, {view.shape.gaps, kShapeGapWeight}});
  cost.arrivals = Blend(kArrivalsPrior, {{view.shape.arrivals, kArrivalWeight}});
  return cost;
}

std::string_view ReasonOf(const CostArgs& cost, const CostChoice& choice, bool callers) {
  if (choice.tail != Lifetime::kNone || choice.stable != Lifetime::kNone) {
    return choice.written_tokens > 0 ? "expected reuse" : "already cached";
  }
  if (cost.readable_tokens > 0) return "already cached";
  if (callers) return "the caller's own markers";
  if (cost.stable_tokens == 0 && cost.tail_tokens == 0) return "below the minimum";
  if (choice.is_refused) return "earlier writes have not been read yet";
  if (cost.gaps[static_cast<size_t>(Gap::kOver)] > 0.5) return "gaps exceed every lifetime";
  return "reuse not expected";
}

// Entries that the markers of a plan write, or refresh by reading them.
void AddEntries(const PlanArgs& args, const View& view, const Layout& layout, const Known& known,
                int64_t readable_after_us, Decision& decision) {
  const auto add = [&](size_t segment, int64_t ttl_us, int64_t readable_us) {
    const CacheEntry entry{.prefix = args.segments[segment].prefix,
                           .tokens = layout.ends[segment],
                           .ttl_us = ttl_us,
                           .written_us = args.now_us,
                           .readable_us = readable_us,
                           .expires_us = args.now_us + ttl_us};
    (segment < layout.num_shared ? decision.shared_entries : decision.entries).push_back(entry);
  };
  if (known.readable != nullptr) {
    add(known.readable_segment, known.readable->ttl_us, known.readable->readable_us);
  }
  const double floor = known.readable != nullptr ? layout.ends[known.readable_segment] : 0;
  const auto write = [&](size_t segment, const Marker& marker) {
    const double tokens = layout.ends[segment];
    const auto minimum = static_cast<double>(args.row->rules.minimum_tokens);
    if (tokens <= floor || tokens * view.scale < minimum) return;
    add(segment, marker.ttl_seconds * int64_t{1'000'000}, args.now_us + readable_after_us);
  };
  for (const PlannedMarker& marker : decision.plan.markers) write(marker.segment, marker.marker);
  if (decision.plan.automatic && layout.tail) write(*layout.tail, *decision.plan.automatic);
}

// What it costs if an entry that no answer has reported yet cannot be read: the marker that should
// read it writes it again. Where that is not afforded, only what is confirmed is counted on.
double RiskOf(const View& view, const Layout& layout, const CostArgs& cost, Known& known) {
  if (known.readable == nullptr || known.readable == known.confirmed) return 0;
  const double confirmed =
      known.confirmed == nullptr ? 0 : layout.ends[known.confirmed_segment] * view.scale;
  const double sure = std::max(confirmed, cost.callers_tokens);
  const double risk = (cost.factors.write - 1) * std::max(0.0, cost.readable_tokens - sure);
  if (Affords(view, cost.total_tokens, risk, Lifetime::kTtl)) return risk;
  known.readable = known.confirmed;
  known.readable_segment = known.confirmed_segment;
  return 0;
}

void DecideCacheControl(const PlanArgs& args, const View& view, const Layout& layout,
                        int64_t readable_after_us, Decision& decision) {
  const CallersMarkers callers = ReadCallersMarkers(args, layout);
  Known known;
  FindEntries(args, layout, view.conversation.entries, known);
  FindEntries(args, layout, view.shape.entries, known);
  CostArgs cost = CostArgsOf(args, view, layout, known);
  AddCallers(args, view, layout, callers, cost);
  const double risk = RiskOf(view, layout, cost, known);
  cost.readable_tokens =
      known.readable == nullptr ? 0 : layout.ends[known.readable_segment] * view.scale;
  CostChoice choice;
  if (Affords(view, cost.total_tokens, risk, Lifetime::kNone)) {
    choice = Choose(cost, [&](double premium, Lifetime lifetime) {
      return Affords(view, cost.total_tokens, risk + premium, lifetime);
    });
  } else {
    // Even what should be read has cost too much: entries do not stay where they were written.
    choice.is_refused = true;
    known.readable = nullptr;
    cost.readable_tokens = 0;
  }
  MarkerArgs marker_args{.args = args, .layout = layout, .callers = callers};
  marker_args.stable = choice.stable;
  marker_args.tail = choice.tail;
  if (known.readable != nullptr) marker_args.readable = known.readable_segment;
  marker_args.minimum_tokens = static_cast<double>(args.row->rules.minimum_tokens) / view.scale;
  Markers markers = PlaceMarkers(marker_args);
  Plan& plan = decision.plan;
  plan.markers = std::move(markers.markers);
  plan.automatic = markers.automatic;
  plan.expected_reuse = choice.expected_reuse;
  plan.reason = ReasonOf(cost, choice, callers.any());
  decision.sent = {.is_open = true,
                   .is_callers = callers.any(),
                   .time_us = args.now_us,
                   .premium = choice.premium + risk,
                   .written_tokens = choice.written_tokens,
                   .read_tokens = cost.readable_tokens,
                   .read_prefix = known.readable == nullptr ? Identity() : known.readable->prefix,
                   .total_tokens = cost.total_tokens,
                   .write_factor = choice.write_factor,
                   .read_factor = cost.factors.read};
  AddEntries(args, view, layout, known, readable_after_us, decision);
}

// The provider writes at the newest turn unasked, so what is shared costs nothing more to mark: it
// is written in any case, and found by other conversations only at a breakpoint.
void DecideBreakpoints(const PlanArgs& args, const View& view, const Layout& layout,
                       int64_t readable_after_us, Decision& decision) {
  const CacheRules& rules = args.row->rules;
  Plan& plan = decision.plan;
  if (args.caller_has_options || !rules.implicit_breakpoint) return;
  const auto is_marked = [&](size_t segment) {
    return std::ranges::any_of(plan.markers,
                               [&](const PlannedMarker& m) { return m.segment == segment; });
  };
  const auto add = [&](size_t segment) {
    const bool is_long_enough =
        layout.ends[segment] * view.scale >= static_cast<double>(rules.minimum_tokens);
    const bool has_room = static_cast<int64_t>(plan.markers.size()) + 1 < rules.breakpoints_max;
    if (!is_long_enough || !has_room || is_marked(segment)) return;
    plan.markers.push_back({segment, {MarkerKind::kBreakpoint, 0}});
    plan.reason = "shared prefix";
  };
  if (layout.stable) add(*layout.stable);
  if (layout.barrier < args.segments.size() && layout.tail) {
    // The newest turn ends with what will not come again: so will its implicit breakpoint (V4).
    Known known;
    FindEntries(args, layout, view.conversation.entries, known);
    if (known.readable != nullptr) add(known.readable_segment);
    add(*layout.tail);
    AddEntries(args, view, layout, {}, readable_after_us, decision);
  }
  std::ranges::sort(plan.markers, {}, &PlannedMarker::segment);
}

// In the order of the body; what no rule is known for stays as it is.
void KeepCallers(const PlanArgs& args, Plan& plan) {
  for (size_t i = 0; i < args.segments.size(); ++i) {
    if (args.segments[i].marker) plan.markers.push_back({i, *args.segments[i].marker});
  }
  plan.automatic = args.automatic;
}

// --- Keys
// -----------------------------------------------------------------------------------------

bool TakesKey(const PlanArgs& args) {
  const CacheRules& rules = args.row->rules;
  if (args.caller_has_key || rules.cache_key == CacheKeyUse::kNone) return false;
  if (args.endpoint == Endpoint::kResponses) return true;
  return args.endpoint == Endpoint::kChatCompletions && rules.conversation_header.empty();
}

// With the first request that can be cached at all: until then there is nothing to miss. Where keys
// are matched, one that comes after something has been cached without it would miss that.
void DecideKey(const PlanArgs& args, const Scope& scope, View& view) {
  PlannedConversation& memory = view.conversation;
  const CacheRules& rules = args.row->rules;
  if (!memory.is_key_decided && TakesKey(args)) {
    const Layout layout = FindLayout({.segments = args.segments});
    const auto minimum = static_cast<double>(rules.minimum_tokens);
    if (layout.total() * view.scale < minimum) return;
    memory.is_key_decided = true;
    const bool was_cached = minimum > 0 && memory.reported_tokens >= minimum;
    if (was_cached && rules.cache_key == CacheKeyUse::kMatched) return;
    const bool is_shared = !rules.key_of_conversation && layout.shared_tokens > 0 &&
                           layout.shared_tokens * view.scale >= minimum;
    const size_t shard =
        is_shared ? PickShard(view.shape.shards, rules.key_requests_per_minute, args.now_us) : 0;
    memory.is_key_shared = is_shared;
    memory.key =
        MakeKey(is_shared ? scope.shape : Mix("conversation", {}, args.conversation), shard, rules);
  }
  if (memory.key.empty() || !memory.is_key_shared) return;
  const size_t shard = ShardOf(memory.key);
  if (shard >= view.shape.shards.size()) view.shape.shards.resize(shard + 1);
  view.shape.shards[shard].Add(args.now_us);
}

void AddKey(const PlanArgs& args, const View& view, Plan& plan) {
  const CacheRules& rules = args.row->rules;
  if (args.caller_has_key) return;
  if (TakesKey(args)) plan.prompt_cache_key = view.conversation.key;
  if (!rules.conversation_header.empty() && args.endpoint == Endpoint::kChatCompletions) {
    plan.conversation_id = ToHex(Mix("conversation", {}, args.conversation));
    plan.conversation_header = rules.conversation_header;
  }
  if (!plan.prompt_cache_key.empty() || !plan.conversation_id.empty()) {
    plan.reason = "requests of one prefix go to one cache";
  }
}

}  // namespace

Scope ScopeOf(const PlanArgs& args) {
  const bool is_agents = std::ranges::any_of(args.segments, [](const PlanSegment& segment) {
    return segment.section == Section::kTools || segment.role == Role::kAssistant;
  });
  return {.target = Mix("target", {args.upstream, args.model}),
          .shape = Mix("shape", {args.tenant, args.upstream, args.model}, args.shape),
          .group = Mix("group", {args.tenant, args.upstream, args.model,
                                 is_agents ? std::string_view("agent") : "lone"})};
}

void RecordArrival(const PlanArgs& args, const Scope& scope, int64_t readable_after_us,
                   View& view) {
  PlannedConversation& memory = view.conversation;
  if (memory.target != scope.target) {
    memory.entries.clear();
    memory.target = scope.target;
  }
  memory.shape = scope.shape;
  memory.group = scope.group;
  if (memory.num_requests == 0 && !args.first_of_conversation) {
    // Forgotten, or from before a restart: it goes on, and nobody knows since when.
    memory.num_requests = 1;
    view.shape.later.Issue(args.now_us);
    view.group.later.Issue(args.now_us);
  } else if (memory.num_requests == 0) {
    RecordFirst(args, readable_after_us, view.shape, view.group);
  } else {
    RecordNext(args, memory, view.shape, view.group);
  }
  RecordVolatile(args, view);
  ++memory.num_requests;
  memory.last_us = args.now_us;
  view.shape.last_us = args.now_us;
  DecideKey(args, scope, view);
}

Decision Decide(const PlanArgs& args, const View& view, int64_t readable_after_us) {
  Decision decision;
  Plan& plan = decision.plan;
  const MarkerSyntax syntax = SyntaxOf(args);
  const PlannedConversation& memory = view.conversation;
  const Layout layout =
      FindLayout({.segments = args.segments,
                  .syntax = syntax,
                  .settled = view.settled,
                  .volatile_stays = memory.num_settled >= kSettledMin &&
                                    memory.num_settled >= kSettledShare * memory.num_vanished,
                  .volatile_vanishes = memory.num_vanished > memory.num_settled});
  plan.reason = layout.total() * view.scale < static_cast<double>(args.row->rules.minimum_tokens)
                    ? "below the minimum"
                    : "the provider caches by itself";
  AddKey(args, view, plan);
  if (syntax == MarkerSyntax::kCacheControl) {
    DecideCacheControl(args, view, layout, readable_after_us, decision);
    return decision;
  }
  KeepCallers(args, plan);
  if (syntax == MarkerSyntax::kBreakpoint) {
    DecideBreakpoints(args, view, layout, readable_after_us, decision);
  }
  plan.expected_reuse = Continues(args, view, layout.is_agents);
  return decision;
}

Plan Unplanned(const PlanArgs& args) {
  Plan plan;
  KeepCallers(args, plan);
  plan.reason = args.row == nullptr ? "no rules for this model" : "nothing is cached of this";
  return plan;
}

bool IsPlanned(const PlanArgs& args) {
  return args.row != nullptr && !args.segments.empty() &&
         (args.endpoint == Endpoint::kMessages || args.endpoint == Endpoint::kChatCompletions ||
          args.endpoint == Endpoint::kResponses);
}

}  // namespace kvgate::prompt
