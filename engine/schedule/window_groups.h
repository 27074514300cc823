// WindowGroups: scheduling of the KV groups whose layers see only a window: the resume points of a
// prompt, the blocks that a sequence holds in each group, and their release.
//
// A resume point is given as a number of blocks from the beginning. A prompt can resume
// there if the tail of blocks that the window covers is available in every group: in the pool, in
// the host arena or on disk. A sequence holds the tail before the tokens it writes and releases
// blocks that have slid out; these stay in the pool while there is room, longest near the resume
// points where prompts branch. The scheduler handles everything of group 0, including the chained
// keys and digests.
//
// Invariants: held blocks are [first, end()); a sequence has one window per group. Engine thread
// only.
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
  // All members outlive it; host may be null.
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

  // True if the model has no windows.
  bool empty() const { return groups_.empty(); }

  // Returns the last resume point not after `resume_point_max` whose tails are available in memory
  // or, if `with_disk`, on disk; resume point 0 always is. The disk part is an estimate, as no
  // digest is checked.
  int LastResumePoint(std::span<const kv::BlockKey> keys, int resume_point_max,
                      bool with_disk) const;
  // Returns the bytes that must be read from disk to resume there.
  uint64_t DiskBytes(std::span<const kv::BlockKey> keys, int resume_point) const;

  // True if the sequence's tails fit beside the blocks that the running sequences may still need.
  template <typename Running>
  bool HasRoom(const Sequence& sequence, const Running& running) const {
    for (size_t i = 0; i < groups_.size(); ++i) {
      uint64_t wanted = static_cast<uint64_t>(MostHeld(groups_[i], sequence.num_tokens()));
      for (const auto& other : running) wanted += NumStillWanted(i, *other);
      if (wanted > groups_[i].pool.num_available()) return false;
    }
    return true;
  }
  // True if they fit the tenant's share of the pools.
  bool HasQuota(const Sequence& sequence, double share) const;

  // Holds the tails of `resume_point`: shares blocks in the pool and copies back those in the host
  // arena. Blocks for the rest are appended to `loads` and must be filled before the sequence runs.
  // Returns false if there is no room; nothing is held then. REQUIRES: the sequence holds no
  // windows; `resume_point` is the result of LastResumePoint.
  bool Take(Sequence& sequence, int resume_point, std::vector<tier::LoadItem>& loads);
  // Acquires blocks for the tokens up to `end_tokens`, or fewer whole blocks if there are no more.
  // Returns the token count that is covered.
  int Reserve(Sequence& sequence, int end_tokens);
  // Offers those of the complete blocks [first, end) that are held to the caches.
  void Offer(Sequence& sequence, int first, int end);
  // True if Slide would release a block after the first `num_stored`.
  bool SlidesBehind(const Sequence& sequence, int num_stored) const;
  // Releases the blocks that the sequence's next tokens do not see.
  void Slide(Sequence& sequence);
  void Release(Sequence& sequence);
  // Ticket of the copies from host memory into the sequence's blocks; see HostTier::TicketOf.
  uint64_t TicketOf(const Sequence& sequence) const;
  // Calls HostTier::Await for those of the blocks [first, end) that are held.
  void AwaitWritten(const Sequence& sequence, size_t first, size_t end) const;

  // Appends write items for the held parts of `block` that are not on disk and that admit(bytes)
  // allows.
  template <typename Admit>
  void TakeUnstored(const Sequence& sequence, int block, const Admit& admit,
                    std::vector<tier::WriteItem>& items) const {
    for (size_t i = 0; i < groups_.size(); ++i) {
      const HeldWindow& held = sequence.windows[i];
      if (block < held.first || block >= held.end()) continue;
      const BlockId id = held.block_table[static_cast<size_t>(block)];
      const kv::BlockKey& key = sequence.keys[static_cast<size_t>(block)];
      const auto group = static_cast<uint32_t>(i) + 1;
      // A block that is not in the cache has a hash that belongs to another prefix.
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
  void TouchOnDisk(const Sequence& sequence, int resume_point) const;
  // True if the block is in the window before one of the sequence's resume_points.
  bool IsNearResumePoint(size_t group, const Sequence& sequence, int block) const;
  bool IsNearResumePoint(const Sequence& sequence, int block) const;

 private:
  static int TailOf(const Group& group) { return kv::WindowTailBlocks(group.window); }
  // Returns how many blocks a sequence of num_tokens tokens holds at most, the one it writes
  // included.
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
