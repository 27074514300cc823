// WindowCache: finds single blocks in the pool of a KV group whose layers see a window only.
//
// A block has the key that PrefixCache knows it by: the hash finds, the digest proves. There is no
// chain: what lies before the window is not needed, so a block may be here without those before it
// and goes by itself. Where a prompt can go on from is decided by whoever looks
// (schedule/window_groups.h).
//
// Most blocks that slide out of a window will not be asked for again: nobody branches there. They
// are marked expendable and go before all others, oldest first. One thread: the engine's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <unordered_map>
#include <vector>

#include <kvgate/ids.h>

#include "engine/kv/block_hasher.h"
#include "engine/kv/block_pool.h"
#include "kernels/backend.h"

namespace kvgate::kv {

// A token at the beginning of block n sees this many blocks before it, the last ones in part.
constexpr int WindowTailBlocks(int window) {
  return (window - 1 + kernels::kKvBlockTokens - 1) / kernels::kKvBlockTokens;
}

class WindowCache : private BlockPool::Listener {
 public:
  // REQUIRES: the pool outlives the cache and has no other listener.
  explicit WindowCache(BlockPool& pool);
  ~WindowCache() override;

  bool Contains(const BlockKey& key) const;
  // A reference to the block of this key, no longer expendable; empty: it is not here.
  BlockRef Find(const BlockKey& key);
  // Offers a block whose KV is complete. Returns the block that holds this content from now on: the
  // given one, or the one that was there already. One whose hash is taken by another prefix is not
  // taken in. REQUIRES: the caller holds a reference to `block`, which is in the cache but once.
  BlockId Insert(const BlockKey& key, BlockId block);
  // Unless it is protected, or several requests needed it.
  void MakeExpendable(BlockId block);

  // Drops everything that is not referenced.
  void Clear();

  // As PrefixCache's. Expendable blocks are not demoted: they are not worth the copy.
  void SetPriorities(std::unordered_map<BlockHash, int> priorities);
  using DemoteFunction = std::function<void(const BlockKey& key, BlockId id, int priority)>;
  void SetDemote(DemoteFunction demote) { demote_ = std::move(demote); }

  size_t num_entries() const { return blocks_.size(); }
  uint64_t num_digest_mismatches() const { return num_digest_mismatches_; }
  void CheckIntegrity() const;

 private:
  static constexpr int kExpendable = -1;

  void OnEvict(BlockId id) override;
  int PriorityOf(const BlockHash& hash) const;

  BlockPool& pool_;
  std::vector<std::optional<BlockKey>> keys_;      // by block id
  std::unordered_map<BlockHash, BlockId> blocks_;  // by hash
  std::unordered_map<BlockHash, int> priorities_;
  DemoteFunction demote_;
  uint64_t num_digest_mismatches_ = 0;
};

}  // namespace kvgate::kv
