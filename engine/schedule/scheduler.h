// Scheduler: which sequences run, which blocks they hold, and what the next step computes.
//
// Sequences wait in order of arrival. One is admitted when the blocks of its whole prompt can be
// had; what the prefix cache holds of it is shared, what the store holds is asked for, the rest is
// prefilled in chunks that end on block boundaries. A step serves decoding sequences first; prefill
// takes what is left of the token budget. When a decoding sequence needs a block and none is to be
// had, the one admitted last gives up its blocks and waits again; the oldest never does, so there
// is always progress. One thread: the engine's.
#pragma once

#include <cstdint>
#include <deque>
#include <list>
#include <memory>
#include <optional>
#include <vector>

#include "engine/kv/prefix_cache.h"
#include "engine/schedule/sequence.h"
#include "engine/tier/disk_tier.h"
#include "kernels/backend.h"

namespace kvgate::schedule {

// The share of one sequence in a step: its next num_tokens tokens.
struct StepItem {
  Sequence* sequence = nullptr;
  int num_tokens = 0;
  bool wants_logits = false;  // the step reaches the sequence's last token
};

class Scheduler {
 public:
  struct Options {
    int step_tokens_max = 512;
    int sequences_max = 64;
  };

  // All references outlive the scheduler. `tier` may be null.
  Scheduler(const Options& options, kv::BlockHasher& hasher, kv::BlockPool& pool,
            kv::PrefixCache& cache, tier::DiskTier* tier, kernels::Backend& backend,
            kernels::KvArena& arena);

  // To the end of the waiting line. REQUIRES: the whole sequence fits the pool alone.
  void Add(std::unique_ptr<Sequence> sequence);
  // Admits waiting sequences while there is room; starts the loads they need.
  void AdmitWaiting();
  // Chooses and reserves blocks for the next step; empty when nothing can be computed now.
  std::vector<StepItem> PlanStep();
  // The step's KV is in place: counts it and offers blocks that became full to the prefix cache.
  void OnComputed(const StepItem& item);
  // The store's answer to a load: num_ok leading blocks are in place.
  void OnRestored(RequestId id, uint32_t num_ok);

  // Ends a sequence that is not kRestoring: its KV goes to the prefix cache, its blocks back to the
  // pool. Null when the id is unknown.
  std::unique_ptr<Sequence> Remove(RequestId id);
  Sequence* Find(RequestId id);

  // Full, cached blocks at the front of the sequence that the store does not have yet; from then on
  // they count as stored. Empty without a tier.
  std::vector<tier::WriteItem> TakeUnstoredBlocks(Sequence& sequence);
  // References to the first `count` blocks: what a write must hold.
  std::vector<kv::BlockRef> HoldBlocks(const Sequence& sequence, size_t count);

  size_t num_waiting() const { return waiting_.size(); }
  size_t num_running() const { return running_.size(); }
  uint64_t num_preemptions() const { return num_preemptions_; }
  // Of every sequence, running ones first.
  std::vector<RequestId> Ids() const;

 private:
  bool TryAdmit(Sequence& sequence);
  int CountOnDisk(const Sequence& sequence, size_t first_block) const;
  void StartRestore(Sequence& sequence, int num_blocks);
  bool GrowTo(Sequence& sequence, int num_tokens);
  bool MakeRoomFor(Sequence& sequence);
  void Preempt(Sequence& sequence);
  void ReleaseBlocks(Sequence& sequence);
  void ComputeKeys(Sequence& sequence, int num_blocks);
  void OfferFullBlocks(Sequence& sequence);
  const kv::BlockKey& ParentKey(const Sequence& sequence, int block) const {
    return block == 0 ? sequence.root : sequence.keys[static_cast<size_t>(block) - 1];
  }
  std::optional<std::vector<kv::BlockRef>> AcquireFresh(int count);
  void AppendBlocks(Sequence& sequence, std::vector<kv::BlockRef> blocks);

  Options options_;
  kv::BlockHasher& hasher_;
  kv::BlockPool& pool_;
  kv::PrefixCache& cache_;
  tier::DiskTier* tier_;
  kernels::Backend& backend_;
  kernels::KvArena& arena_;
  std::deque<std::unique_ptr<Sequence>> waiting_;
  std::list<std::unique_ptr<Sequence>> running_;  // by admission, oldest first
  uint64_t num_preemptions_ = 0;
};

}  // namespace kvgate::schedule
