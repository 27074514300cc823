#include "engine/tier/store_tier.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <exception>
#include <new>
#include <utility>

#include "base/check.h"
#include "base/log.h"

namespace kvgate::tier {
namespace {

// Records per Put; bounds the copy that the store makes of a batch.
constexpr size_t kWriteBatchBlocks = 8;

// The measurement window in seconds of reading; what is older counts half, and half again.
constexpr double kMeasureSeconds = 0.05;
// Measurements from before a pause of this length are discarded.
constexpr std::chrono::seconds kMeasureForget{2};

// Items read on for measurement after a load was given up; more would keep others waiting on a slow
// disk.
constexpr size_t kMeasuredOnMax = 4;

// Tickets of the disk are even, those of the shared store odd.
constexpr uint64_t kTicketStep = 2;

// Delay before the next attempt to deliver a completion when memory has run out.
constexpr std::chrono::milliseconds kCompletionRetry{5};

// The writer yields the CPU to the engine: write back is never urgent.
void LowerThreadPriority() { setpriority(PRIO_PROCESS, static_cast<id_t>(gettid()), 10); }

store::kv::KvKey KeyOf(Fingerprint fingerprint, const kv::BlockKey& key, uint32_t group) {
  return {.fingerprint = fingerprint, .hash = kv::GroupHash(key.hash, group)};
}

}  // namespace

// Items of one Load, taken by any number of loaders. The tier's mutex guards all of it except the
// items themselves, which do not change.
struct StoreTier::LoadJob {
  uint64_t ticket = 0;
  std::vector<LoadItem> items;
  std::vector<bool> ok;
  size_t num_done = 0;
  size_t next = 0;  // index of the next item to begin
  size_t end = 0;   // end of the items that are still wanted

  uint32_t num_ok() const {
    return static_cast<uint32_t>(std::find(ok.begin(), ok.end(), false) - ok.begin());
  }
};

// Buffer for records between the store and an arena that is not host memory. It is page-locked if
// the system allows, and allocated on first use.
class StoreTier::Staging {
 public:
  Staging(kernels::Backend& backend, size_t bytes) : backend_(backend), bytes_(bytes) {}
  std::span<std::byte> memory() {
    if (locked_ != nullptr) return {locked_->data(), bytes_};
    if (pageable_.empty() && bytes_ > 0) {
      if (Result<std::unique_ptr<kernels::HostBuffer>> made = backend_.AllocateHost(bytes_)) {
        locked_ = std::move(*made);
        return {locked_->data(), bytes_};
      }
      pageable_.resize(bytes_);  // slower, but correct too
    }
    return pageable_;
  }

 private:
  kernels::Backend& backend_;
  const size_t bytes_;
  std::unique_ptr<kernels::HostBuffer> locked_;
  std::vector<std::byte> pageable_;
};

StoreTier::StoreTier(Options options, store::kv::BlockStore& store, kernels::Backend& backend)
    : options_(std::move(options)),
      store_(store),
      backend_(backend),
      last_ticket_(static_cast<uint64_t>(options_.store)) {
  if (options_.is_driven) return;
  try {
    for (int i = 0; i < options_.load_threads; ++i) threads_.emplace_back([this] { RunLoader(); });
    threads_.emplace_back([this] { RunWriter(); });
  } catch (...) {  // no thread may outlive the members it uses
    StopThreads();
    throw;
  }
}

void StoreTier::StopThreads() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    // The owner is going away, so no measurement is needed.
    num_jobs_ -= static_cast<int>(std::exchange(probes_, {}).size());
  }
  load_ready_.notify_all();
  write_ready_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

StoreTier::~StoreTier() {
  StopThreads();
  if (!options_.is_driven) return;
  Staging staging(backend_, kWriteBatchBlocks * block_bytes_max());
  for (auto task = TakeRead(); task.has_value(); task = TakeRead()) {
    Perform(*task, &staging);
    End(*task);
  }
  for (auto task = TakeWrite(); task.has_value(); task = TakeWrite()) {
    Perform(*task, &staging);
    End(*task);
  }
}

size_t StoreTier::block_bytes_max() const {
  size_t bytes = 0;
  for (const GroupArena& group : options_.groups) {
    bytes = std::max(bytes, group.arena->block_bytes());
  }
  return bytes;
}

