#include "engine/tier/host_tier.h"

#include <algorithm>
#include <chrono>
#include <new>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "base/check.h"
#include "base/log.h"

namespace kvgate::tier {
namespace {

// More than any machine needs; it keeps the bookkeeping small if blocks are tiny.
constexpr uint64_t kNumBlocksMax = uint64_t{1} << 20;
// Blocks per copy batch: some milliseconds of copying, so that the next batch of the other
// direction, or a step that needs the first blocks, does not wait for all copies.
constexpr size_t kBatchBlocks = 16;

}  // namespace

Result<std::unique_ptr<HostTier>> HostTier::Open(uint64_t bytes, kernels::Backend& backend,
                                                 kernels::KvArena& arena, size_t piece_bytes) {
  const uint64_t num_blocks = std::min(bytes / arena.block_bytes(), kNumBlocksMax);
  if (num_blocks == 0) {
    return MakeError(ErrorCode::kInvalidArgument, "tier.host",
                     fmt::format("{} bytes of host memory hold no KV block of {} bytes; give more",
                                 bytes, arena.block_bytes()),
                     "host_memory");
  }
  KVGATE_TRY(std::unique_ptr<HostArena> memory,
             HostArena::Open(static_cast<uint32_t>(num_blocks), arena.block_bytes(), backend,
                             piece_bytes));
  return std::unique_ptr<HostTier>(new HostTier(std::move(memory), backend, arena));
}

HostTier::HostTier(std::unique_ptr<HostArena> memory, kernels::Backend& backend,
                   kernels::KvArena& arena)
    : backend_(backend),
      arena_(arena),
      memory_(std::move(memory)),
      pool_({.num_blocks = memory_->num_slots()}),
      keys_(memory_->num_slots()) {
  pool_.SetListener(this);
  noted_.reserve(kBatchBlocks);
  if (memory_->num_ready() == memory_->num_slots()) return;
  // A slot whose memory is not ready is referenced here, so that no copy uses it.
  unready_.resize(memory_->num_slots());
  std::optional<std::vector<kv::BlockRef>> all = pool_.Acquire(memory_->num_slots());
  for (kv::BlockRef& slot : *all) {
    const uint32_t index = slot.id().value;
    unready_[index] = std::move(slot);
  }
  TakeReadySlots();
}

HostTier::~HostTier() {
  for (const Batch& batch : batches_) backend_.WaitForCopy(batch.ticket);
  pool_.SetListener(nullptr);
  unready_.clear();
}

void HostTier::TakeReadySlots() {
  if (unready_.empty()) return;
  const uint32_t num_ready = memory_->num_ready();
  for (; num_taken_ < num_ready; ++num_taken_) unready_[num_taken_].Reset();
  if (num_taken_ == memory_->num_slots()) unready_.clear();
}

uint32_t HostTier::num_blocks() const {
  return memory_->is_cut() ? memory_->num_ready() : memory_->num_slots();
}

void HostTier::Put(const kv::BlockKey& key, BlockId block, int priority) {
  if (const auto found = slots_.find(key.hash); found != slots_.end()) {
    // The copy is present (or another prefix's with the same hash, which stays). Sharing and
    // releasing it makes it the newest again.
    (void)pool_.Share(found->second);
    return;
  }
  TakeReadySlots();
  try {
    Note(key, block, priority);
  } catch (const std::bad_alloc&) {
    KVGATE_LOG(kDebug, "tier", "a KV block is not kept in host memory: no memory for its entry");
  }
}

void HostTier::Note(const kv::BlockKey& key, BlockId block, int priority) {
  const std::optional<std::vector<kv::BlockRef>> slot = pool_.Acquire(1);
  if (!slot.has_value()) return;
  const BlockId id = slot->front().id();
  slots_.emplace(key.hash, id);
  keys_[id.value] = key;
  // The vector's capacity was reserved, so this cannot throw.
  noted_.push_back({.block = block, .host = memory_->slot(id.value)});
  pool_.MarkCached(id);
  pool_.SetPriority(id, priority);
  if (noted_.size() >= kBatchBlocks) BeginCopies();
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

uint64_t HostTier::Restore(std::vector<kv::BlockRef> copies, std::span<const BlockId> blocks) {
  KVGATE_CHECK(copies.size() == blocks.size(), "copies and blocks");
  BeginCopies();  // may include the source blocks, or read from the destination blocks
  std::vector<kernels::KvBlockCopy> batch;
  uint64_t ticket = 0;
  for (size_t i = 0; i < copies.size(); ++i) {
    const BlockId slot = copies[i].id();
    pool_.CountUse(slot);
    batch.push_back({.block = blocks[i], .host = memory_->slot(slot.value)});
    if (batch.size() < kBatchBlocks && i + 1 < copies.size()) continue;
    ticket = backend_.WriteKvBlocks(arena_, batch);
    Track(ticket, true, batch);
    batch.clear();
  }
  kv::ReleaseLastToFirst(copies);
  return ticket;
}

void HostTier::BeginCopies() {
  if (noted_.empty()) return;
  try {
    Track(backend_.ReadKvBlocks(arena_, noted_), false, noted_);
    noted_.clear();
  } catch (const std::bad_alloc&) {
    ForgetNoted();
  }
}

// Releases the slots of copies that were not started, because they hold no data.
void HostTier::ForgetNoted() {
  while (!noted_.empty()) {
    const std::byte* const host = noted_.back().host;
    noted_.pop_back();
    const auto found = std::ranges::find_if(
        slots_, [&](const auto& item) { return memory_->slot(item.second.value) == host; });
    const BlockId slot = found->second;
    slots_.erase(found);
    pool_.UnmarkCached(slot);
  }
}

void HostTier::Track(uint64_t ticket, bool is_restore,
                     std::span<const kernels::KvBlockCopy> copies) {
  if (ticket == 0) return;
  try {
    TrackBatch(ticket, is_restore, copies);
  } catch (const std::bad_alloc&) {
    // Without a record of the copies, they must be complete before the engine goes on.
    backend_.WaitForCopy(ticket);
    std::erase_if(pending_, [ticket](const auto& item) { return item.second.ticket == ticket; });
  }
}

void HostTier::TrackBatch(uint64_t ticket, bool is_restore,
                          std::span<const kernels::KvBlockCopy> copies) {
  Batch batch{.ticket = ticket, .is_restore = is_restore, .blocks = {}};
  for (const kernels::KvBlockCopy& copy : copies) {
    batch.blocks.push_back(copy.block);
    pending_[copy.block.value] = {.ticket = ticket, .is_restore = is_restore};
  }
  batches_.push_back(std::move(batch));
}

void HostTier::ForgetDone() {
  std::erase_if(batches_, [this](const Batch& batch) {
    if (!backend_.IsCopied(batch.ticket)) return false;
    for (const BlockId block : batch.blocks) {
      const auto found = pending_.find(block.value);
      if (found != pending_.end() && found->second.ticket == batch.ticket) pending_.erase(found);
    }
    return true;
  });
}

uint64_t HostTier::TicketOf(std::span<const BlockId> blocks) {
  ForgetDone();
  uint64_t last = 0;
  if (pending_.empty()) return last;
  for (const BlockId block : blocks) {
    const auto found = pending_.find(block.value);
    if (found == pending_.end() || !found->second.is_restore) continue;
    last = std::max(last, found->second.ticket);
  }
  return last;
}

void HostTier::Await(std::span<const BlockId> blocks) {
  if (batches_.empty()) return;
  for (const BlockId block : blocks) {
    const auto found = pending_.find(block.value);
    if (found != pending_.end()) backend_.WaitForCopy(found->second.ticket);
  }
  ForgetDone();
}

uint64_t HostTier::bytes_restoring() {
  ForgetDone();
  uint64_t num_blocks = 0;
  for (const Batch& batch : batches_) num_blocks += batch.is_restore ? batch.blocks.size() : 0;
  return num_blocks * arena_.block_bytes();
}

double HostTier::MeasureBytesPerSecond() {
  if (backend_.Info().kv_host_visible) return 0;
  KVGATE_CHECK(slots_.empty(), "the arena is measured while it is in use");
  const uint32_t count =
      std::min({uint32_t{kBatchBlocks}, memory_->num_ready(), arena_.num_blocks()});
  std::vector<kernels::KvBlockCopy> copies;
  for (uint32_t i = 0; i < count; ++i) {
    copies.push_back({.block = BlockId{i}, .host = memory_->slot(i)});
  }
  double best = 0;
  for (int trial = 0; trial < 3; ++trial) {  // the first trial is slower
    const auto began = std::chrono::steady_clock::now();
    backend_.WaitForCopy(backend_.WriteKvBlocks(arena_, copies));
    const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - began;
    const double bytes = static_cast<double>(count) * static_cast<double>(arena_.block_bytes());
    best = std::max(best, bytes / std::max(elapsed.count(), 1e-9));
  }
  return best;
}

void HostTier::SetPriorities(const std::unordered_map<BlockHash, int>& priorities) {
  for (const auto& [hash, slot] : slots_) {
    const auto found = priorities.find(hash);
    pool_.SetPriority(slot, found != priorities.end() ? found->second : 0);
  }
}

void HostTier::OnEvict(BlockId slot) {
  slots_.erase(keys_[slot.value].hash);
  const std::byte* const host = memory_->slot(slot.value);
  std::erase_if(noted_, [host](const kernels::KvBlockCopy& copy) { return copy.host == host; });
}

void HostTier::CheckIntegrity() const {
  pool_.CheckIntegrity();
  const auto num_unready = unready_.empty() ? 0u : memory_->num_slots() - num_taken_;
  KVGATE_CHECK(pool_.num_used() == num_unready, "the host arena holds a reference");
  KVGATE_CHECK(noted_.empty(), "copies were noted and not begun");
  KVGATE_CHECK(slots_.size() == pool_.num_cached(), "number of host blocks");
  for (const auto& [hash, slot] : slots_) {
    KVGATE_CHECK(pool_.is_marked(slot) && keys_[slot.value].hash == hash, "index of host blocks");
  }
}

}  // namespace kvgate::tier
