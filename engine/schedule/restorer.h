// Restorer: the loads from disk under way, and whether each still pays.
//
// Before a load it plans how much of a stored prefix to restore; while one runs it compares what
// has arrived with what would have been computed by now. A load that falls behind is given up: what
// arrived is kept, the rest is computed, and the blocks that a reader may still write to are held
// until it is done. So a hit costs at most a twentieth more than no hit, or 10 ms, on any
// disk.
// One thread: the engine's.
#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "engine/kv/block_pool.h"
#include "engine/schedule/cost_model.h"
#include "engine/schedule/sequence.h"
#include "engine/tier/disk_tier.h"

namespace kvgate::schedule {

class Restorer {
 public:
  // `tier` may be null: then nothing is on disk. All outlive the restorer.
  Restorer(tier::DiskTier* tier, const CostModel& costs, uint64_t block_bytes);
  ~Restorer();  // REQUIRES: no load is under way

  // How many blocks behind `first_block` are on disk, in a row.
  int CountOnDisk(const Sequence& sequence, size_t first_block) const;
  // Restores the leading ones of `num_on_disk` blocks behind num_computed that are worth it; then
  // the sequence is kRestoring. REQUIRES: it holds the blocks.
  void Begin(Sequence& sequence, int num_on_disk);

  // A load's completion. The sequence that waited for it and has num_ok blocks more now, or null
  // when it was given up before.
  Sequence* OnCompletion(const tier::Completion& completion);
  // Those whose load has fallen behind computing.
  std::vector<Sequence*> LateSequences(Clock::time_point now) const;
  // Gives the sequence's load up. How many blocks are in place; of those after them, the ones still
  // being written to are taken out of sequence.blocks (and held here).
  int GiveUp(Sequence& sequence, bool is_late);

  bool idle() const { return loads_.empty(); }
  uint64_t num_cut() const { return num_cut_; }
  uint64_t num_skipped() const { return num_skipped_; }

 private:
  struct Load {
    Sequence* sequence = nullptr;    // null: given up
    std::vector<kv::BlockRef> held;  // of one that was given up
  };

  tier::DiskTier* const tier_;
  const CostModel& costs_;
  const uint64_t block_bytes_;
  std::unordered_map<uint64_t, Load> loads_;  // by ticket
  uint64_t num_cut_ = 0;
  uint64_t num_skipped_ = 0;
};

}  // namespace kvgate::schedule