template <typename Items>
uint64_t StoreTier::BytesOf(const Items& items) const {
  uint64_t bytes = 0;
  for (const auto& item : items) bytes += ArenaOf(item.group).block_bytes();
  return bytes;
}

bool StoreTier::Contains(const kv::BlockKey& key, uint32_t group) const {
  return store_.Contains(KeyOf(options_.fingerprint, key, group));
}

void StoreTier::Touch(std::span<const kv::BlockKey> keys, uint32_t group) {
  std::vector<store::kv::KvKey> store_keys;
  store_keys.reserve(keys.size());
  for (const kv::BlockKey& key : keys)
    store_keys.push_back(KeyOf(options_.fingerprint, key, group));
  store_.Touch(store_keys);
}

void StoreTier::CountHit(std::span<const kv::BlockKey> keys, int num_tokens, double seconds) {
  try {
    const auto num_blocks = static_cast<size_t>(num_tokens / kernels::kKvBlockTokens);
    std::vector<store::kv::KvKey> store_keys;
    store_keys.reserve(num_blocks);
    for (const kv::BlockKey& key : keys.first(std::min(num_blocks, keys.size()))) {
      store_keys.push_back(KeyOf(options_.fingerprint, key, kv::kFullGroup));
    }
    store_.CountHits(store_keys, {.num_hits = 1,
                                  .num_tokens = static_cast<uint64_t>(num_tokens),
                                  .compute_us = static_cast<uint64_t>(seconds * 1e6)});
  } catch (const std::bad_alloc&) {  // the request goes on uncounted
  }
}

uint64_t StoreTier::Load(std::vector<LoadItem> items) {
  KVGATE_CHECK(!items.empty(), "an empty load");
  auto job = std::make_shared<LoadJob>();
  job->ok.resize(items.size(), false);
  job->end = items.size();
  job->items = std::move(items);
  uint64_t ticket = 0;
  {
    const std::lock_guard lock(mutex_);
    ticket = job->ticket = last_ticket_ + kTicketStep;
    const auto entry = jobs_.emplace(ticket, job).first;
    try {
      loads_.push_back(std::move(job));
    } catch (const std::bad_alloc&) {
      jobs_.erase(entry);
      throw;
    }
    last_ticket_ = ticket;
    ++num_jobs_;
  }
  load_ready_.notify_all();
  return ticket;
}

uint32_t StoreTier::NumLoaded(uint64_t ticket) const {
  const std::lock_guard lock(mutex_);
  const auto found = jobs_.find(ticket);
  return found != jobs_.end() ? found->second->num_ok() : 0;
}

