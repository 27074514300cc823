// WriteBacks: the KV blocks that are being written to a store, and the references that keep them
// in memory until then. It limits how many may be in flight; UnstoredBlocks chooses which blocks
// are worth it. Engine thread only.
//
// If memory runs out, nothing is written: the KV stays where it is and may be written later.
#pragma once

#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "engine/kv/block_pool.h"
#include "engine/schedule/sequence.h"
#include "engine/schedule/unstored_blocks.h"
#include "engine/tier/kv_group.h"
#include "engine/tier/store_tier.h"
#include "engine/tier/write_admission.h"

namespace kvgate::engine {

class WriteBacks {
 public:
  // All arguments outlive it. Without a store nothing is written; without an admission there is no
  // limit.
  WriteBacks(tier::KvGroups& groups, tier::StoreTier* store, tier::WriteAdmission* admission);

  // Queues the sequence's blocks that are full, not stored yet and admitted. Never throws.
  void Write(schedule::Sequence& sequence);
  // Releases the blocks of a write that succeeded or failed.
  void OnCompletion(const tier::Completion& completion);

  bool empty() const { return writes_.empty(); }
  uint64_t num_blocks_skipped() const { return num_blocks_skipped_; }

 private:
  // A write in flight references the chain up to its last block, parents included; see
  // block_pool.h.
  struct Entry {
    std::vector<kv::BlockRef> held;
    std::vector<size_t> num_items;  // per group
  };
  void Begin(schedule::Sequence& sequence);
  // Counts blocks that are not written, by group, and returns their share of the write budget.
  void Skip(const std::vector<size_t>& num_items);
  bool Fits(std::span<const tier::WriteItem> items) const;

  tier::KvGroups& groups_;
  tier::StoreTier* const store_;
  tier::WriteAdmission* const admission_;
  const schedule::UnstoredBlocks unstored_;
  std::unordered_map<uint64_t, Entry> writes_;  // by ticket
  uint64_t next_ticket_ = 1;
  std::vector<size_t> num_blocks_writing_;  // per group
  uint64_t num_blocks_skipped_ = 0;
};

}  // namespace kvgate::engine
