// PrefixOffers: makes the blocks that a sequence has computed or restored available to others, in
// the prefix cache and the caches of windows, and takes all blocks back from a sequence.
//
// A block that two sequences computed is kept once. With numerics that are not invariant, KV that
// decode wrote is not offered; nor is any that was computed after a block was dropped. If memory
// runs out, blocks are offered later or not at all, which only makes later requests dearer.
// Releasing takes no memory. Engine thread only.
#pragma once

#include "engine/kv/block_hasher.h"
#include "engine/schedule/sequence.h"
#include "engine/schedule/single_flight.h"
#include "engine/schedule/window_groups.h"
#include "engine/tier/kv_group.h"

namespace kvgate::schedule {

class PrefixOffers {
 public:
  // All arguments outlive it. is_invariant is the one of kernels::BackendInfo.
  PrefixOffers(kv::BlockHasher& hasher, tier::KvGroups& groups, WindowGroups& windows,
               SingleFlight& single_flight, bool is_invariant);

  // Gives a new sequence its root, and a place for blocks in each KV group.
  void Enter(Sequence& sequence);
  // Computes the keys of the sequence's first num_blocks blocks.
  void ComputeKeys(Sequence& sequence, int num_blocks);

  // Offers the full group's blocks that have become full. Those that find no memory are offered
  // later with those behind them.
  void OfferFull(Sequence& sequence);
  // The same of all groups after a step; num_before is what was computed before it.
  void OfferComputed(Sequence& sequence, int num_before);
  // Offers the unfinished last block, if the cache has those before it.
  void OfferPartial(Sequence& sequence);
  // Takes all blocks from the sequence, once it has offered what it can. It may run again from its
  // beginning.
  void Release(Sequence& sequence);

 private:
  int NumOfferable(const Sequence& sequence) const;
  void OfferBlock(Sequence& sequence, int block);

  kv::BlockHasher& hasher_;
  tier::KvGroups& groups_;
  WindowGroups& windows_;
  SingleFlight& single_flight_;
  const bool is_invariant_;
};

}  // namespace kvgate::schedule
