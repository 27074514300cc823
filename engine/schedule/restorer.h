// Restorer: the loads from disk under way, and whether each still pays.
//
// Before a load it plans how much of a stored prefix to restore; while one runs it compares what
// has arrived with what would have been computed by now. A load that falls behind is given up: what
// arrived is kept, the rest is computed, and the blocks that a reader may still write to are held
// until it is done. So a hit costs at most a twentieth more than no hit, or 10 ms, on any disk; the
// first load since the start, of which the disk is not known yet, half of what it would save or
// 50 ms beside that. Each sequence is told why a load of its prefix was not made or given up.
// Beginning a load takes memory, before it changes anything; completing one or giving one up takes
// none. One thread: the engine's.
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

  // The same where windows must come with the blocks of group 0: `items` are good only together.
  // The last num_blocks of them are group 0's behind num_computed.
  void BeginWhole(Sequence& sequence, std::vector<tier::LoadItem> items, int num_blocks);
  // Whether such a load is worth it: then num_tokens more need not be computed from first_position
  // on. Notes what computing them would take; measures the disk anew where it is not worth it.
  bool Pays(Sequence& sequence, int first_position, int num_tokens, uint64_t bytes);

  struct Restored {
    Sequence* sequence = nullptr;  // that waited for it; null: it was given up before
    int num_blocks = 0;            // that it has more now
    bool has_failed = false;       // a load that is good only as a whole, and is not
  };
  // A load's completion.
  Restored OnCompletion(const tier::Completion& completion);
  // Those whose load has fallen behind computing. To be called every millisecond or so, or after
  // each step. Time in which the caller neither looked nor stepped is nobody's: the process had no
  // processor then, and computing would not have got on either.
  std::vector<Sequence*> LateSequences(Clock::time_point now, bool has_stepped);
  // Gives the sequence's load up. How many blocks are in place; of those after them, the ones still
  // being written to are taken out of sequence.blocks (and held here).
  int GiveUp(Sequence& sequence, bool is_late);
  // The same of a load that is good only as a whole: nothing of it is. Takes all the sequence's
  // blocks.
  void GiveUpWhole(Sequence& sequence, bool is_late);

  bool idle() const { return loads_.empty(); }
  uint64_t num_cut() const { return num_cut_; }
  uint64_t num_skipped() const { return num_skipped_; }

 private:
  struct Load {
    Sequence* sequence = nullptr;         // null: given up
    std::vector<kv::BlockRef> held = {};  // of one that was given up
    // Where it is good only as a whole: the bytes up to the end of each item, and how many of the
    // items are group 0's.
    std::vector<uint64_t> bytes_until = {};
    int num_blocks = 0;
    double latency_seconds = 0;  // that its first record may take
    double waited_seconds = 0;   // so far
    Clock::time_point looked_at = {};
    bool is_whole() const { return !bytes_until.empty(); }
  };
  void Enter(Sequence& sequence, Load load, std::vector<tier::LoadItem> items);
  double LatencySeconds(const Sequence& sequence) const;
  void NoteNotWorthIt(Sequence& sequence, int first_position, int num_tokens,
                      const tier::DiskTier::LoadSpeed& speed) const;
  void NoteGivenUp(Sequence& sequence, GivenUpLoad::Reason reason, int num_restored) const;
  void ProbeIfOld(const tier::DiskTier::LoadSpeed& speed, std::span<const kv::BlockKey> keys) const;
  bool IsLate(uint64_t ticket, const Load& load) const;

  tier::DiskTier* const tier_;
  const CostModel& costs_;
  const uint64_t block_bytes_;
  std::unordered_map<uint64_t, Load> loads_;  // by ticket
  uint64_t num_cut_ = 0;
  uint64_t num_skipped_ = 0;
};

}  // namespace kvgate::schedule
