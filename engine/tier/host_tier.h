// HostTier: keeps evicted KV blocks in host memory, between the block pool and the disk.
//
// A full block that the pool is about to evict is copied here. A prompt that needs it gets it
// copied back instead of reading it from disk or computing it. The copy stays here afterwards, so
// evicting the block again costs nothing. Eviction works as in the pool (block_pool.h), leaf before
// parent.
//
// Copies are started in batches, and on a device they run beside the engine's steps
// (Backend::ReadKvBlocks): an arena block with a copy in flight has a ticket here. Before a step
// reads such a block the caller waits for the ticket; before a step writes it the caller calls
// Await. Engine thread only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <unordered_map>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "engine/kv/block_hasher.h"
#include "engine/kv/block_pool.h"
#include "engine/tier/host_arena.h"
#include "kernels/backend.h"

namespace kvgate::tier {

class HostTier final : private kv::BlockPool::Listener {
 public:
  // Opens a tier of as many blocks as `bytes` holds. Fails with kInvalidArgument (field
  // "host_memory") if it holds none, and with kOverloaded if the system refuses the memory. Backend
  // and arena outlive the tier.
  static Result<std::unique_ptr<HostTier>> Open(uint64_t bytes, kernels::Backend& backend,
                                                kernels::KvArena& arena,
                                                size_t piece_bytes = HostArena::kPieceBytes);
  ~HostTier() override;

  // Copies the arena's block if there is a slot that is not held. The copy starts at the latest
  // with BeginCopies, which must be called before the block is written. Makes no copy if there is
  // no memory for its entry; never throws. REQUIRES: the block's KV is complete.
  void Put(const kv::BlockKey& key, BlockId block, int priority);
  void BeginCopies();
  bool Contains(const kv::BlockKey& key) const;
  // The same without a comparison of digests, to show what is where.
  bool Contains(const BlockHash& hash) const { return slots_.contains(hash); }
  // Returns the copies of the leading keys that are present; they stay while they are referenced.
  std::vector<kv::BlockRef> Match(std::span<const kv::BlockKey> keys);
  // Copies the result of Match into `blocks`, copies[i] into blocks[i], and releases it. Returns
  // the last copy's ticket, or 0 if all copies are done already.
  uint64_t Restore(std::vector<kv::BlockRef> copies, std::span<const BlockId> blocks);
  // Returns the last ticket of the copies back into these blocks that are in flight; 0 if there are
  // none.
  uint64_t TicketOf(std::span<const BlockId> blocks);
  // Waits until no copy reads or writes these blocks.
  void Await(std::span<const BlockId> blocks);
  // Bytes of copies back that are in flight.
  uint64_t bytes_restoring();
  // Same as PrefixCache::SetPriorities.
  void SetPriorities(const std::unordered_map<BlockHash, int>& priorities);

  // Measures the speed of copies back with the first blocks of the arena, whose content is lost.
  // Returns 0 if the arena is host memory. REQUIRES: no block was put yet.
  double MeasureBytesPerSecond();

  // The final number of slots, which may not all be ready yet.
  uint32_t num_blocks() const;
  uint32_t num_cached() const { return pool_.num_cached(); }
  uint64_t num_evicted() const { return pool_.num_evicted(); }
  void CheckIntegrity() const;

 private:
  // Copies that were started together.
  struct Batch {
    uint64_t ticket = 0;
    bool is_restore = false;
    std::vector<BlockId> blocks;  // of the arena
  };

  HostTier(std::unique_ptr<HostArena> memory, kernels::Backend& backend, kernels::KvArena& arena);
  void OnEvict(BlockId slot) override;
  void TakeReadySlots();
  void Note(const kv::BlockKey& key, BlockId block, int priority);
  void ForgetNoted();
  void ForgetDone();
  void Track(uint64_t ticket, bool is_restore, std::span<const kernels::KvBlockCopy> copies);
  void TrackBatch(uint64_t ticket, bool is_restore, std::span<const kernels::KvBlockCopy> copies);

  kernels::Backend& backend_;
  kernels::KvArena& arena_;
  const std::unique_ptr<HostArena> memory_;
  kv::BlockPool pool_;  // of slots
  // References to the slots whose memory is not ready yet, by slot; those before num_taken_ are
  // released.
  std::vector<kv::BlockRef> unready_;
  uint32_t num_taken_ = 0;
  std::vector<kv::BlockKey> keys_;                // by slot
  std::unordered_map<BlockHash, BlockId> slots_;  // by hash
  std::vector<kernels::KvBlockCopy> noted_;       // copies out of the arena, not started yet
  std::deque<Batch> batches_;                     // in flight
  struct Pending {
    uint64_t ticket = 0;
    bool is_restore = false;
  };
  std::unordered_map<uint32_t, Pending> pending_;  // by arena block: its newest copy in flight
};

}  // namespace kvgate::tier
