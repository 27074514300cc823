#include "engine/kv/block_pool.h"

#include <kvgate/check.h>

namespace kvgate::kv {

void BlockRef::Reset() {
  if (pool_ != nullptr) std::exchange(pool_, nullptr)->Release(id_);
}

void ReleaseLastToFirst(std::vector<BlockRef>& blocks) {
  while (!blocks.empty()) blocks.pop_back();
}

BlockPool::BlockPool(uint32_t num_blocks) : slots_(num_blocks) {
  KVGATE_CHECK(num_blocks > 0 && num_blocks < kNone, "number of KV blocks");
  free_.reserve(num_blocks);
  for (uint32_t index = num_blocks; index-- > 0;) free_.push_back(index);
}

BlockPool::~BlockPool() { KVGATE_CHECK(num_used() == 0, "a block outlives its pool"); }

std::optional<std::vector<BlockRef>> BlockPool::Acquire(uint32_t count) {
  if (count > num_available()) return std::nullopt;
  std::vector<BlockRef> blocks;
  blocks.reserve(count);
  for (uint32_t i = 0; i < count; ++i) {
    uint32_t index = oldest_;
    if (!free_.empty()) {
      index = free_.back();
      free_.pop_back();
    } else {
      Remove(index);
      slots_[index].marked = false;
      ++num_evicted_;
      if (listener_ != nullptr) listener_->OnEvict(BlockId{index});
    }
    slots_[index].references = 1;
    blocks.push_back(BlockRef(this, BlockId{index}));
  }
  return blocks;
}

BlockRef BlockPool::Share(BlockId id) {
  Slot& slot = slots_[id.value];
  KVGATE_CHECK(slot.references > 0 || slot.marked, "a free block is shared");
  if (slot.references++ == 0) Remove(id.value);
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
  free_.push_back(id.value);
}

void BlockPool::Release(BlockId id) {
  Slot& slot = slots_[id.value];
  KVGATE_CHECK(slot.references > 0, "a block is released twice");
  if (--slot.references > 0) return;
  if (slot.marked) {
    Append(id.value);
  } else {
    free_.push_back(id.value);
  }
}

void BlockPool::Append(uint32_t index) {
  Slot& slot = slots_[index];
  slot.older = newest_;
  slot.newer = kNone;
  (newest_ == kNone ? oldest_ : slots_[newest_].newer) = index;
  newest_ = index;
  ++num_cached_;
}

void BlockPool::Remove(uint32_t index) {
  Slot& slot = slots_[index];
  (slot.older == kNone ? oldest_ : slots_[slot.older].newer) = slot.newer;
  (slot.newer == kNone ? newest_ : slots_[slot.newer].older) = slot.older;
  slot.older = slot.newer = kNone;
  --num_cached_;
}

std::vector<BlockId> BlockPool::EvictionOrder() const {
  std::vector<BlockId> order;
  order.reserve(num_cached_);
  for (uint32_t index = oldest_; index != kNone; index = slots_[index].newer) {
    order.push_back(BlockId{index});
  }
  return order;
}

void BlockPool::CheckIntegrity() const {
  std::vector<int> seen(slots_.size(), 0);
  for (const uint32_t index : free_) {
    ++seen[index];
    KVGATE_CHECK(slots_[index].references == 0 && !slots_[index].marked, "free block in use");
  }
  uint32_t num_in_line = 0;
  uint32_t previous = kNone;
  for (uint32_t index = oldest_; index != kNone; index = slots_[index].newer) {
    ++seen[index];
    ++num_in_line;
    KVGATE_CHECK(slots_[index].references == 0 && slots_[index].marked, "cached block in use");
    KVGATE_CHECK(slots_[index].older == previous, "line of cached blocks is torn");
    KVGATE_CHECK(num_in_line <= slots_.size(), "line of cached blocks has a cycle");
    previous = index;
  }
  KVGATE_CHECK(previous == newest_ && num_in_line == num_cached_, "line of cached blocks");
  for (size_t index = 0; index < slots_.size(); ++index) {
    const int expected = slots_[index].references > 0 ? 0 : 1;
    KVGATE_CHECK(seen[index] == expected, "a block is in two states or in none");
  }
}

}  // namespace kvgate::kv