StoreTier::GivenUp StoreTier::GiveUp(uint64_t ticket) {
  const std::lock_guard lock(mutex_);
  const auto found = jobs_.find(ticket);
  if (found == jobs_.end()) return {.completes = true};  // the completion is on its way
  const std::shared_ptr<LoadJob> job = found->second;
  std::erase(loads_, job);
  job->end = job->next;
  // Records being read count as read, so this bounds the speed from above even if none has arrived.
  CountBusyTime();
  if (num_loading_ > 0 && measured_seconds_ > 0) {
    const double bytes = measured_bytes_ + num_loading_ * static_cast<double>(block_bytes_max());
    const double bound = bytes / measured_seconds_;
    double& speed = load_speed_.bytes_per_second;
    speed = speed > 0 ? std::min(speed, bound) : bound;
    load_speed_.is_guess |= awaits_first_;
    load_speed_.measured_at = counted_until_;
    if (awaits_first_) MeasureOn(*job);
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

// Reads a few more items of a load that was given up while waiting for its first record, because
// that one latency alone would misjudge the disk. These reads run beside the other loads.
void StoreTier::MeasureOn(const LoadJob& job) {
  if (!probes_.empty()) return;
  const size_t end = std::min(job.items.size(), job.next + kMeasuredOnMax);
  for (size_t i = job.next; i < end && job.items[i].group == kv::kFullGroup; ++i) {
    AddProbe(job.items[i].key);
  }
  load_ready_.notify_all();
}

void StoreTier::AddProbe(const kv::BlockKey& key) {
  try {
    probes_.push_back(key);
    ++num_jobs_;
  } catch (const std::bad_alloc&) {  // the speed is measured another time
  }
}

void StoreTier::Probe(std::span<const kv::BlockKey> keys) {
  {
    const std::lock_guard lock(mutex_);
    if (!jobs_.empty() || !probes_.empty()) return;
    for (const kv::BlockKey& key : keys.first(std::min(keys.size(), kProbeRecordsMax))) {
      AddProbe(key);
    }
  }
  load_ready_.notify_all();
}

bool StoreTier::Write(uint64_t ticket, std::vector<WriteItem> items) {
  const uint64_t bytes = BytesOf(items);
  {
    const std::lock_guard lock(mutex_);
    if (write_bytes_queued_ + bytes > options_.write_bytes_max) return false;
    writes_.push_back({.ticket = ticket, .items = std::move(items)});
    write_bytes_queued_ += bytes;
    ++num_jobs_;
  }
  write_ready_.notify_one();
  return true;
}

uint64_t StoreTier::write_bytes_queued() const {
  const std::lock_guard lock(mutex_);
  return write_bytes_queued_;
}

uint64_t StoreTier::load_bytes_queued() const {
  const std::lock_guard lock(mutex_);
  uint64_t bytes = 0;
  for (const auto& job : loads_) {
    bytes += BytesOf(std::span(job->items).subspan(job->next, job->end - job->next));
  }
  return bytes;
}

StoreTier::LoadSpeed StoreTier::load_speed() const {
  const std::lock_guard lock(mutex_);
  return load_speed_;
}

MovedKv StoreTier::moved() const {
  const std::lock_guard lock(mutex_);
  return moved_;
}

Result<void> StoreTier::Flush() {
  {
    std::unique_lock lock(mutex_);
    idle_.wait(lock, [this] { return num_jobs_ == 0; });
  }
  return store_.Flush();
}

bool StoreTier::ReadRecord(const kv::BlockKey& key, uint32_t group, std::span<std::byte> payload) {
  return store_
      .Get({
          .key = KeyOf(options_.fingerprint, key, group),
          .digest = key.digest,
          .group = group,
          .shape_tag = options_.groups[group].shape_tag,
          .payload = payload,
      })
      .has_value();
}

// The arena receives a record only after all of it was verified.
bool StoreTier::LoadOne(const LoadItem& item, Staging* staging) {
  kernels::KvArena& arena = ArenaOf(item.group);
  if (backend_.Info().kv_host_visible) {
    return ReadRecord(item.key, item.group, {arena.block(item.block), arena.block_bytes()});
  }
  const std::span<std::byte> record = staging->memory().first(arena.block_bytes());
  if (!ReadRecord(item.key, item.group, record)) return false;
  backend_.WriteKvBlock(arena, item.block, record);
  return true;
}

void StoreTier::CountBusyTime() {
  const Clock::time_point now = Clock::now();
  if (num_counted_ > 0 || (awaits_first_ && num_loading_ > 0)) {
    measured_seconds_ += std::chrono::duration<double>(now - counted_until_).count();
  }
  counted_until_ = now;
}

// Returns true if the read counts for the bandwidth.
bool StoreTier::BeginLoading() {
  const Clock::time_point now = Clock::now();
  if (num_loading_ == 0 && now - counted_until_ > kMeasureForget) {
    measured_seconds_ = measured_bytes_ = 0;
    burst_began_ = now;
    awaits_first_ = true;
  }
  CountBusyTime();
  ++num_loading_;
  if (!awaits_first_) ++num_counted_;
  return !awaits_first_;
}

// The elapsed time is the latency. The one record gives a lower bound of the bandwidth.
void StoreTier::EndFirstRead(uint64_t bytes) {
  if (bytes == 0) return;  // it failed
  const double seconds = std::chrono::duration<double>(counted_until_ - burst_began_).count();
  const double bound = static_cast<double>(bytes) / std::max(seconds, 1e-9);
  awaits_first_ = false;
  measured_seconds_ = measured_bytes_ = 0;
  const double known = load_speed_.bytes_per_second;
  if (known <= 0) load_speed_.is_guess = true;
  if (load_speed_.is_guess || bound > known) load_speed_.bytes_per_second = bound;
  load_speed_.latency_seconds = seconds;
  load_speed_.measured_at = counted_until_;
}

void StoreTier::EndLoading(uint64_t bytes, bool is_counted) {
  CountBusyTime();
  --num_loading_;
  if (awaits_first_) return EndFirstRead(bytes);
  if (!is_counted) return;
  --num_counted_;
  measured_bytes_ += static_cast<double>(bytes);
  if (measured_bytes_ == 0 || measured_seconds_ <= 0) return;
  load_speed_ = {.bytes_per_second = measured_bytes_ / measured_seconds_,
                 .latency_seconds = load_speed_.latency_seconds,
                 .is_guess = false,
                 .measured_at = counted_until_};
  if (measured_seconds_ > kMeasureSeconds) {
    measured_seconds_ /= 2;
    measured_bytes_ /= 2;
  }
}

// Returns true if the job is done. The caller then delivers the completion without holding the
// lock, and counts the job off num_jobs_ after that.
bool StoreTier::FinishIfDone(const std::shared_ptr<LoadJob>& job) {
  if (job->num_done < job->end) return false;
  jobs_.erase(job->ticket);
  return true;
}

// Retries until delivered, because the caller holds blocks until the completion arrives.
void StoreTier::Complete(const Completion& completion) {
  while (true) {
    try {
      return options_.on_completion(completion);
    } catch (const std::bad_alloc&) {
      std::this_thread::sleep_for(kCompletionRetry);
    }
  }
}

std::optional<StoreTier::Task> StoreTier::NextRead() {
  Task task;
  if (!loads_.empty()) {
    task.job = loads_.front();
    task.index = task.job->next++;
    if (task.job->next == task.job->end) loads_.pop_front();
  } else if (!probes_.empty()) {
    task.probe = probes_.front();
    probes_.pop_front();
  } else {
    return std::nullopt;
  }
  task.is_counted = BeginLoading();
  return task;
}

std::optional<StoreTier::Task> StoreTier::NextWrite() {
  if (writes_.empty()) return std::nullopt;
  Task task;
  task.ticket = writes_.front().ticket;
  task.to_write = std::move(writes_.front().items);
  writes_.pop_front();
  return task;
}

std::optional<StoreTier::Task> StoreTier::TakeRead() {
  const std::lock_guard lock(mutex_);
  return NextRead();
}

std::optional<StoreTier::Task> StoreTier::TakeWrite() {
  const std::lock_guard lock(mutex_);
  return NextWrite();
}

// Catches the exceptions of the tier's threads: a record that finds no memory to be read counts as
// a miss, and one that finds none to be written is not written.
void StoreTier::Perform(Task& task, Staging* staging) {
  const Clock::time_point begin = Clock::now();
  try {
    if (!task.to_write.empty()) {
      WriteAll(task, staging);
    } else if (task.job != nullptr) {
      task.num_ok = LoadOne(task.job->items[task.index], staging) ? 1 : 0;
    } else {
      std::vector<std::byte> scratch(block_bytes(kv::kFullGroup));
      task.num_ok = ReadRecord(task.probe, kv::kFullGroup, scratch) ? 1 : 0;
    }
  } catch (const std::exception& failure) {
    KVGATE_LOG(kDebug, "tier", "KV blocks not moved: {}", failure.what());
  }
  const auto time = std::chrono::duration_cast<std::chrono::microseconds>(Clock::now() - begin);
  task.time_us = static_cast<uint64_t>(time.count());
}

void StoreTier::End(Task& task) {
  const bool is_job_done = task.to_write.empty() ? EndRead(task) : EndWrite(task);
  if (!is_job_done) return;
  const std::lock_guard lock(mutex_);
  if (--num_jobs_ == 0) idle_.notify_all();
}

// Ends one item of a load; the job has as many tasks as items.
bool StoreTier::EndRead(Task& task) {
  Completion completion;
  {
    const std::lock_guard lock(mutex_);
    const uint32_t group = task.job != nullptr ? task.job->items[task.index].group : kv::kFullGroup;
    EndLoading(task.num_ok > 0 ? ArenaOf(group).block_bytes() : 0, task.is_counted);
    if (task.job == nullptr) return true;
    if (task.num_ok > 0) moved_.load_bytes += ArenaOf(group).block_bytes();
    moved_.load_us += task.time_us;
    task.job->ok[task.index] = task.num_ok > 0;
    ++task.job->num_done;
    if (!FinishIfDone(task.job)) return false;
    completion = {.kind = Completion::Kind::kLoad,
                  .store = options_.store,
                  .ticket = task.job->ticket,
                  .num_ok = task.job->num_ok()};
  }
  Complete(completion);
  return true;
}

// The counts are updated before the completion, because the completion wakes the engine, which
// publishes them and may then sleep for long.
bool StoreTier::EndWrite(Task& task) {
  {
    const std::lock_guard lock(mutex_);
    write_bytes_queued_ -= BytesOf(task.to_write);
    moved_.num_blocks_written += task.num_ok;
    moved_.write_bytes += BytesOf(std::span(task.to_write).first(task.num_ok));
    moved_.write_us += task.time_us;
  }
  Complete({.kind = Completion::Kind::kWrite,
            .store = options_.store,
            .ticket = task.ticket,
            .num_ok = task.num_ok});
  return true;
}

void StoreTier::RunLoader() {
  Staging staging(backend_, block_bytes_max());
  while (true) {
    std::optional<Task> task;
    {
      std::unique_lock lock(mutex_);
      load_ready_.wait(lock, [this] { return stopping_ || !loads_.empty() || !probes_.empty(); });
      task = NextRead();
    }
    if (!task.has_value()) return;
    Perform(*task, &staging);
    End(*task);
  }
}

std::span<const std::byte> StoreTier::Fetch(const WriteItem& item,
                                            std::span<std::byte> staging) const {
  const kernels::KvArena& arena = ArenaOf(item.group);
  if (backend_.Info().kv_host_visible) return {arena.block(item.block), arena.block_bytes()};
  const std::span<std::byte> slot = staging.first(arena.block_bytes());
  backend_.ReadKvBlock(arena, item.block, slot);
  return slot;
}

// Returns the number of items written: all, or 0 if the store took none.
uint32_t StoreTier::WriteBatch(std::span<const WriteItem> items, Staging* staging) {
  const bool is_direct = backend_.Info().kv_host_visible;
  const size_t slot_bytes = is_direct ? 0 : block_bytes_max();
  const std::span<std::byte> slots = is_direct ? std::span<std::byte>() : staging->memory();
  std::vector<store::kv::KvRecord> records;
  for (size_t i = 0; i < items.size(); ++i) {
    const WriteItem& item = items[i];
    records.push_back({.key = KeyOf(options_.fingerprint, item.key, item.group),
                       .parent = item.parent,
                       .depth = item.depth,
                       .digest = item.key.digest,
                       .group = item.group,
                       .shape_tag = options_.groups[item.group].shape_tag,
                       .tokens = item.tokens,
                       .payload = Fetch(item, slots.subspan(i * slot_bytes, slot_bytes))});
  }
  if (const Result<void> put = store_.Put(records); !put) {
    // The store logs once why writing is off (its stats carry the reason); a line per batch would
    // flood the log when a disk is full.
    KVGATE_LOG(kDebug, "tier", "{} KV blocks not written: {}", items.size(),
               put.error().ToString());
    return 0;
  }
  return static_cast<uint32_t>(items.size());
}

void StoreTier::WriteAll(Task& task, Staging* staging) {
  while (task.num_ok < task.to_write.size()) {
    const size_t count = std::min(kWriteBatchBlocks, task.to_write.size() - task.num_ok);
    const auto batch = std::span(task.to_write).subspan(task.num_ok, count);
    if (WriteBatch(batch, staging) == 0) break;
    task.num_ok += static_cast<uint32_t>(count);
  }
}

void StoreTier::RunWriter() {
  LowerThreadPriority();
  const size_t slot_bytes = backend_.Info().kv_host_visible ? 0 : block_bytes_max();
  Staging staging(backend_, kWriteBatchBlocks * slot_bytes);
  while (true) {
    std::optional<Task> task;
    {
      std::unique_lock lock(mutex_);
      write_ready_.wait(lock, [this] { return stopping_ || !writes_.empty(); });
      task = NextWrite();
    }
    if (!task.has_value()) return;
    Perform(*task, &staging);
    End(*task);
  }
}

}  // namespace kvgate::tier
