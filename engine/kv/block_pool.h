// BlockPool: who uses which KV block. It knows slots and references, not what is in them.
//
// A block is free (holds nothing), used (referenced), or cached (unreferenced, but what it holds
// may be hit again). Acquire takes free blocks first and then evicts cached ones, telling the
// listener. Whoever holds a block holds its parents too and releases last to first, so of a chain
// the leaf always goes before its parents.
//
// Eviction is GDSF (greedy dual size frequency, Cherkasova 1998). Blocks are of one size and cost
// about the same to recompute, so its rank comes down to worth = clock + uses, given when a block
// enters the line: uses counts the requests that needed the block (up to uses_max), and the clock
// is the worth of the block evicted last. A prefix that k requests shared thus outlives k turnovers
// of blocks used once, and a hot prefix that nobody wants any more ages out. With uses_max = 1 this
// is LRU. A block of higher priority goes only after all of lower ones.
//
// Blocks belong to an owner (a tenant). One that holds more than its share evicts its own blocks
// first, so that a flood from one tenant leaves the others' prefixes alone.
// Only Acquire takes memory, and before it changes anything: a release must work when there is
// none. One thread: the engine's.
#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include <kvgate/ids.h>

namespace kvgate::kv {

class BlockPool;

// One reference to a block; the block stays as it is while any is alive.
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

// Drops the references of a chain in the order that keeps leaves ahead of parents in the line.
void ReleaseLastToFirst(std::vector<BlockRef>& blocks);

std::vector<BlockId> IdsOf(std::span<const BlockRef> blocks);

class BlockPool {
 public:
  // Told of a cached block that is about to be handed out for new content.
  class Listener {
   public:
    virtual ~Listener() = default;
    virtual void OnEvict(BlockId id) = 0;  // must not throw
  };

  struct Options {
    uint32_t num_blocks = 0;
    uint32_t uses_max = 8;          // turnovers that a shared prefix survives at most
    uint32_t owner_blocks_max = 0;  // an owner's share of used and cached blocks; 0: all
  };
  explicit BlockPool(const Options& options);
  ~BlockPool();  // checks that no reference is alive
  BlockPool(const BlockPool&) = delete;
  BlockPool& operator=(const BlockPool&) = delete;

  void SetListener(Listener* listener) { listener_ = listener; }

  // `count` blocks with one reference each, or none at all when fewer are free or cached. Owners
  // are small numbers, 0 among them.
  std::optional<std::vector<BlockRef>> Acquire(uint32_t count, uint32_t owner = 0);
  // One more reference; takes a cached block out of the waiting line.
  BlockRef Share(BlockId id);
  // Says that a block's content may be hit: at its last release it becomes cached, not free.
  // REQUIRES: the block is used.
  void MarkCached(BlockId id);
  // The reverse; a cached block becomes free.
  void UnmarkCached(BlockId id);
  // One more request needed what the block holds. REQUIRES: the block is used.
  void CountUse(BlockId id);
  // Lasts until the block is acquired for new content. REQUIRES: a parent's is not lower.
  void SetPriority(BlockId id, int priority);

  uint32_t num_blocks() const { return static_cast<uint32_t>(slots_.size()); }
  uint32_t num_free() const { return static_cast<uint32_t>(free_.size()); }
  uint32_t num_cached() const { return static_cast<uint32_t>(line_.size()); }
  uint32_t num_used() const { return num_blocks() - num_free() - num_cached(); }
  // What Acquire can hand out.
  uint32_t num_available() const { return num_free() + num_cached(); }
  uint64_t num_evicted() const { return num_evicted_; }
  uint32_t num_references(BlockId id) const { return slots_[id.value].references; }
  bool is_marked(BlockId id) const { return slots_[id.value].marked; }
  // Requests that needed what the block holds, up to uses_max.
  uint32_t num_uses(BlockId id) const { return slots_[id.value].uses; }
  int priority(BlockId id) const { return slots_[id.value].rank.priority; }
  // Of one owner: referenced blocks, and those with what is cached.
  uint32_t num_used_by(uint32_t owner) const { return Count(owner).used; }
  uint32_t num_held_by(uint32_t owner) const { return Count(owner).held; }

  // The cached blocks, next to be evicted first (shares of owners aside).
  std::vector<BlockId> EvictionOrder() const;
  // Aborts unless every slot is in exactly one state and all lists and counts agree.
  void CheckIntegrity() const;

 private:
  friend class BlockRef;
  struct Rank {
    int priority = 0;
    uint64_t worth = 0;
    uint64_t order = 0;  // of entering the line: unique
    auto operator<=>(const Rank&) const = default;
  };
  struct Slot {
    uint32_t references = 0;
    uint32_t owner = 0;
    uint32_t uses = 0;
    bool marked = false;  // content may be hit
    Rank rank;            // while in the line; priority always
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
  void Reset(uint32_t index);  // forgets the content
  OwnerCount Count(uint32_t owner) const {
    return owner < owners_.size() ? owners_[owner] : OwnerCount{};
  }

  const Options options_;
  std::vector<Slot> slots_;
  std::vector<OwnerCount> owners_;
  std::vector<uint32_t> free_;  // a stack: the block freed last is warm in the CPU's cache
  using Line = std::set<std::pair<Rank, uint32_t>>;
  Line line_;
  std::vector<Line::node_type> spare_;  // the nodes of all that are not in the line
  uint64_t clock_ = 0;
  uint64_t next_order_ = 0;
  uint64_t num_evicted_ = 0;
  Listener* listener_ = nullptr;
};

}  // namespace kvgate::kv
