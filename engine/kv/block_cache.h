// BlockCache: what the caches of all KV groups have in common. A cache lists the blocks of one pool
// by the hash of their content, knows how firmly each is to be kept, and hands out those that the
// pool evicts. PrefixCache and WindowCache say which block is found. Engine thread only.
#pragma once

#include <cstdint>
#include <functional>
#include <unordered_map>
#include <utility>

#include "base/ids.h"
#include "engine/kv/block_hasher.h"
#include "engine/kv/block_pool.h"

namespace kvgate::kv {

using PriorityMap = std::unordered_map<BlockHash, int>;

class BlockCache : public BlockPool::Listener {
 public:
  ~BlockCache() override { pool_.SetListener(nullptr); }

  // Sets the priority of blocks by hash, both present and future ones; all others have priority 0.
  // REQUIRES: a parent's priority is never lower than its child's, unless blocks have no parents.
  virtual void SetPriorities(PriorityMap priorities) = 0;
  // Called with each full block that is about to be evicted, while its KV is still in place. Must
  // not throw.
  using DemoteFunction = std::function<void(const BlockKey& key, BlockId id, int priority)>;
  void SetDemote(DemoteFunction demote) { demote_ = std::move(demote); }
  // Drops all blocks that are not referenced.
  virtual void Clear() = 0;

  uint64_t num_digest_mismatches() const { return num_digest_mismatches_; }
  // Aborts unless the cache and its pool agree.
  virtual void CheckIntegrity() const = 0;

 protected:
  // REQUIRES: the pool outlives the cache and has no other listener.
  explicit BlockCache(BlockPool& pool) : pool_(pool) { pool_.SetListener(this); }
  int PriorityOf(const BlockHash& hash) const {
    const auto found = priorities_.find(hash);
    return found != priorities_.end() ? found->second : 0;
  }

  BlockPool& pool_;
  PriorityMap priorities_;
  DemoteFunction demote_;
  uint64_t num_digest_mismatches_ = 0;
};

}  // namespace kvgate::kv
