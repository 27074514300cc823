// BlockPool: tracks which KV blocks are in use. It knows slots and references, not their content.
//
// A block is free (it holds nothing), used (it is referenced), or cached (unreferenced, but its
// content may be hit again). Acquire takes free blocks first, then evicts cached ones and tells the
// listener. Whoever holds a block holds its parents too and releases the last block first, so the
// leaf of a chain is always evicted before its parents.
//
// Eviction is GDSF (greedy dual size frequency, Cherkasova 1998). Blocks have one size and cost
// about the same to recompute, so the rank reduces to worth = clock + uses, set when a block enters
// the eviction queue: uses counts the requests that needed the block (up to uses_max), and the
// clock is the worth of the last evicted block. A prefix that k requests shared thus survives k
// turnovers of blocks used once, and a hot prefix that is no longer requested ages out. uses_max =
// 1 gives LRU. A block of higher priority is evicted only after all blocks of lower priority.
//
// Each block belongs to an owner (a tenant). An owner that holds more than its share evicts its own
// blocks first, so that a flood from one tenant leaves the others' prefixes alone. Only Acquire
// takes memory, and it does so before it changes anything; Release must work without memory. Engine
// thread only.
#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "base/ids.h"

namespace kvgate::kv {

class BlockPool;

// One reference to a block; the content stays unchanged while any reference is alive.
class BlockRef {
 public:
  BlockRef() = default;
  BlockRef(BlockRef&& other) noexcept
      : pool_(std::exchange(other.pool_, nullptr)), id_(other.id_) {}
  BlockRef& operator=(BlockRef&& other) noexcept {
    if (this != &other) {
      Reset();
      pool_ = std::exchange(other.pool_, nullptr);
      id_ = other.id_;
    }
    return *this;
  }
  ~BlockRef() { Reset(); }

  BlockId id() const { return id_; }
  explicit operator bool() const { return pool_ != nullptr; }
  void Reset();

 private:
  friend class BlockPool;
  BlockRef(BlockPool* pool, BlockId id) : pool_(pool), id_(id) {}
  BlockPool* pool_ = nullptr;
  BlockId id_;
};

// Drops the references of a chain last to first, so that leaves come before parents in the queue.
void ReleaseLastToFirst(std::vector<BlockRef>& blocks);

std::vector<BlockId> IdsOf(std::span<const BlockRef> blocks);

class BlockPool {
 public:
  // Called with a cached block that is about to be handed out for new content.
  class Listener {
   public:
    virtual ~Listener() = default;
    virtual void OnEvict(BlockId id) = 0;  // must not throw
  };

  struct Options {
    uint32_t num_blocks = 0;
    uint32_t uses_max = 8;          // most turnovers that a shared prefix survives
    uint32_t owner_blocks_max = 0;  // an owner's share of used and cached blocks; 0 means all
  };
  explicit BlockPool(const Options& options);
  ~BlockPool();  // checks that no reference is alive
  BlockPool(const BlockPool&) = delete;
  BlockPool& operator=(const BlockPool&) = delete;

  void SetListener(Listener* listener) { listener_ = listener; }

  // Returns `count` blocks with one reference each, or nullopt if fewer are free or cached. Owners
  // are small numbers starting from 0.
  std::optional<std::vector<BlockRef>> Acquire(uint32_t count, uint32_t owner = 0);
  // Adds a reference; takes a cached block out of the eviction queue.
  BlockRef Share(BlockId id);
  // Declares that the block's content may be hit: its last release makes it cached, not free.
  // REQUIRES: the block is used.
  void MarkCached(BlockId id);
  // Reverses MarkCached; a cached block becomes free.
  void UnmarkCached(BlockId id);
  // Counts one more request that needed the block's content. REQUIRES: the block is used.
  void CountUse(BlockId id);
  // Lasts until the block is acquired for new content. REQUIRES: a parent's priority is never lower
  // than its child's.
  void SetPriority(BlockId id, int priority);

  uint32_t num_blocks() const { return static_cast<uint32_t>(slots_.size()); }
  uint32_t num_free() const { return static_cast<uint32_t>(free_.size()); }
  uint32_t num_cached() const { return static_cast<uint32_t>(queue_.size()); }
  uint32_t num_used() const { return num_blocks() - num_free() - num_cached(); }
  // The number of blocks that Acquire can hand out.
  uint32_t num_available() const { return num_free() + num_cached(); }
  uint64_t num_evicted() const { return num_evicted_; }
  uint32_t num_references(BlockId id) const { return slots_[id.value].references; }
  bool is_marked(BlockId id) const { return slots_[id.value].marked; }
  // The number of requests that needed the block's content, up to uses_max.
  uint32_t num_uses(BlockId id) const { return slots_[id.value].uses; }
  int priority(BlockId id) const { return slots_[id.value].rank.priority; }
  // The owner's referenced blocks; num_held_by also counts its cached ones.
  uint32_t num_used_by(uint32_t owner) const { return Count(owner).used; }
  uint32_t num_held_by(uint32_t owner) const { return Count(owner).held; }

  // Returns the cached blocks, the next one to evict first (the owners' shares aside).
  std::vector<BlockId> EvictionOrder() const;
  // Aborts unless every slot is in exactly one state and all lists and counts agree.
  void CheckIntegrity() const;

 private:
  friend class BlockRef;
  struct Rank {
    int priority = 0;
    uint64_t worth = 0;
    uint64_t order = 0;  // position of entering the queue; unique
    auto operator<=>(const Rank&) const = default;
  };
  struct Slot {
    uint32_t references = 0;
    uint32_t owner = 0;
    uint32_t uses = 0;
    bool marked = false;  // content may be hit
    Rank rank;            // valid while in the queue; its priority always
  };
  struct OwnerCount {
    uint32_t used = 0;
    uint32_t held = 0;  // used or cached
  };

  void Release(BlockId id);
  void Append(uint32_t index);
  void Insert(uint32_t index);
  void Remove(uint32_t index);
  uint32_t ChooseVictim(uint32_t owner) const;
  void Reset(uint32_t index);  // clears the slot
  OwnerCount Count(uint32_t owner) const {
    return owner < owners_.size() ? owners_[owner] : OwnerCount{};
  }

  const Options options_;
  std::vector<Slot> slots_;
  std::vector<OwnerCount> owners_;
  std::vector<uint32_t> free_;  // a stack: the block freed last is warm in the CPU's cache
  using EvictionQueue = std::set<std::pair<Rank, uint32_t>>;
  EvictionQueue queue_;
  std::vector<EvictionQueue::node_type>
      spare_;  // preallocated nodes of the blocks that are not in the queue
  uint64_t clock_ = 0;
  uint64_t next_order_ = 0;
  uint64_t num_evicted_ = 0;
  Listener* listener_ = nullptr;
};

}  // namespace kvgate::kv
