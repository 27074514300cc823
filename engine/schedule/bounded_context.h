// BoundedContext: keeps the KV of a sequence within a bound, by a context policy. A sequence whose
// KV grows beyond the bound replaces its blocks by copies that are not in the prefix cache and
// drops them one by one; it reuses the dropped blocks for new tokens. Which blocks are dropped
// depends on the sequence's tokens alone; see context_policy.h. With ContextPolicy::kNone there is
// no bound.
//
// It knows the blocks of the full KV group only: models with windows have no context policy. Engine
// thread only.
#pragma once

#include <vector>

#include "engine/kv/block_pool.h"
#include "engine/schedule/context_policy.h"
#include "engine/schedule/sequence.h"
#include "engine/schedule/single_flight.h"
#include "engine/tier/kv_group.h"

namespace kvgate::schedule {

class BoundedContext {
 public:
  // policy_tokens is the bound; group and single flight outlive it.
  BoundedContext(ContextPolicy policy, int policy_tokens, tier::FullGroup& group,
                 SingleFlight& single_flight);

  bool is_bounded() const { return num_kept_ > 0; }
  // Sets the token from which on attention counts in a new sequence.
  void Enter(Sequence& sequence) const;
  // Returns how many blocks the sequence needs for its tokens, at most those of the bound and its
  // growth.
  int BlocksNeeded(const Sequence& sequence) const;
  // Returns the number of full blocks that another sequence may have computed. The last token is
  // always computed, because its logits are needed.
  int NumReusableBlocks(const Sequence& sequence) const;
  // True if a part of the block behind the first num_blocks may be another sequence's too. A
  // bounded sequence must compute the tokens behind its reusable blocks, because their attention
  // counts.
  bool SharesBehind(int num_blocks) const { return !is_bounded() || num_blocks < num_kept_; }

  // Adds blocks to the sequence; changes nothing if it throws.
  void Append(Sequence& sequence, std::vector<kv::BlockRef> blocks) const;
  // Drops nothing until the table is full, and then all blocks beyond the bound.
  void Bound(Sequence& sequence);

 private:
  bool Detach(Sequence& sequence);
  void Drop(Sequence& sequence, int index);

  const ContextPolicy policy_;
  const int num_kept_;  // blocks that a sequence keeps; 0 means no bound
  tier::FullGroup& group_;
  SingleFlight& single_flight_;
};

}  // namespace kvgate::schedule
