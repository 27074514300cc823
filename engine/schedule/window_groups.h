// WindowGroups: scheduling of the KV groups whose layers see only a window: the resume points of a
// prompt, the blocks that a sequence holds in each group, and their release. A model without
// windows has none of these groups; then every position is a resume point, and nothing is held.
//
// A resume point is given as a number of blocks from the beginning. A prompt can resume
// there if the tail of blocks that the window covers is available in every group: in the pool, in
// the host arena or in a store. A sequence holds the tail before the tokens it writes and releases
// blocks that have slid out; these stay in the pool while there is room, longest near the resume
// points where prompts branch.
//
// Invariant: held blocks are [first, end()). Engine thread only.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/schedule/sequence.h"
#include "engine/tier/kv_group.h"
#include "engine/tier/store_tier.h"

namespace kvgate::schedule {

class WindowGroups {
 public:
  // The groups outlive it.
  explicit WindowGroups(std::span<tier::WindowGroup* const> groups) : groups_(groups) {}

  // Returns the last resume point not after `resume_point_max` whose tails are available in memory
  // or in `store`, which may be null; resume point 0 always is. The store's part is an estimate, as
  // no digest is checked.
  int LastResumePoint(std::span<const kv::BlockKey> keys, int resume_point_max,
                      const tier::StoreTier* store) const;
  // Returns the bytes that must be read from a store to resume there.
  uint64_t BytesToLoad(std::span<const kv::BlockKey> keys, int resume_point) const;

  // True if the sequence's tails fit beside the blocks that the running sequences may still need.
  bool HasRoom(const Sequence& sequence, const SequenceList& running) const;
  // True if they fit the tenant's share of the pools.
  bool HasQuota(const Sequence& sequence, double share) const;

  // Holds the tails of `resume_point`: shares blocks in the pool and copies back those in the host
  // arena. Blocks for the rest are appended to `loads` and must be filled before the sequence runs.
  // Returns false if there is no room; no window is held then. REQUIRES: the sequence holds no
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
  // Ticket of the copies from host memory into the sequence's blocks; see HostTier::TicketOf.
  uint64_t TicketOf(const Sequence& sequence) const;
  // True if the block is in the group's window before one of the sequence's resume_points.
  static bool IsNearResumePoint(const tier::WindowGroup& group, const Sequence& sequence,
                                int block);

 private:
  // Returns how many blocks a sequence of num_tokens tokens holds at most, the one it writes
  // included.
  static int MostHeld(const tier::WindowGroup& group, int num_tokens);
  static uint64_t NumStillWanted(const tier::WindowGroup& group, const Sequence& sequence);
  static int FirstKept(const tier::WindowGroup& group, const Sequence& sequence);

  const std::span<tier::WindowGroup* const> groups_;
};

}  // namespace kvgate::schedule
