#include "engine/kv/window_cache.h"

#include <utility>

#include "base/check.h"

namespace kvgate::kv {

WindowCache::WindowCache(BlockPool& pool) : BlockCache(pool), keys_(pool.num_blocks()) {}

bool WindowCache::Contains(const BlockKey& key) const {
  const auto found = blocks_.find(key.hash);
  return found != blocks_.end() && keys_[found->second.value]->digest == key.digest;
}

BlockRef WindowCache::Find(const BlockKey& key) {
  if (!Contains(key)) return {};
  const BlockId id = blocks_.find(key.hash)->second;
  if (pool_.priority(id) == kExpendable) pool_.SetPriority(id, 0);
  return pool_.Share(id);
}

BlockId WindowCache::Insert(const BlockKey& key, BlockId block) {
  KVGATE_CHECK(!keys_[block.value].has_value(), "a window block is inserted twice");
  const auto found = blocks_.find(key.hash);
  if (found != blocks_.end()) {
    if (keys_[found->second.value]->digest == key.digest) return found->second;
    ++num_digest_mismatches_;
    return block;
  }
  blocks_.emplace(key.hash, block);
  keys_[block.value] = key;
  pool_.SetPriority(block, PriorityOf(key.hash));
  pool_.MarkCached(block);
  return block;
}

void WindowCache::MakeExpendable(BlockId block) {
  if (!keys_[block.value].has_value() || pool_.priority(block) != 0) return;
  if (pool_.num_uses(block) == 1) pool_.SetPriority(block, kExpendable);
}

void WindowCache::Clear() {
  for (const BlockId id : pool_.EvictionOrder()) {
    blocks_.erase(keys_[id.value]->hash);
    keys_[id.value].reset();
    pool_.UnmarkCached(id);
  }
}

void WindowCache::SetPriorities(PriorityMap priorities) {
  priorities_ = std::move(priorities);
  for (const auto& [hash, id] : blocks_) {
    const int priority = PriorityOf(hash);
    if (priority == 0 && pool_.priority(id) == kExpendable) continue;
    pool_.SetPriority(id, priority);
  }
}

void WindowCache::OnEvict(BlockId id) {
  std::optional<BlockKey>& key = keys_[id.value];
  KVGATE_CHECK(key.has_value(), "a block is evicted that the cache does not know");
  if (demote_ && pool_.priority(id) != kExpendable) demote_(*key, id, PriorityOf(key->hash));
  blocks_.erase(key->hash);
  key.reset();
}

void WindowCache::CheckIntegrity() const {
  size_t num_present = 0;
  for (uint32_t index = 0; index < keys_.size(); ++index) {
    const std::optional<BlockKey>& key = keys_[index];
    KVGATE_CHECK(key.has_value() == pool_.is_marked(BlockId{index}), "cache and pool differ");
    if (!key.has_value()) continue;
    ++num_present;
    const auto found = blocks_.find(key->hash);
    KVGATE_CHECK(found != blocks_.end() && found->second.value == index, "index of window blocks");
  }
  KVGATE_CHECK(num_present == blocks_.size(), "number of window blocks");
}

}  // namespace kvgate::kv
