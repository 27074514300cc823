#include "engine/kv/block_pool.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace kvgate::kv {

void BlockRef::Reset() {
  if (pool_ != nullptr) std::exchange(pool_, nullptr)->Release(id_);
}

void ReleaseLastToFirst(std::vector<BlockRef>& blocks) {
  while (!blocks.empty()) blocks.pop_back();
}

std::vector<BlockId> IdsOf(std::span<const BlockRef> blocks) {
  std::vector<BlockId> ids;
  ids.reserve(blocks.size());
  for (const BlockRef& block : blocks) ids.push_back(block.id());
  return ids;
}

BlockPool::BlockPool(const Options& options) : options_(options), slots_(options.num_blocks) {
  KVGATE_CHECK(options.num_blocks > 0 && options.num_blocks < UINT32_MAX, "number of KV blocks");
  KVGATE_CHECK(options.uses_max > 0, "uses_max");
  free_.reserve(options.num_blocks);
  for (uint32_t index = options.num_blocks; index-- > 0;) free_.push_back(index);
  spare_.reserve(options.num_blocks);
  for (uint32_t i = 0; i < options.num_blocks; ++i) {
    queue_.emplace(Rank{}, i);
    spare_.push_back(queue_.extract(queue_.begin()));
  }
}

BlockPool::~BlockPool() { KVGATE_CHECK(num_used() == 0, "a block outlives its pool"); }

std::optional<std::vector<BlockRef>> BlockPool::Acquire(uint32_t count, uint32_t owner) {
  if (count > num_available()) return std::nullopt;
  if (owner >= owners_.size()) owners_.resize(owner + size_t{1});
  std::vector<BlockRef> blocks;
  blocks.reserve(count);
  for (uint32_t i = 0; i < count; ++i) {
    uint32_t index = 0;
    if (!free_.empty()) {
      index = free_.back();
      free_.pop_back();
    } else {
      index = ChooseVictim(owner);
      const Rank& rank = slots_[index].rank;
      // Blocks with a priority are evicted last whatever their worth, so they do not advance the
      // clock.
      if (rank.priority == 0) clock_ = std::max(clock_, rank.worth);
      Remove(index);
      ++num_evicted_;
      if (listener_ != nullptr) listener_->OnEvict(BlockId{index});
      Reset(index);
    }
    Slot& slot = slots_[index];
    slot.references = 1;
    slot.uses = 1;
    slot.owner = owner;
    ++owners_[owner].used;
    ++owners_[owner].held;
    blocks.push_back(BlockRef(this, BlockId{index}));
  }
  return blocks;
}

uint32_t BlockPool::ChooseVictim(uint32_t owner) const {
  if (options_.owner_blocks_max > 0 && owners_[owner].held >= options_.owner_blocks_max) {
    // The owner holds a good part of the pool, so one of its blocks is near the front of the queue.
    for (const auto& [rank, index] : queue_) {
      if (slots_[index].owner == owner) return index;
    }
  }
  return queue_.begin()->second;
}

BlockRef BlockPool::Share(BlockId id) {
  Slot& slot = slots_[id.value];
  KVGATE_CHECK(slot.references > 0 || slot.marked, "a free block is shared");
  if (slot.references++ == 0) {
    Remove(id.value);
    ++owners_[slot.owner].used;
  }
  return BlockRef(this, id);
}

void BlockPool::MarkCached(BlockId id) {
  KVGATE_CHECK(slots_[id.value].references > 0, "an unused block is marked");
  slots_[id.value].marked = true;
}

void BlockPool::UnmarkCached(BlockId id) {
  Slot& slot = slots_[id.value];
  if (!slot.marked) return;
  slot.marked = false;
  if (slot.references > 0) return;
  Remove(id.value);
  Reset(id.value);
  free_.push_back(id.value);
}

void BlockPool::CountUse(BlockId id) {
  Slot& slot = slots_[id.value];
  KVGATE_CHECK(slot.references > 0, "a use of an unused block");
  slot.uses = std::min(slot.uses + 1, options_.uses_max);
}

void BlockPool::SetPriority(BlockId id, int priority) {
  Slot& slot = slots_[id.value];
  const bool in_line = slot.references == 0 && slot.marked;
  if (in_line) Remove(id.value);
  slot.rank.priority = priority;
  if (in_line) Insert(id.value);
}

void BlockPool::Release(BlockId id) {
  Slot& slot = slots_[id.value];
  KVGATE_CHECK(slot.references > 0, "a block is released twice");
  if (--slot.references > 0) return;
  --owners_[slot.owner].used;
  if (slot.marked) {
    Append(id.value);
  } else {
    Reset(id.value);
    free_.push_back(id.value);
  }
}

void BlockPool::Append(uint32_t index) {
  Slot& slot = slots_[index];
  slot.rank.worth = clock_ + slot.uses;
  slot.rank.order = next_order_++;
  Insert(index);
}

void BlockPool::Insert(uint32_t index) {
  EvictionQueue::node_type node = std::move(spare_.back());
  spare_.pop_back();
  node.value() = {slots_[index].rank, index};
  queue_.insert(std::move(node));
}

void BlockPool::Remove(uint32_t index) {
  spare_.push_back(queue_.extract({slots_[index].rank, index}));
}

void BlockPool::Reset(uint32_t index) {
  Slot& slot = slots_[index];
  --owners_[slot.owner].held;
  slot = Slot{};
}

std::vector<BlockId> BlockPool::EvictionOrder() const {
  std::vector<BlockId> order;
  order.reserve(queue_.size());
  for (const auto& [rank, index] : queue_) order.push_back(BlockId{index});
  return order;
}

void BlockPool::CheckIntegrity() const {
  std::vector<int> seen(slots_.size(), 0);
  for (const uint32_t index : free_) {
    ++seen[index];
    KVGATE_CHECK(slots_[index].references == 0 && !slots_[index].marked, "free block in use");
  }
  for (const auto& [rank, index] : queue_) {
    ++seen[index];
    KVGATE_CHECK(slots_[index].references == 0 && slots_[index].marked, "cached block in use");
    KVGATE_CHECK(slots_[index].rank == rank, "rank of a cached block");
  }
  std::vector<OwnerCount> owners(owners_.size());
  for (size_t index = 0; index < slots_.size(); ++index) {
    const Slot& slot = slots_[index];
    const int expected = slot.references > 0 ? 0 : 1;
    KVGATE_CHECK(seen[index] == expected, "a block is in two states or in none");
    if (slot.references == 0 && !slot.marked) continue;
    ++owners[slot.owner].held;
    if (slot.references > 0) ++owners[slot.owner].used;
  }
  for (size_t owner = 0; owner < owners_.size(); ++owner) {
    KVGATE_CHECK(
        owners[owner].used == owners_[owner].used && owners[owner].held == owners_[owner].held,
        "count of an owner's blocks");
  }
}

}  // namespace kvgate::kv
