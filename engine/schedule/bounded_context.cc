// The scheduler's handling of sequences whose KV a context policy bounds.
#include <algorithm>
#include <utility>

#include "engine/schedule/scheduler.h"

namespace kvgate::schedule {

using kernels::kKvBlockTokens;

int Scheduler::BlocksNeeded(const Sequence& sequence) const {
  const int num_blocks = BlocksFor(sequence.num_tokens() - sequence.num_dropped_tokens);
  return bounded_blocks_ == 0 ? num_blocks
                              : std::min(num_blocks, bounded_blocks_ + kContextGrowthBlocks);
}

// Returns how many more tokens fit the sequence's blocks.
int Scheduler::NumSlotsLeft(const Sequence& sequence) {
  return static_cast<int>(sequence.full().blocks.size()) * kKvBlockTokens - sequence.num_slots();
}

// Drops nothing until the table is full, and then all blocks beyond the bound; see
// context_policy.h.
void Scheduler::BoundContext(Sequence& sequence) {
  const int slots_max = (bounded_blocks_ + kContextGrowthBlocks) * kKvBlockTokens;
  if (bounded_blocks_ == 0 || sequence.num_slots() < slots_max) return;
  while (true) {
    const int num_blocks = BlocksFor(sequence.num_slots());
    ContextTable table{.num_blocks = num_blocks, .num_newest_blocks = 1, .block_mass = {}};
    if (!sequence.block_mass.empty()) {
      table.block_mass =
          std::span<const uint64_t>(sequence.block_mass).first(static_cast<size_t>(num_blocks));
    }
    const std::optional<int> index = BlockToDrop(options_.context_policy, bounded_blocks_, table);
    if (!index.has_value()) return;
    // Without room for the copies, the sequence keeps all its blocks until there is some.
    if (sequence.num_dropped_tokens == 0 && !Detach(sequence)) return;
    DropBlock(sequence, *index);
  }
}

// Replaces the blocks by copies outside the prefix cache: a holder of a cached block must hold its
// parents too, so cached blocks cannot be dropped one by one.
bool Scheduler::Detach(Sequence& sequence) {
  // Throws if memory runs out, because dropping a block later would change the answer.
  auto fresh = full_.Acquire(static_cast<int>(sequence.full().blocks.size()), sequence.tenant);
  if (!fresh.has_value()) return false;
  ForgetInFlight(sequence);
  for (size_t i = 0; i < sequence.full().blocks.size(); ++i) {
    const int num_tokens =
        std::clamp(sequence.num_slots() - static_cast<int>(i) * kKvBlockTokens, 0, kKvBlockTokens);
    full_.Copy(sequence.full().blocks[i].id(), (*fresh)[i].id(), num_tokens);
    sequence.full().block_table[i] = (*fresh)[i].id();
  }
  std::swap(sequence.full().blocks, *fresh);
  kv::ReleaseLastToFirst(*fresh);
  return true;
}

// Moves the block to the end of the table, where it is written next.
void Scheduler::DropBlock(Sequence& sequence, int index) {
  const auto to_end = [index](auto& items) {
    std::rotate(items.begin() + index, items.begin() + index + 1, items.end());
  };
  to_end(sequence.full().blocks);
  to_end(sequence.full().block_table);
  if (!sequence.block_mass.empty()) {
    to_end(sequence.block_mass);
    sequence.block_mass.back() = 0;
  }
  sequence.num_dropped_tokens += kKvBlockTokens;
#if KVGATE_DEBUG
  backend_.PoisonKvBlock(full_.arena(), sequence.full().block_table.back());
#endif
}

// Removes the sequence as a leader: no other request needs to wait for what it computes.
void Scheduler::ForgetInFlight(const Sequence& sequence) {
  for (const kv::BlockKey& key : sequence.keys) {
    const auto found = in_flight_.find(key.hash);
    if (found != in_flight_.end() && found->second == sequence.id) in_flight_.erase(found);
  }
}

}  // namespace kvgate::schedule
