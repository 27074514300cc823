// KvGroup: the layers of a model that see the same part of the context, with the memory of their
// KV: an arena, a pool, a cache and, if asked for, a host tier. FullGroup's layers see all tokens;
// those of a WindowGroup see only the last ones. KvGroups holds all groups of a model.
//
// What both kinds do stands in KvGroup. Callers that treat all groups alike loop over
// KvGroups::all(); what only one kind does is reached by full() or windows(), and a model without
// windows just has none of the latter. Engine thread only.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "engine/kv/block_pool.h"
#include "engine/kv/prefix_cache.h"
#include "engine/kv/window_cache.h"
#include "engine/tier/host_tier.h"
#include "kernels/backend.h"

namespace kvgate::tier {

class KvGroup {
 public:
  struct Options {
    int window = 0;  // number of tokens that its layers see; 0 means all
    kernels::KvShape shape;
    uint32_t num_blocks = 0;
    std::optional<uint64_t> host_bytes;  // of the host tier; without a value there is none
    uint32_t owner_blocks_max = 0;       // see BlockPool::Options
  };
  struct Parts {
    uint32_t index = 0;
    std::unique_ptr<kernels::KvArena> arena;
    std::unique_ptr<HostTier> host;  // null if there is none
  };
  KvGroup(const Options& options, Parts parts, kernels::Backend& backend);
  virtual ~KvGroup() = default;
  KvGroup(const KvGroup&) = delete;
  KvGroup& operator=(const KvGroup&) = delete;

  uint32_t index() const { return index_; }  // in the order of the model's kv_groups
  int window() const { return window_; }     // in tokens; 0 if its layers see all
  kernels::KvArena& arena() const { return *arena_; }
  size_t block_bytes() const { return arena_->block_bytes(); }
  kv::BlockPool& pool() { return pool_; }
  HostTier* host() const { return host_.get(); }  // null if there is none
  virtual kv::BlockCache& cache() = 0;

  // Returns the first of the blocks before block `end` that a token at the beginning of `end` sees.
  int FirstSeen(int end) const {
    return window_ == 0 ? 0 : std::max(0, end - kv::WindowTailBlocks(window_));
  }
  // BlockPool::Acquire; also starts the copies of the blocks that it evicted.
  std::optional<std::vector<kv::BlockRef>> Acquire(int count, uint32_t tenant);
  // Copies the KV of the first num_tokens tokens of a block.
  void Copy(BlockId from, BlockId to, int num_tokens);
  // Makes a read of KV that was not written show as NaN, in debug builds.
  void Poison(BlockId block);
  // As in HostTier; without one no copy is in flight.
  void Await(std::span<const BlockId> blocks);
  uint64_t TicketOf(std::span<const BlockId> blocks);

 private:
  const uint32_t index_;
  const int window_;
  kernels::Backend& backend_;
  const std::unique_ptr<kernels::KvArena> arena_;
  const std::unique_ptr<HostTier> host_;
  kv::BlockPool pool_;
};

class FullGroup final : public KvGroup {
 public:
  using KvGroup::KvGroup;
  kv::PrefixCache& cache() override { return cache_; }
  // Returns how many leading keys are in the pool or the host tier; as good an estimate as
  // PrefixCache::CountLeading.
  size_t CountInMemory(std::span<const kv::BlockKey> keys) const;

 private:
  kv::PrefixCache cache_{pool()};
};

class WindowGroup final : public KvGroup {
 public:
  using KvGroup::KvGroup;
  kv::WindowCache& cache() override { return cache_; }
  // True if the block is in the pool or the host tier.
  bool IsInMemory(const kv::BlockKey& key) const;

 private:
  kv::WindowCache cache_{pool()};
};

class KvGroups {
 public:
  // Opens the groups of a model, the full one first. A host tier gets what its group's cache gives
  // up. Fails as Backend::AllocateKv and HostTier::Open do. The backend outlives the groups.
  static Result<KvGroups> Open(std::span<const KvGroup::Options> options,
                               kernels::Backend& backend);

  std::span<const std::unique_ptr<KvGroup>> all() const { return all_; }
  KvGroup& operator[](size_t index) const { return *all_[index]; }
  size_t size() const { return all_.size(); }
  // The group of which every model has one: its blocks are chained and decide what a prefix is.
  FullGroup& full() const { return *full_; }
  std::span<WindowGroup* const> windows() const { return windows_; }
  // True if a sequence can begin with a part of a block. Blocks of windows are found only when
  // full.
  bool shares_partial_blocks() const { return windows_.empty(); }

 private:
  std::vector<std::unique_ptr<KvGroup>> all_;
  FullGroup* full_ = nullptr;
  std::vector<WindowGroup*> windows_;
};

}  // namespace kvgate::tier
