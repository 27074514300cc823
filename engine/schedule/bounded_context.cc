#include "engine/schedule/bounded_context.h"

#include <algorithm>
#include <optional>
#include <span>
#include <utility>

namespace kvgate::schedule {

using kernels::kKvBlockTokens;

BoundedContext::BoundedContext(ContextPolicy policy, int policy_tokens, tier::FullGroup& group,
                               SingleFlight& single_flight)
    : policy_(policy),
      num_kept_(policy == ContextPolicy::kNone ? 0 : policy_tokens / kKvBlockTokens),
      group_(group),
      single_flight_(single_flight) {}

void BoundedContext::Enter(Sequence& sequence) const {
  if (policy_ == ContextPolicy::kLeastAttended) {
    sequence.first_mass_token = num_kept_ * kKvBlockTokens;
  }
}

int BoundedContext::BlocksNeeded(const Sequence& sequence) const {
  const int num_blocks = BlocksFor(sequence.num_tokens() - sequence.num_dropped_tokens);
  return is_bounded() ? std::min(num_blocks, num_kept_ + kContextGrowthBlocks) : num_blocks;
}

int BoundedContext::NumReusableBlocks(const Sequence& sequence) const {
  const int num_blocks = (sequence.num_tokens() - 1) / kKvBlockTokens;
  return is_bounded() ? std::min(num_blocks, num_kept_) : num_blocks;
}

void BoundedContext::Append(Sequence& sequence, std::vector<kv::BlockRef> blocks) const {
  HeldBlocks& held = sequence.full();
  if (is_bounded()) sequence.block_mass.reserve(held.blocks.size() + blocks.size());
  held.Append(std::move(blocks));
  if (is_bounded() && policy_ == ContextPolicy::kLeastAttended) {
    sequence.block_mass.resize(held.blocks.size(), 0);
  }
}

void BoundedContext::Bound(Sequence& sequence) {
  const int slots_max = (num_kept_ + kContextGrowthBlocks) * kKvBlockTokens;
  if (!is_bounded() || sequence.num_slots() < slots_max) return;
  while (true) {
    const int num_blocks = BlocksFor(sequence.num_slots());
    ContextTable table{.num_blocks = num_blocks, .num_newest_blocks = 1, .block_mass = {}};
    if (!sequence.block_mass.empty()) {
      table.block_mass =
          std::span<const uint64_t>(sequence.block_mass).first(static_cast<size_t>(num_blocks));
    }
    const std::optional<int> index = BlockToDrop(policy_, num_kept_, table);
    if (!index.has_value()) return;
    // Without room for the copies, the sequence keeps all its blocks until there is some.
    if (sequence.num_dropped_tokens == 0 && !Detach(sequence)) return;
    Drop(sequence, *index);
  }
}

// Replaces the blocks by copies outside the prefix cache: a holder of a cached block must hold its
// parents too, so cached blocks cannot be dropped one by one.
bool BoundedContext::Detach(Sequence& sequence) {
  HeldBlocks& held = sequence.full();
  // Throws if memory runs out, because dropping a block later would change the answer.
  auto fresh = group_.Acquire(held.end(), sequence.tenant);
  if (!fresh.has_value()) return false;
  single_flight_.Forget(sequence);
  for (size_t i = 0; i < held.blocks.size(); ++i) {
    const int num_tokens =
        std::clamp(sequence.num_slots() - static_cast<int>(i) * kKvBlockTokens, 0, kKvBlockTokens);
    group_.Copy(held.blocks[i].id(), (*fresh)[i].id(), num_tokens);
    held.block_table[i] = (*fresh)[i].id();
  }
  std::swap(held.blocks, *fresh);
  kv::ReleaseLastToFirst(*fresh);
  return true;
}

// Moves the block to the end of the table, where it is written next.
void BoundedContext::Drop(Sequence& sequence, int index) {
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
  group_.Poison(sequence.full().block_table.back());
}

}  // namespace kvgate::schedule
