#include "engine/tier/host_tier.h"

#include <sys/mman.h>

#include <algorithm>
#include <optional>
#include <utility>

#include <fmt/format.h>
#include <kvgate/check.h>

namespace kvgate::tier {
namespace {

// More than any machine needs; keeps the bookkeeping small where blocks are tiny.
constexpr uint64_t kNumBlocksMax = uint64_t{1} << 20;

}  // namespace

void HostTier::Unmap::operator()(std::byte* memory) const { munmap(memory, bytes); }

Result<std::unique_ptr<HostTier>> HostTier::Open(uint64_t bytes, kernels::Backend& backend,
                                                 kernels::KvArena& arena) {
  const uint64_t num_blocks = std::min(bytes / arena.block_bytes(), kNumBlocksMax);
  if (num_blocks == 0) {
    return MakeError(ErrorCode::kInvalidArgument, "tier.host",
                     fmt::format("{} bytes of host memory hold no KV block of {} bytes; give more",
                                 bytes, arena.block_bytes()),
                     "host_memory");
  }
  const size_t mapped = num_blocks * arena.block_bytes();
  // Pages come when they are first written: an arena that is never filled costs nothing.
  void* memory = mmap(nullptr, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) {
    return MakeError(ErrorCode::kOverloaded, "tier.host",
                     fmt::format("the system does not give {} bytes for the host arena", mapped),
                     "host_memory");
  }
  return std::unique_ptr<HostTier>(
      new HostTier(Memory(static_cast<std::byte*>(memory), Unmap{mapped}),
                   static_cast<uint32_t>(num_blocks), backend, arena));
}

HostTier::HostTier(Memory memory, uint32_t num_blocks, kernels::Backend& backend,
                   kernels::KvArena& arena)
    : backend_(backend),
      arena_(arena),
      memory_(std::move(memory)),
      pool_({.num_blocks = num_blocks}),
      keys_(num_blocks) {
  pool_.SetListener(this);
}

HostTier::~HostTier() { pool_.SetListener(nullptr); }

std::span<std::byte> HostTier::slot_bytes(BlockId slot) const {
  return {memory_.get() + size_t{slot.value} * arena_.block_bytes(), arena_.block_bytes()};
}

void HostTier::Put(const kv::BlockKey& key, BlockId block, int priority) {
  if (const auto found = slots_.find(key.hash); found != slots_.end()) {
    // The copy is there (or another prefix's under the same hash: the first one stays). It is the
    // newest again.
    (void)pool_.Share(found->second);
    return;
  }
  const std::optional<std::vector<kv::BlockRef>> slot = pool_.Acquire(1);
  if (!slot.has_value()) return;
  const BlockId id = slot->front().id();
  backend_.ReadKvBlock(arena_, block, slot_bytes(id));
  keys_[id.value] = key;
  slots_.emplace(key.hash, id);
  pool_.MarkCached(id);
  pool_.SetPriority(id, priority);
}

bool HostTier::Contains(const kv::BlockKey& key) const {
  const auto found = slots_.find(key.hash);
  return found != slots_.end() && keys_[found->second.value].digest == key.digest;
}

std::vector<kv::BlockRef> HostTier::Match(std::span<const kv::BlockKey> keys) {
  std::vector<kv::BlockRef> copies;
  for (const kv::BlockKey& key : keys) {
    if (!Contains(key)) break;
    copies.push_back(pool_.Share(slots_.find(key.hash)->second));
  }
  return copies;
}

void HostTier::Restore(std::vector<kv::BlockRef> copies, std::span<const BlockId> blocks) {
  KVGATE_CHECK(copies.size() == blocks.size(), "copies and blocks");
  for (size_t i = 0; i < copies.size(); ++i) {
    pool_.CountUse(copies[i].id());
    backend_.WriteKvBlock(arena_, blocks[i], slot_bytes(copies[i].id()));
  }
  kv::ReleaseLastToFirst(copies);
}

void HostTier::SetPriorities(const std::unordered_map<BlockHash, int>& priorities) {
  for (const auto& [hash, slot] : slots_) {
    const auto found = priorities.find(hash);
    pool_.SetPriority(slot, found != priorities.end() ? found->second : 0);
  }
}

void HostTier::OnEvict(BlockId slot) { slots_.erase(keys_[slot.value].hash); }

void HostTier::CheckIntegrity() const {
  pool_.CheckIntegrity();
  KVGATE_CHECK(pool_.num_used() == 0, "the host arena holds a reference");
  KVGATE_CHECK(slots_.size() == pool_.num_cached(), "number of host blocks");
  for (const auto& [hash, slot] : slots_) {
    KVGATE_CHECK(pool_.is_marked(slot) && keys_[slot.value].hash == hash, "index of host blocks");
  }
}

}  // namespace kvgate::tier
