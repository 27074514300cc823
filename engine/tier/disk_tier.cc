#include "engine/tier/disk_tier.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <utility>

#include <kvgate/check.h>
#include <kvgate/log.h>

namespace kvgate::tier {
namespace {

// Records of one Put: bounds the copy that the store makes of a batch.
constexpr size_t kWriteBatchBlocks = 8;

// The writer yields the CPU to the engine: write back is never urgent.
void LowerThreadPriority() { setpriority(PRIO_PROCESS, static_cast<id_t>(gettid()), 10); }

}  // namespace

// Items of one Load, taken by any number of workers.
struct DiskTier::LoadJob {
  uint64_t ticket = 0;
  std::vector<LoadItem> items;
  std::vector<char> ok;  // by item; each written by the worker that took it
  std::atomic<uint32_t> num_done{0};
  uint32_t next = 0;  // guarded by the tier's mutex
};

DiskTier::DiskTier(Options options, store::KvStore& store, kernels::Backend& backend,
                   kernels::KvArena& arena)
    : options_(std::move(options)), store_(store), backend_(backend), arena_(arena) {
  for (int i = 0; i < options_.load_threads; ++i) threads_.emplace_back([this] { RunLoader(); });
  threads_.emplace_back([this] { RunWriter(); });
}

DiskTier::~DiskTier() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  load_ready_.notify_all();
  write_ready_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

bool DiskTier::Contains(const kv::BlockKey& key) const {
  return store_.Contains({.fingerprint = options_.fingerprint, .hash = key.hash});
}

void DiskTier::Touch(std::span<const kv::BlockKey> keys) {
  std::vector<store::KvKey> store_keys;
  store_keys.reserve(keys.size());
  for (const kv::BlockKey& key : keys) {
    store_keys.push_back({.fingerprint = options_.fingerprint, .hash = key.hash});
  }
  store_.Touch(store_keys);
}

void DiskTier::Load(uint64_t ticket, std::vector<LoadItem> items) {
  KVGATE_CHECK(!items.empty(), "an empty load");
  auto job = std::make_shared<LoadJob>();
  job->ticket = ticket;
  job->ok.resize(items.size(), 0);
  job->items = std::move(items);
  {
    const std::lock_guard lock(mutex_);
    loads_.push_back(std::move(job));
    ++num_jobs_;
  }
  load_ready_.notify_all();
}

bool DiskTier::Write(uint64_t ticket, std::vector<WriteItem> items) {
  const uint64_t bytes = items.size() * arena_.block_bytes();
  {
    const std::lock_guard lock(mutex_);
    if (write_bytes_queued_ + bytes > options_.write_bytes_max) return false;
    write_bytes_queued_ += bytes;
    writes_.push_back({.ticket = ticket, .items = std::move(items)});
    ++num_jobs_;
  }
  write_ready_.notify_one();
  return true;
}

uint64_t DiskTier::write_bytes_queued() const {
  const std::lock_guard lock(mutex_);
  return write_bytes_queued_;
}

uint64_t DiskTier::num_blocks_written() const {
  const std::lock_guard lock(mutex_);
  return num_blocks_written_;
}

Result<void> DiskTier::Flush() {
  {
    std::unique_lock lock(mutex_);
    idle_.wait(lock, [this] { return num_jobs_ == 0; });
  }
  return store_.Flush();
}

bool DiskTier::LoadOne(const LoadItem& item) {
  store::KvLookup lookup{
      .key = {.fingerprint = options_.fingerprint, .hash = item.key.hash},
      .digest = item.key.digest,
      .group = 0,
      .shape_tag = options_.shape_tag,
      .payload = {},
  };
  if (backend_.Info().kv_host_visible) {
    lookup.payload = {arena_.block(item.block), arena_.block_bytes()};
    return store_.Get(lookup).has_value();
  }
  std::vector<std::byte> staging(arena_.block_bytes());
  lookup.payload = staging;
  if (!store_.Get(lookup).has_value()) return false;
  backend_.WriteKvBlock(arena_, item.block, staging);
  return true;
}

void DiskTier::RunLoader() {
  std::unique_lock lock(mutex_);
  while (true) {
    load_ready_.wait(lock, [this] { return stopping_ || !loads_.empty(); });
    if (loads_.empty()) return;
    const std::shared_ptr<LoadJob> job = loads_.front();
    const uint32_t index = job->next++;
    if (job->next == job->items.size()) loads_.pop_front();
    lock.unlock();

    job->ok[index] = LoadOne(job->items[index]) ? 1 : 0;
    const bool is_last =
        job->num_done.fetch_add(1, std::memory_order_acq_rel) + 1 == job->items.size();
    if (is_last) {
      const auto first_failed = std::ranges::find(job->ok, 0);
      options_.on_completion({.kind = Completion::Kind::kLoad,
                              .ticket = job->ticket,
                              .num_ok = static_cast<uint32_t>(first_failed - job->ok.begin())});
    }
    lock.lock();
    if (is_last && --num_jobs_ == 0) idle_.notify_all();
  }
}

uint32_t DiskTier::WriteAll(const WriteJob& job, std::vector<std::byte>& staging) {
  const size_t block_bytes = arena_.block_bytes();
  const bool direct = backend_.Info().kv_host_visible;
  if (!direct) staging.resize(kWriteBatchBlocks * block_bytes);
  uint32_t num_written = 0;
  std::vector<store::KvRecord> records;
  for (size_t first = 0; first < job.items.size(); first += kWriteBatchBlocks) {
    const size_t count = std::min(kWriteBatchBlocks, job.items.size() - first);
    records.clear();
    for (size_t i = 0; i < count; ++i) {
      const WriteItem& item = job.items[first + i];
      std::span<const std::byte> payload{arena_.block(item.block), block_bytes};
      if (!direct) {
        const auto slot = std::span(staging).subspan(i * block_bytes, block_bytes);
        backend_.ReadKvBlock(arena_, item.block, slot);
        payload = slot;
      }
      records.push_back({.key = {.fingerprint = options_.fingerprint, .hash = item.key.hash},
                         .parent = item.parent,
                         .depth = item.depth,
                         .digest = item.key.digest,
                         .group = 0,
                         .shape_tag = options_.shape_tag,
                         .tokens = item.tokens,
                         .payload = payload});
    }
    if (const Result<void> put = store_.Put(records); !put) {
      // The store says once why writing is off (its stats carry the reason); a line per batch would
      // flood the log of a full disk.
      KVGATE_LOG(kDebug, "tier", "{} KV blocks not written: {}", count, put.error().ToString());
      return num_written;
    }
    num_written += static_cast<uint32_t>(count);
  }
  return num_written;
}

void DiskTier::RunWriter() {
  LowerThreadPriority();
  std::vector<std::byte> staging;
  std::unique_lock lock(mutex_);
  while (true) {
    write_ready_.wait(lock, [this] { return stopping_ || !writes_.empty(); });
    if (writes_.empty()) return;
    const WriteJob job = std::move(writes_.front());
    writes_.pop_front();
    lock.unlock();

    const uint32_t num_written = WriteAll(job, staging);
    // Before the completion: it wakes the engine, which publishes these and may then sleep for
    // long.
    lock.lock();
    write_bytes_queued_ -= job.items.size() * arena_.block_bytes();
    num_blocks_written_ += num_written;
    lock.unlock();
    options_.on_completion(
        {.kind = Completion::Kind::kWrite, .ticket = job.ticket, .num_ok = num_written});

    lock.lock();
    if (--num_jobs_ == 0) idle_.notify_all();
  }
}

}  // namespace kvgate::tier
