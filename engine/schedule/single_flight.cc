#include "engine/schedule/single_flight.h"

#include <algorithm>
#include <new>
#include <span>

namespace kvgate::schedule {

using kernels::kKvBlockTokens;

namespace {

// If all of the sequence's full blocks are the leader's too, returns how many tokens behind them
// both share; else 0.
int CountSharedTail(const Sequence& leader, const Sequence& sequence, size_t num_shared_blocks) {
  if (num_shared_blocks < sequence.keys.size()) return 0;
  const size_t begin = num_shared_blocks * kKvBlockTokens;
  const auto own = std::span(sequence.tokens).subspan(begin);
  const auto prompt = std::span(leader.tokens).first(static_cast<size_t>(leader.num_prompt_tokens));
  if (prompt.size() < begin) return 0;
  const auto [unused, end] = std::ranges::mismatch(prompt.subspan(begin), own);
  return static_cast<int>(end - own.begin());
}

}  // namespace

void SingleFlight::Lead(const Sequence& sequence, size_t first_block) {
  try {
    for (size_t i = first_block; i < sequence.keys.size(); ++i) {
      leaders_.try_emplace(sequence.keys[i].hash, sequence.id);
    }
  } catch (const std::bad_alloc&) {
  }
}

void SingleFlight::Forget(const Sequence& sequence, const kv::BlockKey& key) {
  const auto found = leaders_.find(key.hash);
  if (found != leaders_.end() && found->second == sequence.id) leaders_.erase(found);
}

void SingleFlight::Forget(const Sequence& sequence) {
  for (const kv::BlockKey& key : sequence.keys) Forget(sequence, key);
}

bool SingleFlight::Await(Sequence& sequence, int next_block, bool shares_tail) {
  auto end = static_cast<size_t>(next_block);
  if (end >= sequence.keys.size()) return false;
  const auto first = leaders_.find(sequence.keys[end].hash);
  if (first == leaders_.end()) return false;
  while (end < sequence.keys.size()) {
    const auto found = leaders_.find(sequence.keys[end].hash);
    if (found == leaders_.end() || found->second != first->second) break;
    ++end;
  }
  // A hash may collide; only equal digests prove that the prefix is the same.
  Sequence* const leader = FindById(running_, first->second);
  if (leader == nullptr || leader->keys[end - 1] != sequence.keys[end - 1]) return false;
  sequence.waits_for = leader->id;
  sequence.num_tokens_awaited = static_cast<int>(end) * kKvBlockTokens;
  leader->AddResumePoint(sequence.num_tokens_awaited);
  if (shares_tail && CountSharedTail(*leader, sequence, end) > 0) {
    // If the prompts share tokens behind their full blocks, the unfinished last block is awaited
    // too: it is offered when the leader's prompt is computed or the block is full.
    sequence.num_tokens_awaited =
        std::min(leader->num_prompt_tokens, sequence.num_tokens_awaited + kKvBlockTokens);
  }
  if (!sequence.was_single_flight) ++num_awaited_;
  sequence.was_single_flight = true;
  return true;
}

bool SingleFlight::IsAwaiting(const Sequence& sequence) const {
  if (sequence.num_tokens_awaited == 0) return false;
  const Sequence* const leader = FindById(running_, sequence.waits_for);
  return leader != nullptr && leader->num_computed < sequence.num_tokens_awaited;
}

}  // namespace kvgate::schedule
