#include "gateway/prompt/planner/plan_decision.h"

#include <algorithm>
#include <initializer_list>
#include <utility>

#include "base/digest.h"
#include "gateway/prompt/planner/plan_breakpoints.h"
#include "gateway/prompt/planner/plan_cost.h"
#include "gateway/prompt/planner/plan_key.h"
#include "gateway/prompt/planner/plan_layout.h"
#include "gateway/prompt/planner/plan_memory.h"

namespace kvgate::prompt::planner {
namespace {

using dialect::form::Endpoint;
using ledger::BreakpointSyntax;
using ledger::CacheKeyUse;
using ledger::CacheRules;

constexpr double kMicroseconds = 1e6;
constexpr size_t kVolatilePrefixesMax = 64;
constexpr uint32_t kSettledMin = 2;    // so many volatile blocks must have stayed,
constexpr uint32_t kSettledShare = 4;  // and this many for each one that did not

// Priors for when no traffic has been seen. An agent's request (with tools or an assistant turn)
// comes again; a lone question does not until it has. They are guesses that observations soon
// outweigh, and the accounts bound their cost.
constexpr double kAgentContinues = 0.7;
constexpr double kLoneContinues = 0.05;
constexpr double kContinuesAgain = 0.9;  // after a second request has come
constexpr double kPriorWeight = 2;       // in requests
constexpr GapShares kGapsPrior = {0.9, 0.08, 0.02};
constexpr GapShares kArrivalsPrior = {0.04, 0.02, 1.94};
constexpr double kOwnGapWeight = 3;  // high, because a conversation goes on as it has
constexpr double kOwnGapKeep = 0.9;
constexpr double kShapeGapWeight = 0.4;
constexpr double kShapeGapKeep = 0.95;
constexpr double kArrivalWeight = 1;
constexpr double kArrivalKeep = 0.9;

// Loss allowed on writes that nobody reads, in requests of mean size, before any savings.
constexpr double kFirstLossMax = 0.3;    // a shape, or all new shapes of a kind: one write
constexpr double kOwnLossMax = 0.6;      // a conversation that goes on: two writes
constexpr double kOwnLongLossMax = 1.6;  // one long-lived write after two that have lapsed
constexpr double kReadLossMax = 0.3;     // on top of these; beyond it, reading is not tried either

// Each text is hashed with its length, so that different fields cannot run together.
parse::Identity Mix(std::string_view tag, std::initializer_list<std::string_view> texts,
                    const parse::Identity& id = {}) {
  thread_local std::string bytes;  // reused to save allocations
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

BreakpointSyntax SyntaxOf(const PlanArgs& args) {
  if (args.row == nullptr) return BreakpointSyntax::kNone;
  const BreakpointSyntax syntax = args.row->rules.breakpoints;
  const bool is_messages = args.endpoint == Endpoint::kMessages;
  const bool is_openai =
      args.endpoint == Endpoint::kChatCompletions || args.endpoint == Endpoint::kResponses;
  if (syntax == BreakpointSyntax::kCacheControl && is_messages) return syntax;
  if (syntax == BreakpointSyntax::kBreakpoint && is_openai) return syntax;
  return BreakpointSyntax::kNone;
}

Gap GapOf(const CacheRules& rules, int64_t gap_us) {
  const double seconds = static_cast<double>(gap_us) / kMicroseconds;
  if (seconds <= static_cast<double>(rules.ttl_seconds)) return Gap::kWithinTtl;
  return seconds <= static_cast<double>(rules.ttl_long_seconds) ? Gap::kWithinLong : Gap::kOver;
}

// --- Recording a request's arrival

// Counts which new volatile segments came again unchanged, and notes those to look for next time.
void RecordVolatile(const PlanArgs& args, View& view) {
  PlannedConversation& memory = view.conversation;
  std::vector<uint64_t> now;
  for (const PlanSegment& segment : args.segments) {
    if (segment.is_volatile) now.push_back(segment.prefix.low);
    if (segment.notice != parse::Identity()) now.push_back(segment.notice.low);
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

// Requests of one burst count as one arrival, because they cannot read what the first of them
// writes.
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

void RecordNext(const PlanArgs& args, double scale, PlannedConversation& memory, ShapeMemory& shape,
                GroupMemory& group) {
  const CacheRules& rules = args.row->rules;
  const Gap gap = GapOf(rules, args.now_us - memory.last_us);
  memory.stability.Arrive({.segments = args.segments,
                           .in_time = gap == Gap::kWithinTtl,
                           .minimum_tokens = static_cast<double>(rules.minimum_tokens) / scale});
  if (memory.stability.HasBroken()) memory.account.ForgetGains();
  memory.gaps.Add(gap, kOwnGapKeep);
  shape.gaps.Add(gap, kShapeGapKeep);
  const bool was_first = memory.num_requests == 1;
  (was_first ? shape.first : shape.later).Return(memory.last_us, args.now_us);
  (was_first ? group.first : group.later).Return(memory.last_us, args.now_us);
  shape.later.Issue(args.now_us);
  group.later.Issue(args.now_us);
}

// --- Expectations

double Continues(const PlanArgs& args, const View& view, bool is_agents) {
  const PlannedConversation& memory = view.conversation;
  if (memory.num_requests <= 1) {
    const double prior = is_agents ? kAgentContinues : kLoneContinues;
    const double kind = view.group.first.Share(prior, kPriorWeight, args.now_us);
    return view.shape.first.Share(kind, kPriorWeight, args.now_us);
  }
  const double kind = view.group.later.Share(kContinuesAgain, kPriorWeight, args.now_us);
  const double shape = view.shape.later.Share(kind, kPriorWeight, args.now_us);
  // The first request's continuation counts among first requests, so it is left out here.
  const auto returned = static_cast<double>(memory.num_requests - 2);
  return (kPriorWeight * shape + returned) / (kPriorWeight + returned);
}

// The longest known cache entries of this request's prefix.
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

// Returns true if the loss stays in bounds: one lost write for an unknown shape, two for a
// conversation that has gone on, and beyond that a fixed share of its traffic. Savings of the shape
// raise the bound while the conversation's prefix holds. Where entries are evicted, reading them is
// no safer than writing.
bool AccountAffords(const View& view, double total, double premium, Lifetime lifetime) {
  const PlannedConversation& memory = view.conversation;
  const Stability& stability = memory.stability;
  const double more = lifetime == Lifetime::kNone && !stability.IsEvicted() ? kReadLossMax : 0;
  if (memory.num_requests <= 1) {
    const Account::Bound bound{.num_lost = kFirstLossMax + more};
    return view.shape.account.Affords(premium, total, bound) &&
           view.group.account.Affords(premium, total, bound);
  }
  const bool is_short = lifetime == Lifetime::kTtl || stability.IsEvicted();
  const double own = is_short ? kOwnLossMax : kOwnLongLossMax;
  const bool may_lose_gains = !stability.HasBroken();
  const double surplus = may_lose_gains ? std::max(0.0, -view.shape.account.loss) : 0;
  return memory.account.Affords(premium, total, {.num_lost = own + more, .surplus = surplus});
}

bool Affords(const View& view, double total, double premium, Lifetime lifetime) {
  if (lifetime != Lifetime::kLong && view.conversation.stability.EarnsWrite()) return true;
  return AccountAffords(view, total, premium, lifetime);
}

// Adds the positions of the caller's breakpoints to `cost`, in scaled tokens.
void AddCallers(const PlanArgs& args, const View& view, const Layout& layout,
                const CallersBreakpoints& callers, CostArgs& cost) {
  const auto add = [&](size_t segment, const parse::Breakpoint& breakpoint) {
    const double tokens = layout.ends[segment] * view.scale;
    if (tokens < static_cast<double>(args.row->rules.minimum_tokens)) return;
    cost.callers_tokens = std::max(cost.callers_tokens, tokens);
    if (breakpoint.ttl_seconds > args.row->rules.ttl_seconds) {
      cost.callers_long_tokens = std::max(cost.callers_long_tokens, tokens);
    }
    if (segment >= layout.barrier) return;
    cost.callers_found_tokens = std::max(cost.callers_found_tokens, tokens);
    if (breakpoint.ttl_seconds > args.row->rules.ttl_seconds) {
      cost.callers_found_long_tokens = std::max(cost.callers_found_long_tokens, tokens);
    }
  };
  for (const PlannedBreakpoint& own : callers.breakpoints) add(own.segment, own.breakpoint);
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

// `is_untrusted`: a part of the request is expected to change again.
std::string_view ReasonOf(const CostArgs& cost, const CostChoice& choice, bool callers,
                          bool is_untrusted) {
  if (choice.tail != Lifetime::kNone || choice.stable != Lifetime::kNone) {
    return choice.written_tokens > 0 ? "expected reuse" : "already cached";
  }
  if (cost.readable_tokens > 0) return "already cached";
  if (callers) return "the caller's own markers";
  if (is_untrusted) return "earlier writes have not been read yet";
  if (cost.stable_tokens == 0 && cost.tail_tokens == 0) return "below the minimum";
  if (choice.is_refused) return "earlier writes have not been read yet";
  if (cost.gaps[static_cast<size_t>(Gap::kOver)] > 0.5) return "gaps exceed every lifetime";
  return "reuse not expected";
}

// Adds the entries that a plan's breakpoints write, or refresh by reading them.
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
  const auto write = [&](size_t segment, const parse::Breakpoint& breakpoint) {
    const double tokens = layout.ends[segment];
    const auto minimum = static_cast<double>(args.row->rules.minimum_tokens);
    if (tokens <= floor || tokens * view.scale < minimum) return;
    add(segment, breakpoint.ttl_seconds * int64_t{1'000'000}, args.now_us + readable_after_us);
  };
  for (const PlannedBreakpoint& breakpoint : decision.plan.breakpoints)
    write(breakpoint.segment, breakpoint.breakpoint);
  if (decision.plan.automatic && layout.tail) write(*layout.tail, *decision.plan.automatic);
}

// Returns the cost of the case that an unconfirmed entry cannot be read, so that its breakpoint
// writes it again. If the budget does not allow that, only confirmed entries are counted on.
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
  const CallersBreakpoints callers = ReadCallersBreakpoints(args, layout);
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
    // Even expected reads have cost too much: entries do not stay where they were written.
    choice.is_refused = true;
    known.readable = nullptr;
    cost.readable_tokens = 0;
  }
  BreakpointArgs breakpoint_args{.args = args, .layout = layout, .callers = callers};
  breakpoint_args.stable = choice.stable;
  breakpoint_args.tail = choice.tail;
  if (known.readable != nullptr) breakpoint_args.readable = known.readable_segment;
  breakpoint_args.minimum_tokens = static_cast<double>(args.row->rules.minimum_tokens) / view.scale;
  Breakpoints breakpoints = PlaceBreakpoints(breakpoint_args);
  Plan& plan = decision.plan;
  plan.breakpoints = std::move(breakpoints.breakpoints);
  plan.automatic = breakpoints.automatic;
  plan.expected_reuse = choice.expected_reuse;
  const Stability& stability = view.conversation.stability;
  plan.reason = ReasonOf(cost, choice, callers.any(), !stability.TrustsNewest());
  decision.sent = SentPlan{
      .is_callers = callers.any(),
      .time_us = args.now_us,
      .premium = choice.premium + risk,
      .written_tokens = choice.written_tokens,
      .read_tokens = cost.readable_tokens,
      .read_prefix = known.readable == nullptr ? parse::Identity() : known.readable->prefix,
      .total_tokens = cost.total_tokens,
      // What was expected to be read is written again if it is no longer there.
      .write_factor = choice.written_tokens > 0 ? choice.write_factor : cost.factors.write,
      .read_factor = cost.factors.read,
      .expects_earned = known.readable != nullptr && stability.earned() &&
                        known.readable_segment >= stability.earned()->segment};
  const bool is_marked = choice.tail != Lifetime::kNone || choice.stable != Lifetime::kNone;
  if (is_marked && choice.written_tokens > 0 &&
      !AccountAffords(view, cost.total_tokens, risk + choice.premium, Lifetime::kTtl)) {
    decision.earned = choice.tail != Lifetime::kNone ? layout.tail : layout.stable;
  }
  AddEntries(args, view, layout, known, readable_after_us, decision);
}

// The provider writes at the newest turn without being asked. A breakpoint on the shared part
// therefore costs nothing more, and other conversations find that part only at a breakpoint.
void DecideBreakpoints(const PlanArgs& args, const View& view, const Layout& layout,
                       int64_t readable_after_us, Decision& decision) {
  const CacheRules& rules = args.row->rules;
  Plan& plan = decision.plan;
  if (args.caller_has_options || !rules.implicit_breakpoint) return;
  const auto is_marked = [&](size_t segment) {
    return std::ranges::any_of(plan.breakpoints,
                               [&](const PlannedBreakpoint& m) { return m.segment == segment; });
  };
  const auto add = [&](size_t segment) {
    const bool is_long_enough =
        layout.ends[segment] * view.scale >= static_cast<double>(rules.minimum_tokens);
    const bool has_room = static_cast<int64_t>(plan.breakpoints.size()) + 1 < rules.breakpoints_max;
    if (!is_long_enough || !has_room || is_marked(segment)) return;
    plan.breakpoints.push_back({segment, {parse::BreakpointKind::kBreakpoint, 0}});
    plan.reason = "shared prefix";
  };
  if (layout.stable) add(*layout.stable);
  if (layout.summary) add(*layout.summary);
  if (layout.barrier < args.segments.size() && layout.tail) {
    // The newest turn ends with text that will not come again, and so does its implicit breakpoint.
    Known known;
    FindEntries(args, layout, view.conversation.entries, known);
    if (known.readable != nullptr) add(known.readable_segment);
    add(*layout.tail);
    AddEntries(args, view, layout, {}, readable_after_us, decision);
  }
  std::ranges::sort(plan.breakpoints, {}, &PlannedBreakpoint::segment);
}

// Keeps the caller's breakpoints in body order. Breakpoints for which no rule is known stay
// unchanged.
void KeepCallers(const PlanArgs& args, Plan& plan) {
  for (size_t i = 0; i < args.segments.size(); ++i) {
    if (args.segments[i].breakpoint) plan.breakpoints.push_back({i, *args.segments[i].breakpoint});
  }
  plan.automatic = args.automatic;
}

// --- Keys

bool TakesKey(const PlanArgs& args) {
  const CacheRules& rules = args.row->rules;
  if (args.caller_has_key || rules.cache_key == CacheKeyUse::kNone) return false;
  if (args.endpoint == Endpoint::kResponses) return true;
  return args.endpoint == Endpoint::kChatCompletions && rules.conversation_header.empty();
}

// Returns true if nothing was sent before this request that a provider could have cached.
bool IsBeginning(const PlanArgs& args) {
  return args.first_of_conversation &&
         std::ranges::none_of(args.segments, [](const PlanSegment& segment) {
           return segment.role == parse::Role::kAssistant;
         });
}

// Chooses the key with the conversation's first request or never, because entries that were made
// without it would be lost.
void DecideKey(const PlanArgs& args, View& view) {
  if (!TakesKey(args)) return;
  PlannedConversation& memory = view.conversation;
  const CacheRules& rules = args.row->rules;
  const bool is_own = rules.key_of_conversation;
  std::vector<RateMeter>& shards = view.shape.shards;
  if (!std::exchange(memory.is_key_decided, true)) {
    if (!is_own && IsBeginning(args)) {
      memory.shard = PickShard(shards, rules.key_requests_per_minute, args.now_us);
    }
    const bool may_have_key =
        args.first_of_conversation || rules.cache_key == CacheKeyUse::kRequired;
    if (may_have_key) {
      const parse::Identity of = is_own ? Mix("conversation", {}, args.conversation)
                                        : Mix("key", {args.tenant, args.upstream, args.model});
      memory.key = MakeKey({.of = of, .is_own = is_own, .shard = memory.shard}, rules);
    }
  }
  if (is_own) return;
  if (memory.shard >= shards.size()) shards.resize(memory.shard + 1);
  shards[memory.shard].Add(args.now_us);
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
    return segment.section == parse::Section::kTools || segment.role == parse::Role::kAssistant;
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
    memory.stability = {};
    memory.target = scope.target;
  }
  memory.shape = scope.shape;
  memory.group = scope.group;
  if (memory.num_requests == 0 && !args.first_of_conversation) {
    // The conversation was forgotten, or dates from before a restart; its number of requests is
    // unknown.
    memory.num_requests = 1;
    view.shape.later.Issue(args.now_us);
    view.group.later.Issue(args.now_us);
  } else if (memory.num_requests == 0) {
    RecordFirst(args, readable_after_us, view.shape, view.group);
  } else {
    RecordNext(args, view.scale, memory, view.shape, view.group);
  }
  RecordVolatile(args, view);
  ++memory.num_requests;
  memory.last_us = args.now_us;
  view.shape.last_us = args.now_us;
  DecideKey(args, view);
}

Decision Decide(const PlanArgs& args, const View& view, int64_t readable_after_us) {
  Decision decision;
  Plan& plan = decision.plan;
  const BreakpointSyntax syntax = SyntaxOf(args);
  const PlannedConversation& memory = view.conversation;
  LayoutArgs layout_args{
      .segments = args.segments,
      .syntax = syntax,
      .settled = view.settled,
      .volatile_stays = memory.num_settled >= kSettledMin &&
                        memory.num_settled >= kSettledShare * memory.num_vanished,
      .volatile_vanishes = memory.num_vanished > memory.num_settled};
  Layout layout = FindLayout(layout_args);
  decision.num_shared = layout.num_shared;
  decision.end = layout.tail;
  if (!memory.stability.TrustsNewest()) {
    layout_args.num_trusted = memory.stability.NumTrusted(args.segments);
    layout = FindLayout(layout_args);
  }
  plan.reason = layout.total() * view.scale < static_cast<double>(args.row->rules.minimum_tokens)
                    ? "below the minimum"
                    : "the provider caches by itself";
  AddKey(args, view, plan);
  if (syntax == BreakpointSyntax::kCacheControl) {
    DecideCacheControl(args, view, layout, readable_after_us, decision);
    return decision;
  }
  KeepCallers(args, plan);
  if (syntax == BreakpointSyntax::kBreakpoint) {
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

}  // namespace kvgate::prompt::planner
