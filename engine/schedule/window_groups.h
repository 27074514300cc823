// WindowGroups: the KV groups whose layers see a window only, as far as they concern scheduling:
// where a prompt can go on from, what a sequence holds of each, and when it lets go.
//
// A place is a number of blocks: the end of a prefix. A prompt can go on behind it where the tail
// of blocks that the window covers is to be had in every group: in the pool, in the host arena or
// on disk. A sequence holds the tail before what it writes and lets go of what has slid out; that
// stays in the pool while there is room, longest near the places where prompts part. The chain
// identity, the digests and everything else about group 0 are the scheduler's.
// Invariants: held blocks are [first, end()), the windows of a sequence are as many as the groups.
// One thread: the engine's.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "engine/kv/block_pool.h"
#include "engine/kv/window_cache.h"
#include "engine/schedule/sequence.h"
#include "engine/tier/disk_tier.h"
#include "engine/tier/host_tier.h"
#include "kernels/backend.h"

namespace kvgate::schedule {

class WindowGroups {
 public:
  // All outlive it; host may be null.
  struct Group {
    int window = 0;
    kv::BlockPool& pool;
    kv::WindowCache& cache;
    kernels::KvArena& arena;
    tier::HostTier* host = nullptr;
  };
  // groups[i] is KV group i + 1. `disk` may be null.
  WindowGroups(std::vector<Group> groups, tier::DiskTier* disk, kernels::Backend& backend)
      : groups_(std::move(groups)), disk_(disk), backend_(backend) {}

  // The model has none: then nothing else is called.
  bool empty() const { return groups_.empty(); }

  // The last place that is not behind `place_max` and whose tails are to be had, in memory or,
  // where `with_disk`, on disk; 0 always is one. The disk's part is a guess: nothing is proved.
  int LastPlace(std::span<const kv::BlockKey> keys, int place_max, bool with_disk) const;
  // What must be read from disk for that.
  uint64_t DiskBytes(std::span<const kv::BlockKey> keys, int place) const;

  // Whether the sequence's tails find room beside what those that run may still need.
  template <typename Running>
  bool HasRoom(const Sequence& sequence, const Running& running) const {
    for (size_t i = 0; i < groups_.size(); ++i) {
      uint64_t wanted = static_cast<uint64_t>(MostHeld(groups_[i], sequence.num_tokens()));
      for (const auto& other : running) wanted += NumStillWanted(i, *other);
      if (wanted > groups_[i].pool.num_available()) return false;
    }
    return true;
  }
  // Whether they fit into a tenant's share of the pools.
  bool HasQuota(const Sequence& sequence, double share) const;

  // Holds the tails of `place`: shares what the pool has and copies back what the host arena has.
  // Blocks for the rest are appended to `loads`, each to be filled before the sequence runs. False:
  // there is no room; nothing is held. REQUIRES: the sequence holds nothing; LastPlace gave
  // `place`.
  bool Take(Sequence& sequence, int place, std::vector<tier::LoadItem>& loads);
  // Blocks for the tokens up to `end_tokens`, or up to a block's end before it when there are no
  // more. Returns up to where.
  int Reserve(Sequence& sequence, int end_tokens);
  // Blocks [first, end) are complete: offers those that are held to the caches.
  void Offer(Sequence& sequence, int first, int end);
  // Whether Slide would let go of a block behind the first `num_stored`.
  bool SlidesBehind(const Sequence& sequence, int num_stored) const;
  // Lets go of what the sequence's next tokens do not see.
  void Slide(Sequence& sequence);
  void Release(Sequence& sequence);
  // Of copies from host memory into blocks that the sequence holds: as HostTier::TicketOf.
  uint64_t TicketOf(const Sequence& sequence) const;
  // As HostTier::Await, of the blocks [first, end) as far as they are held.
  void AwaitWritten(const Sequence& sequence, size_t first, size_t end) const;

  // Appends write items for what is held of `block` and the disk has not, where `admit(bytes)`.
  template <typename Admit>
  void TakeUnstored(const Sequence& sequence, int block, const Admit& admit,
                    std::vector<tier::WriteItem>& items) const {
    for (size_t i = 0; i < groups_.size(); ++i) {
      const HeldWindow& held = sequence.windows[i];
      if (block < held.first || block >= held.end()) continue;
      const BlockId id = held.block_table[static_cast<size_t>(block)];
      const kv::BlockKey& key = sequence.keys[static_cast<size_t>(block)];
      const auto group = static_cast<uint32_t>(i) + 1;
      // A block that the cache did not take in has another's hash.
      if (!groups_[i].pool.is_marked(id) || disk_->Contains(key, group)) continue;
      if (!admit(groups_[i].arena.block_bytes())) continue;
      items.push_back({.key = key,
                       .parent = key.hash,
                       .depth = static_cast<uint32_t>(block) + 1,
                       .block = id,
                       .group = group});
    }
  }
  kv::BlockRef Hold(const tier::WriteItem& item) {
    return groups_[item.group - 1].pool.Share(item.block);
  }
  void TouchOnDisk(const Sequence& sequence, int place) const;
  // Whether the window before one of the sequence's places covers the block.
  bool IsNearPlace(size_t group, const Sequence& sequence, int block) const;
  bool IsNearPlace(const Sequence& sequence, int block) const;

 private:
  static int TailOf(const Group& group) { return kv::WindowTailBlocks(group.window); }
  // Blocks that a sequence of so many tokens holds between two steps, and the one it writes.
  static int MostHeld(const Group& group, int num_tokens);
  uint64_t NumStillWanted(size_t group, const Sequence& sequence) const;
  int FirstKept(size_t group, const Sequence& sequence) const;
  bool IsInMemory(const Group& group, const kv::BlockKey& key) const;
  void Append(size_t group, HeldWindow& held, kv::BlockRef block) const;
  std::optional<std::vector<kv::BlockRef>> AcquireFresh(const Group& group, uint32_t count,
                                                        uint32_t tenant) const;

  const std::vector<Group> groups_;
  tier::DiskTier* const disk_;
  kernels::Backend& backend_;
};

}  // namespace kvgate::schedule
