#include "gateway/prompt/planner/plan.h"

#include <algorithm>
#include <mutex>
#include <optional>
#include <utility>

#include "base/lru_map.h"
#include "gateway/prompt/planner/plan_decision.h"
#include "gateway/prompt/planner/plan_memory.h"

namespace kvgate::prompt::planner {

using parse::Identity;

namespace {

constexpr size_t kConversationEntriesMax = 8;
constexpr size_t kShapeEntriesMax = 8;
constexpr size_t kOpenPlansMax = 8;  // per conversation; beyond it the oldest is never settled
constexpr size_t kGroupsMax = 1024;
constexpr size_t kScalesMax = 256;
constexpr double kScaleMin = 0.25;  // an estimate is off by a factor of four at most
constexpr double kScaleMax = 4;
constexpr double kScaleWeight = 0.2;   // weight of the newest answer
constexpr double kTokensSlack = 1.1;   // estimates of parts err more than those of the whole
constexpr double kReadShareMin = 0.5;  // of the expected read; below it the entry is evicted

void Drop(std::vector<CacheEntry>& entries, int64_t written_us) {
  std::erase_if(entries, [&](const CacheEntry& e) { return e.written_us == written_us; });
}

// An answer's report of tokens read or written, converted to estimated tokens. It confirms the
// entries that its request wrote or read.
struct Report {
  const SentPlan& sent;
  double cached_tokens;
  bool was_read;
  int64_t now_us;
};
void Confirm(std::vector<CacheEntry>& entries, const Report& report) {
  for (CacheEntry& entry : entries) {
    const bool is_of_it = entry.written_us == report.sent.time_us ||
                          (report.was_read && entry.prefix == report.sent.read_prefix);
    if (!is_of_it || entry.tokens > kTokensSlack * report.cached_tokens) continue;
    entry.readable_us = std::min(entry.readable_us, report.now_us);
    entry.is_confirmed = true;
  }
}

// Returns what the planner's writes have cost beyond the plain price.
double PremiumOf(const SentPlan& sent, double written_tokens) {
  if (!sent.is_callers) return (sent.write_factor - 1) * written_tokens;
  return sent.written_tokens > 0 ? sent.premium * written_tokens / sent.written_tokens : 0;
}

class LearningPlanner final : public Planner {
 public:
  explicit LearningPlanner(const Options& options)
      : options_(options),
        conversations_(options.conversations_max),
        shapes_(options.shapes_max),
        groups_(kGroupsMax),
        scales_(kScalesMax) {}

  Plan Make(const PlanArgs& args) override {
    if (!IsPlanned(args)) return Unplanned(args);
    Scope scope = ScopeOf(args);
    View view;
    {
      const std::lock_guard lock(mutex_);
      view = ViewOf(args, scope);
      RecordArrival(args, scope, options_.readable_after_us, view);
      conversations_.FindOrAdd(args.conversation) = view.conversation;
      shapes_.FindOrAdd(scope.shape) = view.shape;
      groups_.FindOrAdd(scope.group) = view.group;
    }
    Decision decision = Decide(args, view, options_.readable_after_us);
    Commit(args, scope, decision);
    return std::move(decision.plan);
  }

  Plan Preview(const PlanArgs& args) const override {
    if (!IsPlanned(args)) return Unplanned(args);
    Scope scope = ScopeOf(args);
    View view;
    {
      const std::lock_guard lock(mutex_);
      view = ViewOf(args, scope);
    }
    RecordArrival(args, scope, options_.readable_after_us, view);
    return Decide(args, view, options_.readable_after_us).plan;
  }

  void Learn(const Outcome& outcome) override {
    const std::lock_guard lock(mutex_);
    PlannedConversation* memory = conversations_.Find(outcome.conversation);
    if (memory == nullptr) return;
    const auto input = static_cast<double>(outcome.input_tokens);
    if (outcome.estimated_tokens > 0 && outcome.input_tokens > 0) {
      const double ratio =
          std::clamp(input / static_cast<double>(outcome.estimated_tokens), kScaleMin, kScaleMax);
      double& scale = scales_.FindOrAdd(memory->target);
      scale = scale == 0 ? ratio : scale + kScaleWeight * (ratio - scale);
    }
    if (const auto sent = TakeOpen(*memory, outcome.plan)) Settle(outcome, *sent, *memory);
  }

  void Forget(const Identity& conversation, uint64_t plan) override {
    const std::lock_guard lock(mutex_);
    PlannedConversation* memory = conversations_.Find(conversation);
    if (memory == nullptr) return;
    const std::optional<SentPlan> sent = TakeOpen(*memory, plan);
    if (!sent) return;
    memory->num_requests = std::max<int64_t>(memory->num_requests - 1, 0);
    DropWritten(*sent, *memory);
    memory->stability.Withdraw(sent->time_us);
    ForAccounts(*memory,
                [&](Account& account) { account.Unsend(sent->premium, sent->total_tokens); });
    const bool was_first = memory->num_requests == 0;
    const auto withdraw = [&](auto* of) {
      if (of != nullptr) (was_first ? of->first : of->later).Withdraw(sent->time_us);
    };
    withdraw(shapes_.Find(memory->shape));
    withdraw(groups_.Find(memory->group));
  }

