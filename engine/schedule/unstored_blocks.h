// UnstoredBlocks: which of a sequence's cached blocks a store lacks and the write budget admits,
// and the references that a write of them must hold. Engine thread only.
#pragma once

#include <span>
#include <vector>

#include "engine/schedule/sequence.h"
#include "engine/schedule/window_groups.h"
#include "engine/tier/kv_group.h"
#include "engine/tier/store_tier.h"
#include "engine/tier/write_admission.h"

namespace kvgate::schedule {

class UnstoredBlocks {
 public:
  // All arguments outlive it. Without a store no block is to be written; without an admission there
  // is no limit.
  UnstoredBlocks(tier::KvGroups& groups, const tier::StoreTier* store,
                 tier::WriteAdmission* admission)
      : groups_(groups), store_(store), admission_(admission) {}

  // The sequence's count of the leading blocks that the store has or is being given. REQUIRES: a
  // store.
  int& NumStored(Sequence& sequence) const;

  // Returns the sequence's leading cached full blocks that the store lacks, as far as the write
  // budget admits them; from then on they count as stored.
  std::vector<tier::WriteItem> Take(Sequence& sequence) const;
  // Returns references to the items' blocks and, as a block's holder must hold its parents too, to
  // the chain before the last one. To be released last to first.
  std::vector<kv::BlockRef> Hold(const Sequence& sequence,
                                 std::span<const tier::WriteItem> items) const;

 private:
  bool TakeFrom(tier::KvGroup& group, const Sequence& sequence, int block,
                tier::WritePriority priority, std::vector<tier::WriteItem>& items) const;
  tier::WritePriority PriorityOf(const Sequence& sequence, int block) const;

  tier::KvGroups& groups_;
  const tier::StoreTier* const store_;
  tier::WriteAdmission* const admission_;
};

}  // namespace kvgate::schedule
