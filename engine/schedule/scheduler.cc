#include "engine/schedule/scheduler.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace kvgate::schedule {
namespace {

// The number of waiting sequences that are tried in one round ...
constexpr size_t kCandidatesMax = 32;
// ... and the number of them that may find no room before the round ends.
constexpr size_t kNoRoomMax = 8;
// A sequence without room is bypassed this many times; after that all others wait for it.
constexpr int kBypassesMax = 16;

}  // namespace

Scheduler::Scheduler(const Options& options, const Parts& parts)
    : options_(options),
      costs_(parts.costs),
      stores_(parts.stores),
      pool_(parts.groups.full().pool()),
      single_flight_(running_),
      look_ups_(parts.stores, parts.costs, parts.groups),
      windows_(parts.groups.windows()),
      context_(options.context_policy, options.context_policy_tokens, parts.groups.full(),
               single_flight_),
      offers_(parts.hasher, parts.groups, windows_, single_flight_, parts.backend.Info().invariant),
      preemption_(waiting_, running_, offers_),
      restorer_({.stores = parts.stores,
                 .costs = parts.costs,
                 .group = parts.groups.full(),
                 .windows = windows_,
                 .offers = offers_,
                 .preemption = preemption_}),
      admission_(options.tenant_kv_share, {.running = running_,
                                           .groups = parts.groups,
                                           .stores = parts.stores,
                                           .costs = parts.costs,
                                           .windows = windows_,
                                           .context = context_,
                                           .single_flight = single_flight_,
                                           .look_ups = look_ups_,
                                           .offers = offers_,
                                           .restorer = restorer_}),
      planner_(options.step, {.running = running_,
                              .waiting = waiting_,
                              .backend = parts.backend,
                              .costs = parts.costs,
                              .groups = parts.groups,
                              .windows = windows_,
                              .context = context_,
                              .preemption = preemption_}) {}

void Scheduler::Add(std::unique_ptr<Sequence>&& sequence) {
  KVGATE_CHECK(sequence->num_tokens() > 0, "an empty sequence");
  KVGATE_CHECK(context_.BlocksNeeded(*sequence) <= static_cast<int>(pool_.num_blocks()),
               "a sequence that can never fit");
  context_.Enter(*sequence);
  Prepare(*sequence);
  sequence->is_long =
      sequence->num_tokens() - sequence->num_cached_at_arrival > options_.step.short_prompt_tokens;
  waiting_.Add(std::move(sequence));
}

void Scheduler::Prepare(Sequence& sequence) {
  offers_.Enter(sequence);
  offers_.ComputeKeys(sequence, context_.NumReusableBlocks(sequence));
  sequence.num_cached_at_arrival = admission_.CountCachedTokens(sequence);
}

double Scheduler::EstimateTtftSeconds(Sequence& sequence) {
  Prepare(sequence);
  const int num_own = sequence.num_tokens() - sequence.num_cached_at_arrival;
  const bool is_long = num_own > options_.step.short_prompt_tokens;
  double seconds = costs_.PrefillSeconds(sequence.num_cached_at_arrival, num_own);
  const auto add = [&](const Sequence& other, int num_done) {
    const int num_pending = other.num_prompt_tokens - num_done;
    // A short prompt does not wait for the long ones.
    if (num_pending <= 0 || (!is_long && num_pending > options_.step.short_prompt_tokens)) return;
    seconds += costs_.PrefillSeconds(num_done, num_pending);
  };
  for (const auto& other : running_) add(*other, other->num_computed);
  waiting_.ForEach([&](const Sequence& other) { add(other, other.num_cached_at_arrival); });
  return seconds;
}

void Scheduler::AdmitWaiting() {
  admitting_.reset();
  const auto sequences_max = static_cast<size_t>(options_.sequences_max);
  if (waiting_.empty() || running_.size() >= sequences_max) return;
  const std::vector<Sequence*> candidates = waiting_.Candidates(
      kCandidatesMax,
      [this](const Sequence& sequence) {
        return sequence.look_up_ticket != 0 || single_flight_.IsAwaiting(sequence);
      },
      [this](const Sequence& sequence) { return admission_.CountCachedTokens(sequence); });
  std::vector<Sequence*> without_room;
  without_room.reserve(kNoRoomMax);
  for (Sequence* const sequence : candidates) {
    if (running_.size() >= sequences_max) return;
    admitting_ = sequence->id;
    const Admission::Outcome outcome = admission_.Try(*sequence);
    admitting_.reset();
    if (outcome == Admission::Outcome::kAdmitted) {
      waiting_.TakeTo(*sequence, running_);
      for (Sequence* const passed : without_room) ++passed->num_bypassed;
    } else if (outcome == Admission::Outcome::kNoRoom) {
      without_room.push_back(sequence);
      if (without_room.size() == kNoRoomMax || sequence->num_bypassed >= kBypassesMax) return;
    }
  }
}

bool Scheduler::SlidesUnstored(const Sequence& sequence) const {
  int num_stored = sequence.num_stored_blocks;
  if (stores_.disk == nullptr) num_stored = sequence.num_shared_blocks;
  if (stores_.shared != nullptr) num_stored = std::min(num_stored, sequence.num_shared_blocks);
  return windows_.SlidesBehind(sequence, num_stored);
}

void Scheduler::OnComputed(const StepItem& item) {
  Sequence& sequence = *item.sequence;
  const int num_before = sequence.num_computed;
  sequence.num_computed += item.num_tokens;
  sequence.num_prefilled_tokens += std::min(sequence.num_computed, sequence.num_prompt_tokens) -
                                   std::min(num_before, sequence.num_prompt_tokens);
  waiting_.Charge(sequence.tenant, item.num_tokens);
  offers_.OfferComputed(sequence, num_before);
  context_.Bound(sequence);
  // Requests with the same prompt (parallel samples) also need its last, unfinished block.
  if (sequence.num_computed == sequence.num_prompt_tokens) offers_.OfferPartial(sequence);
}

std::unique_ptr<Sequence> Scheduler::Remove(RequestId id) {
  const auto has_id = [id](const auto& sequence) { return sequence->id == id; };
  std::unique_ptr<Sequence> sequence;
  if (const auto it = std::ranges::find_if(running_, has_id); it != running_.end()) {
    if ((*it)->state == SequenceState::kRestoring) restorer_.Abort(**it);
    sequence = std::move(*it);
    running_.erase(it);
    offers_.Release(*sequence);
  } else if (const Sequence* const waiting = waiting_.Find(id)) {
    sequence = waiting_.Take(*waiting);
    look_ups_.Forget(*sequence);
  } else {
    return nullptr;
  }
  waiting_.OnEnded(*sequence);
  return sequence;
}

Sequence* Scheduler::Find(RequestId id) {
  Sequence* const running = FindById(running_, id);
  return running != nullptr ? running : waiting_.Find(id);
}

Sequence* Scheduler::Newest() const {
  return running_.empty() ? waiting_.Any() : running_.back().get();
}

std::vector<RequestId> Scheduler::Ids() const {
  std::vector<RequestId> ids;
  for (const auto& sequence : running_) ids.push_back(sequence->id);
  waiting_.ForEach([&](const Sequence& sequence) { ids.push_back(sequence.id); });
  return ids;
}

}  // namespace kvgate::schedule
