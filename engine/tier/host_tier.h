// HostTier: evicted KV blocks in host memory, between the block pool and the disk.
//
// A full block that the pool is about to lose is copied here; a prompt that continues with it is
// copied back instead of being read from disk or computed. A copy stays here after it was copied
// back, so that losing it again costs nothing. Eviction is the pool's (block_pool.h), leaf before
// parent. One thread: the engine's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <unordered_map>
#include <vector>

#include <kvgate/ids.h>
#include <kvgate/result.h>

#include "engine/kv/block_hasher.h"
#include "engine/kv/block_pool.h"
#include "kernels/backend.h"

namespace kvgate::tier {

class HostTier final : private kv::BlockPool::Listener {
 public:
  // As many blocks as `bytes` holds. kInvalidArgument (field "host_memory"): not even one;
  // kOverloaded: the system does not give the memory. Backend and arena outlive the tier.
  static Result<std::unique_ptr<HostTier>> Open(uint64_t bytes, kernels::Backend& backend,
                                                kernels::KvArena& arena);
  ~HostTier() override;

  // Keeps a copy of the arena's block, where there is a slot that nobody holds. REQUIRES: its KV is
  // complete.
  void Put(const kv::BlockKey& key, BlockId block, int priority);
  bool Contains(const kv::BlockKey& key) const;
  // The copies of the leading keys that are here; they stay while they are held.
  std::vector<kv::BlockRef> Match(std::span<const kv::BlockKey> keys);
  // Copies what Match gave into blocks[i], one for each, and lets go of it.
  void Restore(std::vector<kv::BlockRef> copies, std::span<const BlockId> blocks);
  // As PrefixCache::SetPriorities.
  void SetPriorities(const std::unordered_map<BlockHash, int>& priorities);

  uint32_t num_blocks() const { return pool_.num_blocks(); }
  uint32_t num_cached() const { return pool_.num_cached(); }
  void CheckIntegrity() const;

 private:
  struct Unmap {
    size_t bytes;
    void operator()(std::byte* memory) const;
  };
  using Memory = std::unique_ptr<std::byte, Unmap>;

  HostTier(Memory memory, uint32_t num_blocks, kernels::Backend& backend, kernels::KvArena& arena);
  void OnEvict(BlockId slot) override;
  std::span<std::byte> slot_bytes(BlockId slot) const;

  kernels::Backend& backend_;
  kernels::KvArena& arena_;
  const Memory memory_;
  kv::BlockPool pool_;                            // of slots
  std::vector<kv::BlockKey> keys_;                // by slot
  std::unordered_map<BlockHash, BlockId> slots_;  // by hash
};

}  // namespace kvgate::tier
