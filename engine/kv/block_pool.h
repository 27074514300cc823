// BlockPool: who uses which KV block. It knows slots and references, not what is in them.
//
// A block is free (holds nothing), used (referenced), or cached (unreferenced, but what it holds
// may be hit again). Cached blocks wait in the order they were released; Acquire takes free blocks
// first and then the oldest cached one, telling the listener. Whoever holds a block holds its
// parents too and releases last to first, so of a chain the leaf always goes before its parents.
// One thread: the engine's.
#pragma once

#include <cstdint>
#include <optional>
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

class BlockPool {
 public:
  // Told of a cached block that is about to be handed out for new content.
  class Listener {
   public:
    virtual ~Listener() = default;
    virtual void OnEvict(BlockId id) = 0;
  };

  explicit BlockPool(uint32_t num_blocks);
  ~BlockPool();  // checks that no reference is alive
  BlockPool(const BlockPool&) = delete;
  BlockPool& operator=(const BlockPool&) = delete;

  void SetListener(Listener* listener) { listener_ = listener; }

  // `count` blocks with one reference each, or none at all when fewer are free or cached.
  std::optional<std::vector<BlockRef>> Acquire(uint32_t count);
  // One more reference; takes a cached block out of the waiting line.
  BlockRef Share(BlockId id);
  // Says that a block's content may be hit: at its last release it becomes cached, not free.
  // REQUIRES: the block is used.
  void MarkCached(BlockId id);
  // The reverse; a cached block becomes free.
  void UnmarkCached(BlockId id);

  uint32_t num_blocks() const { return static_cast<uint32_t>(slots_.size()); }
  uint32_t num_free() const { return static_cast<uint32_t>(free_.size()); }
  uint32_t num_cached() const { return num_cached_; }
  uint32_t num_used() const { return num_blocks() - num_free() - num_cached_; }
  // What Acquire can hand out.
  uint32_t num_available() const { return num_free() + num_cached_; }
  uint64_t num_evicted() const { return num_evicted_; }
  uint32_t num_references(BlockId id) const { return slots_[id.value].references; }
  bool is_marked(BlockId id) const { return slots_[id.value].marked; }

  // The cached blocks, next to be evicted first.
  std::vector<BlockId> EvictionOrder() const;
  // Aborts unless every slot is in exactly one state and all lists and counts agree.
  void CheckIntegrity() const;

 private:
  friend class BlockRef;
  static constexpr uint32_t kNone = UINT32_MAX;
  struct Slot {
    uint32_t references = 0;
    bool marked = false;     // content may be hit
    uint32_t older = kNone;  // neighbours in the line of cached blocks
    uint32_t newer = kNone;
  };

  void Release(BlockId id);
  void Append(uint32_t index);  // as the newest
  void Remove(uint32_t index);

  std::vector<Slot> slots_;
  std::vector<uint32_t> free_;  // a stack: the block freed last is warm in the CPU's cache
  uint32_t oldest_ = kNone;
  uint32_t newest_ = kNone;
  uint32_t num_cached_ = 0;
  uint64_t num_evicted_ = 0;
  Listener* listener_ = nullptr;
};

}  // namespace kvgate::kv
