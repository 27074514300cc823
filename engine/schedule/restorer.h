// Restorer: runs loads from the stores, decides if each is still worth waiting for, and lets its
// sequence go on.
//
// Before a load it plans how much of a stored prefix to restore; what the disk lacks behind that
// may follow from the shared store, in a load of its own; while a load runs it compares what
// has arrived with what could have been computed by then. A load that falls behind is given up: the
// blocks that arrived are kept, the rest is computed, and blocks that a reader may still write to
// are held until it is done. So a hit costs at most 5 % or 10 ms more than no hit, on any disk. The
// first load after a start, when the disk's speed is unknown, may cost half of what it would save
// beside that, but at most 50 ms. Each sequence records why a load of its prefix was skipped or
// given up.
//
// A load with windows is useful only as a whole. If it fails or is given up, nothing of it is used:
// the sequence goes back to the waiting line and is admitted again without the disk.
//
// Beginning a load takes memory before it changes anything; completing one or giving one up takes
// none. Engine thread only.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "engine/kv/block_pool.h"
#include "engine/schedule/cost_model.h"
#include "engine/schedule/preemption.h"
#include "engine/schedule/prefix_offers.h"
#include "engine/schedule/sequence.h"
#include "engine/schedule/window_groups.h"
#include "engine/tier/kv_group.h"
#include "engine/tier/store_tiers.h"

namespace kvgate::schedule {

class Restorer {
 public:
  // All members outlive the restorer.
  struct Parts {
    tier::StoreTiers stores = {};
    const CostModel& costs;
    tier::FullGroup& group;
    WindowGroups& windows;
    PrefixOffers& offers;
    Preemption& preemption;
  };
  explicit Restorer(const Parts& parts) : parts_(parts) {}
  ~Restorer();  // REQUIRES: no load is in flight

  // Returns how many consecutive blocks from `first_block` on the store has.
  static int CountStored(const tier::StoreTier& store, const Sequence& sequence, int first_block);
  // Restores those leading blocks, of the `num_stored` behind num_computed, that are worth it; if
  // there are any, the sequence becomes kRestoring. REQUIRES: the sequence holds the blocks.
  void Begin(Sequence& sequence, tier::StoreTier& store, int num_stored);

  // The same if windows must be loaded with the blocks of the full group: `items` are useful only
  // together. The last num_blocks of them are the full group's, behind num_computed.
  void BeginWhole(Sequence& sequence, tier::StoreTier& store, std::vector<tier::LoadItem> items,
                  int num_blocks);
  // A load that is useful only as a whole: it saves computing num_tokens tokens from first_position
  // on.
  struct WholeLoad {
    int first_position = 0;
    int num_tokens = 0;
    uint64_t bytes = 0;
  };
  // Returns true if such a load is worth it. Records the cost of computing the tokens; if it is not
  // worth it and the last measurement is old, measures the store anew.
  bool Pays(Sequence& sequence, tier::StoreTier& store, const WholeLoad& load);

  // Handles the completion of a load.
  void OnCompletion(const tier::Completion& completion);
  // Gives up the loads that have fallen behind computing. To be called every millisecond or so, or
  // after each step. At most 5 ms between two calls without a step count: in a longer gap the
  // process had no processor, so computing would have made no progress either.
  void GiveUpLate(Clock::time_point now, bool has_stepped);
  // Gives up the load of a sequence that ends.
  void Abort(Sequence& sequence);

  bool idle() const { return loads_.empty(); }
  uint64_t num_cut() const { return num_cut_; }
  uint64_t num_skipped() const { return num_skipped_; }

 private:
  struct Load {
    Sequence* sequence = nullptr;  // null if it was given up
    tier::StoreTier* store = nullptr;
    std::vector<kv::BlockRef> held = {};  // blocks of a load that was given up
    // For a load that is useful only as a whole: the total bytes up to the end of each item, and
    // how many of the items belong to the full group.
    std::vector<uint64_t> bytes_until = {};
    int num_blocks = 0;
    double latency_seconds = 0;  // allowed until the first record arrives
    double waited_seconds = 0;   // so far
    Clock::time_point looked_at = {};
    bool is_whole() const { return !bytes_until.empty(); }
  };
  void Enter(Sequence& sequence, Load load, std::vector<tier::LoadItem> items);
  static double LatencySeconds(const Sequence& sequence, const tier::StoreTier& store);
  void NoteNotWorthIt(Sequence& sequence, int first_position, int num_tokens,
                      const tier::StoreTier::LoadSpeed& speed) const;
  void NoteGivenUp(Sequence& sequence, GivenUpLoad::Reason reason, int num_restored) const;
  static void ProbeIfOld(tier::StoreTier& store, std::span<const kv::BlockKey> keys);
  void BeginNext(Sequence& sequence);
  bool IsLate(uint64_t ticket, const Load& load) const;
  struct Stopped {
    tier::StoreName store;
    std::optional<int> num_restored;  // blocks in place; none if it is useful only as a whole
  };
  Stopped Stop(Sequence& sequence);
  void GiveUp(Sequence& sequence);
  void Continue(Sequence& sequence, int num_restored, tier::StoreName store);
  void SendBack(Sequence& sequence);

  const Parts parts_;
  std::unordered_map<uint64_t, Load> loads_;  // by ticket
  uint64_t num_cut_ = 0;
  uint64_t num_skipped_ = 0;
};

}  // namespace kvgate::schedule
