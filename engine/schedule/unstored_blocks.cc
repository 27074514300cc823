#include "engine/schedule/unstored_blocks.h"

#include <algorithm>

namespace kvgate::schedule {

using kernels::kKvBlockTokens;

int& UnstoredBlocks::NumStored(Sequence& sequence) const {
  return store_->store() == tier::StoreName::kDisk ? sequence.num_stored_blocks
                                                   : sequence.num_shared_blocks;
}

std::vector<tier::WriteItem> UnstoredBlocks::Take(Sequence& sequence) const {
  std::vector<tier::WriteItem> items;
  if (store_ == nullptr || sequence.num_dropped_tokens > 0) return items;
  int& num_stored = NumStored(sequence);
  for (int block = num_stored; block < sequence.num_offered_blocks; ++block) {
    const tier::WritePriority priority = PriorityOf(sequence, block);
    // The store could not find the blocks behind a missing one.
    if (!TakeFrom(groups_.full(), sequence, block, priority, items)) break;
    ++num_stored;
    // Windows before a point where other prompts may resume have the write priority of the block;
    // the priority of other windows is unknown, so they count as common.
    const bool is_near = std::ranges::any_of(groups_.windows(), [&](tier::WindowGroup* window) {
      return WindowGroups::IsNearResumePoint(*window, sequence, block);
    });
    for (tier::WindowGroup* const window : groups_.windows()) {
      (void)TakeFrom(*window, sequence, block, is_near ? priority : tier::WritePriority::kCommon,
                     items);
    }
  }
  return items;
}

// Appends an item for the group's part of the block, unless the store has it. Returns false if it
// is not to be stored.
bool UnstoredBlocks::TakeFrom(tier::KvGroup& group, const Sequence& sequence, int block,
                              tier::WritePriority priority,
                              std::vector<tier::WriteItem>& items) const {
  const HeldBlocks& held = sequence.held[group.index()];
  if (block < held.first || block >= held.end()) return false;
  const auto index = static_cast<size_t>(block);
  const BlockId id = held.block_table[index];
  const kv::BlockKey& key = sequence.keys[index];
  // A block that the cache did not take in (its hash or a parent's collides) is not worth a write.
  if (!group.pool().is_marked(id)) return false;
  if (store_->Contains(key, group.index())) return true;
  if (admission_ != nullptr && !admission_->Admit(group.block_bytes(), priority)) return false;
  tier::WriteItem& item =
      items.emplace_back(tier::WriteItem{.key = key,
                                         .parent = key.hash,
                                         .depth = static_cast<uint32_t>(block) + 1,
                                         .block = id,
                                         .group = group.index()});
  if (group.index() != kv::kFullGroup) return true;  // it hangs from the full group's record
  item.parent = block == 0 ? BlockHash{} : sequence.keys[index - 1].hash;
  item.depth = static_cast<uint32_t>(block);
  item.tokens = {sequence.tokens.begin() + block * kKvBlockTokens,
                 sequence.tokens.begin() + (block + 1) * kKvBlockTokens};
  return true;
}

tier::WritePriority UnstoredBlocks::PriorityOf(const Sequence& sequence, int block) const {
  const kv::BlockPool& pool = groups_.full().pool();
  const BlockId id = sequence.full().block_table[static_cast<size_t>(block)];
  if (pool.priority(id) > 0) return tier::WritePriority::kPinned;
  const bool is_stable = (block + 1) * kKvBlockTokens <= sequence.num_stable_tokens;
  const bool is_worthy = is_stable || pool.num_uses(id) > 1 || sequence.num_preemptions > 0;
  return is_worthy ? tier::WritePriority::kWorthy : tier::WritePriority::kCommon;
}

std::vector<kv::BlockRef> UnstoredBlocks::Hold(const Sequence& sequence,
                                               std::span<const tier::WriteItem> items) const {
  std::vector<kv::BlockRef> held;
  size_t num_chained = 0;
  for (auto item = items.rbegin(); item != items.rend(); ++item) {
    if (item->group == kv::kFullGroup) {
      num_chained = std::max(num_chained, item->depth + size_t{1});
    } else {
      held.push_back(groups_[item->group].pool().Share(item->block));
    }
  }
  held.reserve(held.size() + num_chained);
  for (size_t i = 0; i < num_chained; ++i) {
    held.push_back(groups_.full().pool().Share(sequence.full().blocks[i].id()));
  }
  return held;
}

}  // namespace kvgate::schedule
