// HostTier: evicted KV blocks in host memory, between the block pool and the disk.
//
// A full block that the pool is about to lose is copied here; a prompt that continues with it is
// copied back instead of being read from disk or computed. A copy stays here after it was copied
// back, so that losing it again costs nothing. Eviction is the pool's (block_pool.h), leaf before
// parent.
//
// Copies are begun many at a time, and on a device they run beside the engine's steps
// (Backend::ReadKvBlocks): a block of the arena with a copy under way has a ticket here. Whoever
// lets a step read such a block waits for the ticket; whoever lets one write it calls Await.
// One thread: the engine's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <unordered_map>
#include <vector>

#include <kvgate/ids.h>
#include <kvgate/result.h>

#include "engine/kv/block_hasher.h"
#include "engine/kv/block_pool.h"
#include "engine/tier/host_arena.h"
#include "kernels/backend.h"

namespace kvgate::tier {

class HostTier final : private kv::BlockPool::Listener {
 public:
  // As many blocks as `bytes` holds. kInvalidArgument (field "host_memory"): not even one;
  // kOverloaded: the system does not give the memory. Backend and arena outlive the tier.
  static Result<std::unique_ptr<HostTier>> Open(uint64_t bytes, kernels::Backend& backend,
                                                kernels::KvArena& arena,
                                                size_t piece_bytes = HostArena::kPieceBytes);
  ~HostTier() override;

  // Keeps a copy of the arena's block, where there is a slot that nobody holds. The copy begins at
  // the latest with BeginCopies, which goes before anything writes the block. REQUIRES: its KV is
  // complete. Without memory for the bookkeeping there is no copy; never throws.
  void Put(const kv::BlockKey& key, BlockId block, int priority);
  void BeginCopies();
  bool Contains(const kv::BlockKey& key) const;
  // The copies of the leading keys that are here; they stay while they are held.
  std::vector<kv::BlockRef> Match(std::span<const kv::BlockKey> keys);
  // Copies what Match gave into blocks[i], one for each, and lets go of it. Returns the copies'
  // ticket: 0 when they are done.
  uint64_t Restore(std::vector<kv::BlockRef> copies, std::span<const BlockId> blocks);
  // Of the copies back into these blocks that are under way, the last one's ticket; 0: there is
  // none.
  uint64_t TicketOf(std::span<const BlockId> blocks);
  // Waits until no copy reads or writes these blocks.
  void Await(std::span<const BlockId> blocks);
  // Of copies back that are under way.
  uint64_t bytes_restoring();
  // As PrefixCache::SetPriorities.
  void SetPriorities(const std::unordered_map<BlockHash, int>& priorities);

  // How fast copies back are, tried with the first blocks of the arena, whose content is lost; 0
  // where they are no copies of a device's. REQUIRES: nothing was put yet.
  double MeasureBytesPerSecond();

  // That there will be.
  uint32_t num_blocks() const;
  uint32_t num_cached() const { return pool_.num_cached(); }
  void CheckIntegrity() const;

 private:
  // Copies that were begun together.
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
  // Of slots whose memory is not there yet, by slot; those before num_taken_ have been let go.
  std::vector<kv::BlockRef> unready_;
  uint32_t num_taken_ = 0;
  std::vector<kv::BlockKey> keys_;                // by slot
  std::unordered_map<BlockHash, BlockId> slots_;  // by hash
  std::vector<kernels::KvBlockCopy> noted_;       // to be begun: out of the arena
  std::deque<Batch> batches_;                     // under way
  struct Pending {
    uint64_t ticket = 0;
    bool is_restore = false;
  };
  std::unordered_map<uint32_t, Pending> pending_;  // by block: the newest copy under way
};

}  // namespace kvgate::tier
