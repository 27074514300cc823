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
    const double bytes = measured_bytes_ + num_loading_ * static_cast<double>(arena_.block_bytes());
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

uint64_t DiskTier::load_bytes_queued() const {
  const std::lock_guard lock(mutex_);
  uint64_t num_items = 0;
  for (const auto& job : loads_) num_items += job->end - job->next;
  return num_items * arena_.block_bytes();
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

bool DiskTier::ReadRecord(const kv::BlockKey& key, std::span<std::byte> payload) {
  return store_
      .Get({
          .key = {.fingerprint = options_.fingerprint, .hash = key.hash},
          .digest = key.digest,
          .group = 0,
          .shape_tag = options_.shape_tag,
          .payload = payload,
      })
      .has_value();
}

bool DiskTier::LoadOne(const LoadItem& item) {
  if (backend_.Info().kv_host_visible) {
    return ReadRecord(item.key, {arena_.block(item.block), arena_.block_bytes()});
  }
  std::vector<std::byte> staging(arena_.block_bytes());
  if (!ReadRecord(item.key, staging)) return false;
  backend_.WriteKvBlock(arena_, item.block, staging);
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

void DiskTier::EndLoading(bool ok) {
  CountBusyTime();
  --num_loading_;
  if (ok) measured_bytes_ += static_cast<double>(arena_.block_bytes());
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
  std::unique_lock lock(mutex_);
  while (true) {
    load_ready_.wait(lock, [this] { return stopping_ || !loads_.empty() || !probes_.empty(); });
    if (!loads_.empty()) {
      const std::shared_ptr<LoadJob> job = loads_.front();
      const size_t index = job->next++;
      if (job->next == job->end) loads_.pop_front();
      BeginLoading();
      lock.unlock();
      const bool ok = LoadOne(job->items[index]);
      lock.lock();
      EndLoading(ok);
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
      const bool ok = ReadRecord(key, scratch);
      lock.lock();
      EndLoading(ok);
    } else {
      return;
    }
    if (--num_jobs_ == 0) idle_.notify_all();
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
