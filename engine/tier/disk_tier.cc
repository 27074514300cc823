#include "engine/tier/disk_tier.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include <kvgate/check.h>
#include <kvgate/log.h>

namespace kvgate::tier {
namespace {

// Records of one Put: bounds the copy that the store makes of a batch.
constexpr size_t kWriteBatchBlocks = 8;

// The speed of loads is that of about so much reading; what is older counts half, and half again.
constexpr double kMeasureSeconds = 0.05;
// After a pause of this length what was measured before says nothing any more.
constexpr std::chrono::seconds kMeasureForget{2};

// The writer yields the CPU to the engine: write back is never urgent.
void LowerThreadPriority() { setpriority(PRIO_PROCESS, static_cast<id_t>(gettid()), 10); }

}  // namespace

// Items of one Load, taken by any number of loaders. All of it is guarded by the tier's mutex, but
// for the items themselves, which do not change.
struct DiskTier::LoadJob {
  uint64_t ticket = 0;
  std::vector<LoadItem> items;
  std::vector<bool> ok;
  size_t num_done = 0;
  size_t next = 0;  // to be begun
  size_t end = 0;   // of the items that are wanted

  uint32_t num_ok() const {
    return static_cast<uint32_t>(std::find(ok.begin(), ok.end(), false) - ok.begin());
  }
};

// Where records lie between the store and an arena that is not host memory: page-locked, as far as
// the system allows; allocated when it is first used.
class DiskTier::Staging {
 public:
  Staging(kernels::Backend& backend, size_t bytes) : backend_(backend), bytes_(bytes) {}
  std::span<std::byte> memory() {
    if (locked_ != nullptr) return {locked_->data(), bytes_};
    if (pageable_.empty() && bytes_ > 0) {
      if (Result<std::unique_ptr<kernels::HostBuffer>> made = backend_.AllocateHost(bytes_)) {
        locked_ = std::move(*made);
        return {locked_->data(), bytes_};
      }
      pageable_.resize(bytes_);  // slower, and as right
    }
    return pageable_;
  }