 private:
  // A conversation stays in the group of its first request, so that a lone question that goes on is
  // still told from an agent's request.
  View ViewOf(const PlanArgs& args, Scope& scope) const {
    View view;
    if (const auto* found = conversations_.Peek(args.conversation)) {
      view.conversation = *found;
      if (found->num_requests > 0 && found->target == scope.target) scope.group = found->group;
    }
    if (const auto* found = shapes_.Peek(scope.shape)) view.shape = *found;
    if (const auto* found = groups_.Peek(scope.group)) view.group = *found;
    if (const double* found = scales_.Peek(scope.target)) view.scale = *found;
    return view;
  }

  template <typename Change>
  void ForAccounts(PlannedConversation& memory, const Change& change) {
    change(memory.account);
    if (ShapeMemory* shape = shapes_.Find(memory.shape)) change(shape->account);
    if (GroupMemory* group = groups_.Find(memory.group)) change(group->account);
  }

  static std::optional<SentPlan> TakeOpen(PlannedConversation& memory, uint64_t plan) {
    const auto found = std::ranges::find(memory.open, plan, &SentPlan::id);
    if (found == memory.open.end()) return std::nullopt;
    const SentPlan sent = *found;
    memory.open.erase(found);
    return sent;
  }

  void DropWritten(const SentPlan& sent, PlannedConversation& memory) {
    Drop(memory.entries, sent.time_us);
    if (ShapeMemory* shape = shapes_.Find(memory.shape)) Drop(shape->entries, sent.time_us);
  }

  void Commit(const PlanArgs& args, const Scope& scope, Decision& decision) {
    const std::lock_guard lock(mutex_);
    PlannedConversation& memory = conversations_.FindOrAdd(args.conversation);
    if (decision.sent) {
      decision.plan.id = decision.sent->id = ++num_plans_;
      if (memory.open.size() == kOpenPlansMax) memory.open.erase(memory.open.begin());
      memory.open.push_back(*decision.sent);
    }
    if (decision.end) {
      memory.stability.Send({.segments = args.segments,
                             .num_shared = decision.num_shared,
                             .end = *decision.end,
                             .earned = decision.earned,
                             .time_us = args.now_us});
    }
    for (const CacheEntry& entry : decision.entries) {
      Remember(memory.entries, entry, kConversationEntriesMax);
    }
    ShapeMemory& shape = shapes_.FindOrAdd(scope.shape);
    for (const CacheEntry& entry : decision.shared_entries) {
      Remember(shape.entries, entry, kShapeEntriesMax);
    }
    const SentPlan sent = decision.sent.value_or(SentPlan());
    ForAccounts(memory, [&](Account& account) { account.Send(sent.premium, sent.total_tokens); });
  }

  // Corrects the accounts and entries by what the answer reports.
  void Settle(const Outcome& outcome, const SentPlan& sent, PlannedConversation& memory) {
    const auto read = static_cast<double>(outcome.cache_read_tokens);
    const auto written = static_cast<double>(outcome.cache_write_tokens);
    const double correction = PremiumOf(sent, written) - sent.premium;
    ForAccounts(memory, [&](Account& account) {
      account.loss += correction;
      account.Save((1 - sent.read_factor) * read, sent.total_tokens);
    });
    const bool was_read = read > kReadShareMin * sent.read_tokens;
    if (sent.read_tokens > 0) memory.stability.Read(was_read, sent.expects_earned);
    if (written == 0 && read == 0) {
      DropWritten(sent, memory);
    } else {
      const double estimated = static_cast<double>(outcome.estimated_tokens) /
                               std::max<double>(static_cast<double>(outcome.input_tokens), 1);
      const Report report{.sent = sent,
                          .cached_tokens = (read + written) * estimated,
                          .was_read = was_read,
                          .now_us = outcome.now_us};
      Confirm(memory.entries, report);
      if (ShapeMemory* shape = shapes_.Find(memory.shape)) Confirm(shape->entries, report);
    }
    // The prefix was evicted or routed elsewhere, so all entries written up to this request are
    // dropped.
    if (written == 0 && read < kReadShareMin * sent.read_tokens) {
      std::erase_if(memory.entries,
                    [&](const CacheEntry& entry) { return entry.written_us <= sent.time_us; });
    }
  }

  const Options options_;
  mutable std::mutex mutex_;
  LruMap<Identity, PlannedConversation> conversations_;
  LruMap<Identity, ShapeMemory> shapes_;
  LruMap<Identity, GroupMemory> groups_;
  LruMap<Identity, double> scales_;  // reported per estimated token, by target
  uint64_t num_plans_ = 0;
};

}  // namespace

std::unique_ptr<Planner> Planner::Make(const Options& options) {
  return std::make_unique<LearningPlanner>(options);
}

}  // namespace kvgate::prompt::planner
