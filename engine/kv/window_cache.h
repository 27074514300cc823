// WindowCache: finds single blocks in the pool of a KV group whose layers see only a window.
//
// A block has the same key as in PrefixCache: the hash finds it, the digest proves it. There is no
// chain: tokens before the window are not needed, so a block may be present without its parents and
// is evicted by itself. schedule/window_groups.h decides at which positions a prompt can resume.
//
// Most blocks that slide out of a window are not requested again, because no prompt branches there.
// They are marked expendable and are evicted before all others, oldest first. Engine thread only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <unordered_map>
#include <vector>

#include "base/ids.h"
#include "engine/kv/block_cache.h"
#include "engine/kv/block_hasher.h"
#include "engine/kv/block_pool.h"
#include "kernels/backend.h"

namespace kvgate::kv {

// The number of blocks before block n that a token at its beginning sees; the first one is seen in
// part.
constexpr int WindowTailBlocks(int window) {
  return (window - 1 + kernels::kKvBlockTokens - 1) / kernels::kKvBlockTokens;
}

class WindowCache final : public BlockCache {
 public:
  explicit WindowCache(BlockPool& pool);

  bool Contains(const BlockKey& key) const;
  // Returns a reference to the block, which is no longer expendable; empty if it is not present.
  BlockRef Find(const BlockKey& key);
  // Offers a block whose KV is complete. Returns the block that holds this content from then on:
  // the given one, or the one that was there already. A block whose hash another prefix has is not
  // taken in. REQUIRES: the caller references `block`, which is not in the cache yet.
  BlockId Insert(const BlockKey& key, BlockId block);
  // Marks the block expendable, unless it is pinned or several requests needed it.
  void MakeExpendable(BlockId block);

  void SetPriorities(PriorityMap priorities) override;
  void Clear() override;
  // Expendable blocks are not demoted, because they are not worth the copy.
  void OnEvict(BlockId id) override;

  size_t num_entries() const { return blocks_.size(); }
  void CheckIntegrity() const override;

 private:
  static constexpr int kExpendable = -1;

  std::vector<std::optional<BlockKey>> keys_;      // by block id
  std::unordered_map<BlockHash, BlockId> blocks_;  // by hash
};

}  // namespace kvgate::kv