 private:
  kernels::Backend& backend_;
  const size_t bytes_;
  std::unique_ptr<kernels::HostBuffer> locked_;
  std::vector<std::byte> pageable_;
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

store::KvKey DiskTier::KeyOf(const kv::BlockKey& key, uint32_t group) const {
  return {.fingerprint = options_.fingerprint, .hash = kv::GroupHash(key.hash, group)};
}

size_t DiskTier::block_bytes_max() const {
  size_t bytes = arena_.block_bytes();
  for (const WindowArena& window : options_.windows) {
    bytes = std::max(bytes, window.arena->block_bytes());
  }
  return bytes;
}

template <typename Items>
uint64_t DiskTier::BytesOf(const Items& items) const {
  uint64_t bytes = 0;
  for (const auto& item : items) bytes += ArenaOf(item.group).block_bytes();
  return bytes;
}

bool DiskTier::Contains(const kv::BlockKey& key, uint32_t group) const {
  return store_.Contains(KeyOf(key, group));
}

void DiskTier::Touch(std::span<const kv::BlockKey> keys, uint32_t group) {
  std::vector<store::KvKey> store_keys;
  store_keys.reserve(keys.size());
  for (const kv::BlockKey& key : keys) store_keys.push_back(KeyOf(key, group));
  store_.Touch(store_keys);
}

uint64_t DiskTier::Load(std::vector<LoadItem> items) {
  KVGATE_CHECK(!items.empty(), "an empty load");
  auto job = std::make_shared<LoadJob>();
  job->ok.resize(items.size(), false);
  job->end = items.size();
  job->items = std::move(items);
  uint64_t ticket = 0;
  {
    const std::lock_guard lock(mutex_);
    ticket = job->ticket = ++last_ticket_;
    jobs_.emplace(ticket, job);
    loads_.push_back(std::move(job));
    ++num_jobs_;
  }
  load_ready_.notify_all();
  return ticket;
}

uint32_t DiskTier::NumLoaded(uint64_t ticket) const {
  const std::lock_guard lock(mutex_);
  const auto found = jobs_.find(ticket);
  return found != jobs_.end() ? found->second->num_ok() : 0;
}

DiskTier::GivenUp DiskTier::GiveUp(uint64_t ticket) {
  const std::lock_guard lock(mutex_);
  const auto found = jobs_.find(ticket);
  if (found == jobs_.end()) return {.completes = true};  // the completion is on its way
  const std::shared_ptr<LoadJob> job = found->second;
  std::erase(loads_, job);
  job->end = job->next;
  // What is being read counts as read: the speed is at most that, even where nothing came at all.
  CountBusyTime();
  if (num_loading_ > 0 && measured_seconds_ > 0) {
    const double bytes = measured_bytes_ + num_loading_ * static_cast<double>(block_bytes_max());
    const double bound = bytes / measured_seconds_;
    double& speed = load_speed_.bytes_per_second;
    speed = speed > 0 ? std::min(speed, bound) : bound;
    load_speed_.measured_at = counted_until_;
  }
  const GivenUp given_up{.num_ok = job->num_ok(),
                         .num_begun = static_cast<uint32_t>(job->next),
                         .completes = job->num_done < job->next};
  if (!given_up.completes) {
    jobs_.erase(found);
    if (--num_jobs_ == 0) idle_.notify_all();
  }
  return given_up;
}

void DiskTier::Probe(const kv::BlockKey& key) {
  {
    const std::lock_guard lock(mutex_);
    if (!jobs_.empty() || !probes_.empty()) return;
    probes_.push_back(key);
    ++num_jobs_;
  }
  load_ready_.notify_one();
}

bool DiskTier::Write(uint64_t ticket, std::vector<WriteItem> items) {
  const uint64_t bytes = BytesOf(items);
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

uint64_t DiskTier::load_bytes_queued() const {
  const std::lock_guard lock(mutex_);
  uint64_t bytes = 0;
  for (const auto& job : loads_) {
    bytes += BytesOf(std::span(job->items).subspan(job->next, job->end - job->next));
  }
  return bytes;
}

DiskTier::LoadSpeed DiskTier::load_speed() const {
  const std::lock_guard lock(mutex_);
  return load_speed_;
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

bool DiskTier::ReadRecord(const kv::BlockKey& key, uint32_t group, std::span<std::byte> payload) {
  return store_
      .Get({
          .key = KeyOf(key, group),
          .digest = key.digest,
          .group = group,
          .shape_tag = ShapeTagOf(group),
          .payload = payload,
      })
      .has_value();
}

// The arena gets a record only when all of it was proved.
bool DiskTier::LoadOne(const LoadItem& item, Staging& staging) {
  kernels::KvArena& arena = ArenaOf(item.group);
  if (backend_.Info().kv_host_visible) {
    return ReadRecord(item.key, item.group, {arena.block(item.block), arena.block_bytes()});
  }
  const std::span<std::byte> record = staging.memory().first(arena.block_bytes());
  if (!ReadRecord(item.key, item.group, record)) return false;
  backend_.WriteKvBlock(arena, item.block, record);
  return true;
}

void DiskTier::CountBusyTime() {
  const Clock::time_point now = Clock::now();
  if (num_loading_ > 0) {
    measured_seconds_ += std::chrono::duration<double>(now - counted_until_).count();
  }
  counted_until_ = now;
}

void DiskTier::BeginLoading() {
  if (num_loading_ == 0 && Clock::now() - counted_until_ > kMeasureForget) {
    measured_seconds_ = measured_bytes_ = 0;
  }
  CountBusyTime();
  ++num_loading_;
}

void DiskTier::EndLoading(uint64_t bytes) {
  CountBusyTime();
  --num_loading_;
  measured_bytes_ += static_cast<double>(bytes);
  if (measured_bytes_ == 0 || measured_seconds_ <= 0) return;
  load_speed_ = {.bytes_per_second = measured_bytes_ / measured_seconds_,
                 .measured_at = counted_until_};
  if (measured_seconds_ > kMeasureSeconds) {
    measured_seconds_ /= 2;
    measured_bytes_ /= 2;
  }
}

// True: the completion is to be delivered, without the lock, and then counted off num_jobs_.
bool DiskTier::FinishIfDone(const std::shared_ptr<LoadJob>& job) {
  if (job->num_done < job->end) return false;
  jobs_.erase(job->ticket);
  return true;
}

void DiskTier::RunLoader() {
  std::vector<std::byte> scratch;
  Staging staging(backend_, block_bytes_max());
  std::unique_lock lock(mutex_);
  while (true) {
    load_ready_.wait(lock, [this] { return stopping_ || !loads_.empty() || !probes_.empty(); });
    if (!loads_.empty()) {
      const std::shared_ptr<LoadJob> job = loads_.front();
      const size_t index = job->next++;
      if (job->next == job->end) loads_.pop_front();
      BeginLoading();
      lock.unlock();
      const LoadItem& item = job->items[index];
      const bool ok = LoadOne(item, staging);
      lock.lock();
      EndLoading(ok ? ArenaOf(item.group).block_bytes() : 0);
      job->ok[index] = ok;
      ++job->num_done;
      if (!FinishIfDone(job)) continue;
      const Completion completion{
          .kind = Completion::Kind::kLoad, .ticket = job->ticket, .num_ok = job->num_ok()};
      lock.unlock();
      options_.on_completion(completion);
      lock.lock();
    } else if (!probes_.empty()) {
      const kv::BlockKey key = probes_.front();
      probes_.pop_front();
      BeginLoading();
      lock.unlock();
      scratch.resize(arena_.block_bytes());
      const bool ok = ReadRecord(key, 0, scratch);
      lock.lock();
      EndLoading(ok ? scratch.size() : 0);
    } else {
      return;
    }
    if (--num_jobs_ == 0) idle_.notify_all();
  }
}

std::span<const std::byte> DiskTier::Fetch(const WriteItem& item,
                                           std::span<std::byte> staging) const {
  const kernels::KvArena& arena = ArenaOf(item.group);
  if (backend_.Info().kv_host_visible) return {arena.block(item.block), arena.block_bytes()};
  const std::span<std::byte> slot = staging.first(arena.block_bytes());
  backend_.ReadKvBlock(arena, item.block, slot);
  return slot;
}

uint32_t DiskTier::WriteAll(const WriteJob& job, Staging& staging) {
  const size_t slot_bytes = backend_.Info().kv_host_visible ? 0 : block_bytes_max();
  uint32_t num_written = 0;
  std::vector<store::KvRecord> records;
  for (size_t first = 0; first < job.items.size(); first += kWriteBatchBlocks) {
    const size_t count = std::min(kWriteBatchBlocks, job.items.size() - first);
    records.clear();
    for (size_t i = 0; i < count; ++i) {
      const WriteItem& item = job.items[first + i];
      records.push_back(
          {.key = KeyOf(item.key, item.group),
           .parent = item.parent,
           .depth = item.depth,
           .digest = item.key.digest,
           .group = item.group,
           .shape_tag = ShapeTagOf(item.group),
           .tokens = item.tokens,
           .payload = Fetch(item, staging.memory().subspan(i * slot_bytes, slot_bytes))});
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
  const size_t slot_bytes = backend_.Info().kv_host_visible ? 0 : block_bytes_max();
  Staging staging(backend_, kWriteBatchBlocks * slot_bytes);
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
    write_bytes_queued_ -= BytesOf(job.items);
    num_blocks_written_ += num_written;
    lock.unlock();
    options_.on_completion(
        {.kind = Completion::Kind::kWrite, .ticket = job.ticket, .num_ok = num_written});

    lock.lock();
    if (--num_jobs_ == 0) idle_.notify_all();
  }
}

}  // namespace kvgate::tier
