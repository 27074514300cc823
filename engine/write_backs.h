// WriteBacks: the KV blocks on their way to the store, and what holds them there. It decides how
// many may be; which are worth it is the scheduler's and the admission's. One thread: the engine's.
//
// Without memory nothing is written: the KV stays where it is, and may be written another time.
#pragma once

#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "engine/kv/block_pool.h"
#include "engine/schedule/scheduler.h"
#include "engine/tier/disk_tier.h"
#include "engine/tier/write_admission.h"

namespace kvgate::engine {

class WriteBacks {
 public:
  struct Parts {
    schedule::Scheduler& scheduler;
    tier::DiskTier* disk = nullptr;             // null: nothing is written
    tier::WriteAdmission* admission = nullptr;  // null: unlimited
    std::vector<uint32_t> num_blocks;           // of each group's pool
  };
  explicit WriteBacks(Parts parts);

  // Queues what of the sequence is full, not stored and admitted. Never throws.
  void Write(schedule::Sequence& sequence);
  // The store has taken it, or not: its blocks are let go.
  void OnCompletion(const tier::Completion& completion);

  bool empty() const { return writes_.empty(); }
  uint64_t num_blocks_skipped() const { return num_blocks_skipped_; }

 private:
  // A write under way holds the chain up to its last block: parents too, see block_pool.h.
  struct Entry {
    std::vector<kv::BlockRef> held;
    std::vector<kv::BlockRef> held_windows;
    std::vector<size_t> num_items;  // of each group
  };
  void Begin(schedule::Sequence& sequence);
  bool Fits(std::span<const tier::WriteItem> items) const;

  Parts parts_;
  std::unordered_map<uint64_t, Entry> writes_;  // by ticket
  uint64_t next_ticket_ = 1;
  std::vector<size_t> num_blocks_writing_;  // of each group
  uint64_t num_blocks_skipped_ = 0;
};

}  // namespace kvgate::engine
