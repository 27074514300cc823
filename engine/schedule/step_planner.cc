#include "engine/schedule/step_planner.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>

namespace kvgate::schedule {

using kernels::kKvBlockTokens;

namespace {

// Quarters of the prefill budget for the short lane while there is a long prompt too.
constexpr int kShortLaneQuarters = 3;

int WholeBlocks(int num_tokens) { return num_tokens / kKvBlockTokens * kKvBlockTokens; }

}  // namespace

std::vector<StepItem> StepPlanner::Plan() {
  std::vector<StepItem> step;
  is_copying_ = false;
  is_awaiting_masks_ = false;
  do {
    PlanDecode(step);
    PlanPrefill(step);
  } while (step.empty() && !is_copying_ && !is_awaiting_masks_ && PreemptForRoom());
  AwaitWrittenBlocks(step);
  return step;
}

// Called if no sequence can proceed. Prefill needs no more blocks than admission acquired, except
// those of windows, and those for the copies that a bounded sequence makes before its first drop.
bool StepPlanner::PreemptForRoom() {
  const bool wants_blocks = !parts_.groups.windows().empty() || parts_.context.is_bounded();
  Sequence* const victim = wants_blocks ? parts_.preemption.Next() : nullptr;
  if (victim != nullptr) parts_.preemption.Preempt(*victim);
  return victim != nullptr;
}

// True if the sequence must wait: for its mask, or for blocks that are being copied from the host.
bool StepPlanner::AwaitsOthers(Sequence& sequence) {
  is_awaiting_masks_ |= sequence.awaits_mask;
  if (sequence.awaits_mask) return true;
  if (sequence.copy_ticket == 0) return false;
  if (!parts_.backend.IsCopied(sequence.copy_ticket)) {
    is_copying_ = true;
    return true;
  }
  sequence.copy_ticket = 0;
  if (sequence.num_preemptions == 0) sequence.restored_at = Clock::now();
  return false;
}

// Waits for the blocks that the step writes: their old content may still be being copied to the
// host.
void StepPlanner::AwaitWrittenBlocks(std::span<const StepItem> step) {
  for (const StepItem& item : step) {
    const Sequence& sequence = *item.sequence;
    const auto first = static_cast<size_t>(sequence.num_slots() / kKvBlockTokens);
    const auto end = static_cast<size_t>(BlocksFor(sequence.num_slots() + item.num_tokens));
    for (const auto& group : parts_.groups.all()) {
      const std::span<const BlockId> table(sequence.held[group->index()].block_table);
      group->Await(table.subspan(first, std::min(end, table.size()) - first));
    }
  }
}

void StepPlanner::PlanDecode(std::vector<StepItem>& step) {
  // Preempting removes sequences from the end of the list, so the loop checks the end every time.
  const SequenceList& running = parts_.running;
  for (auto it = running.begin(); it != running.end();) {
    Sequence& sequence = **it;
    if (sequence.state != SequenceState::kRunning || !sequence.is_decoding() ||
        AwaitsOthers(sequence)) {
      ++it;
      continue;
    }
    if (static_cast<int>(step.size()) == options_.tokens_max) return;
    if (!MakeRoomFor(sequence)) {
      // The sequence was the last one and was preempted itself, or must wait until a write releases
      // blocks.
      it = sequence.state == SequenceState::kWaiting ? running.end() : std::next(it);
      continue;
    }
    step.push_back({.sequence = &sequence, .num_tokens = 1, .wants_logits = true});
    ++it;
  }
}

void StepPlanner::PlanPrefill(std::vector<StepItem>& step) {
  std::vector<Sequence*> short_lane;
  std::vector<Sequence*> long_lane;
  for (const std::unique_ptr<Sequence>& sequence : parts_.running) {
    if (sequence->state != SequenceState::kRunning || sequence->is_decoding()) continue;
    if (AwaitsOthers(*sequence)) continue;
    const bool is_short = sequence->num_pending() <= options_.short_prompt_tokens;
    (is_short ? short_lane : long_lane).push_back(sequence.get());
  }
  const int num_decoding = static_cast<int>(step.size());
  const bool both_lanes = !short_lane.empty() && !long_lane.empty();
  PrefillBudget budget{.tokens = options_.tokens_max - num_decoding,
                       .seconds = options_.seconds_max,
                       .chunk_tokens_min = 2 * kKvBlockTokens};
  if (num_decoding > 0 || both_lanes) {
    // Prefill proceeds by at least one block, however many sequences decode.
    budget.tokens =
        std::min(budget.tokens, std::max(options_.mixed_tokens_max - num_decoding, kKvBlockTokens));
    budget.seconds /= 4;
    budget.chunk_tokens_min = kKvBlockTokens;
  }
  int reserved = 0;
  if (both_lanes) {
    reserved = WholeBlocks(budget.tokens * (4 - kShortLaneQuarters) / 4);
    // A quarter of a small budget is less than a block; the long lane gets one block every fourth
    // step.
    if (reserved == 0 && ++num_steps_without_long_ % 4 == 0) reserved = kKvBlockTokens;
  }
  budget.tokens -= reserved;
  PlanLane(short_lane, budget, step);
  budget.tokens += reserved;
  PlanLane(long_lane, budget, step);
}

// The tenant with the least service goes first; within a tenant, the sequence admitted first.
void StepPlanner::PlanLane(std::vector<Sequence*>& lane, PrefillBudget& budget,
                           std::vector<StepItem>& step) {
  std::ranges::stable_sort(lane, {}, [this](const Sequence* sequence) {
    return parts_.waiting.service(sequence->tenant);
  });
  for (Sequence* const sequence : lane) {
    const int num_tokens = ChunkTokens(*sequence, budget);
    if (num_tokens <= 0) continue;
    step.push_back({.sequence = sequence,
                    .num_tokens = num_tokens,
                    .wants_logits = num_tokens == sequence->num_pending()});
    budget.tokens -= num_tokens;
    budget.seconds -= parts_.costs.PrefillSeconds(sequence->num_computed, num_tokens);
    budget.chunk_tokens_min = 0;  // only the first prompt of a step is exempt from the time limit
  }
}

// Returns the size of the sequence's next chunk, for which it has blocks from then on.
int StepPlanner::ChunkTokens(Sequence& sequence, const PrefillBudget& budget) {
  // A bounded sequence gets the blocks for its next chunk by dropping old ones.
  if (sequence.num_slots_left() == 0) parts_.context.Bound(sequence);
  int num_tokens = std::min({sequence.num_pending(), budget.tokens, sequence.num_slots_left()});
  if (parts_.costs.has_prefill_speed()) {
    const int in_time = parts_.costs.TokensWithin(sequence.num_computed, budget.seconds);
    num_tokens = std::min(num_tokens, std::max(in_time, budget.chunk_tokens_min));
  }
  // Attention counts for all tokens of a step or for none, so a step ends at first_mass_token.
  if (const int uncounted = sequence.first_mass_token - sequence.num_computed; uncounted > 0) {
    num_tokens = std::min(num_tokens, uncounted);
  }
  if (num_tokens < sequence.num_pending()) {
    num_tokens = WholeBlocks(sequence.num_computed + num_tokens) - sequence.num_computed;
  }
  if (num_tokens <= 0) return 0;
  const int end = sequence.num_computed + num_tokens;
  const int reserved = parts_.windows.Reserve(sequence, end);
  return (reserved < end ? WholeBlocks(reserved) : end) - sequence.num_computed;
}

// Acquires blocks for all tokens of the sequence; for the next token only if its context is
// bounded.
bool StepPlanner::Grow(Sequence& sequence) {
  const int num_new = parts_.context.BlocksNeeded(sequence) - sequence.full().end();
  if (num_new > 0) {
    std::optional<std::vector<kv::BlockRef>> fresh =
        parts_.groups.full().Acquire(num_new, sequence.tenant);
    if (!fresh.has_value()) return false;
    parts_.context.Append(sequence, std::move(*fresh));
  }
  if (parts_.windows.Reserve(sequence, sequence.num_tokens()) < sequence.num_tokens()) return false;
  if (sequence.num_slots_left() == 0) parts_.context.Bound(sequence);
  return sequence.num_slots_left() > 0;
}

bool StepPlanner::MakeRoomFor(Sequence& sequence) {
  while (!Grow(sequence)) {
    Sequence* const victim = parts_.preemption.Next();
    // The oldest keeps its blocks: whatever holds the missing ones (a write, a load) will release
    // them.
    if (victim == nullptr) return false;
    parts_.preemption.Preempt(*victim);
    if (victim == &sequence) return false;
  }
  return true;
}

}  // namespace kvgate::schedule
