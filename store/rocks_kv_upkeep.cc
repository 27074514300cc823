// The two threads of RocksKvStore: flushing on time, recovering from errors, freeing space.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include <kvgate/log.h>

#include "store/file/rocks_common.h"
#include "store/file/rocks_file_system.h"
#include "store/rocks_kv_store.h"

namespace kvgate::store {
namespace {

using std::chrono::milliseconds;

constexpr std::string_view kSource = "store.kv";
// Last-use times alone are worth a flush only now and then; a crash may lose them.
constexpr std::chrono::seconds kTouchInterval{60};
constexpr int kRetryPauseGrowth = 16;

}  // namespace

void RocksKvStore::Wake() {
  {
    const std::lock_guard lock(wake_mutex_);
    error_wakes_ = true;
  }
  wake_upkeep_.notify_all();
}

void RocksKvStore::WakeCollector() {
  {
    const std::lock_guard lock(wake_mutex_);
    collect_wanted_ = true;
  }
  wake_collector_.notify_all();
}

void RocksKvStore::MarkDirty() {
  {
    const std::lock_guard lock(wake_mutex_);
    if (dirty_since_) return;
    dirty_since_ = Clock::now();
  }
  wake_upkeep_.notify_all();
}

void RocksKvStore::SetError(const Error& error) {
  if (error.code == ErrorCode::kCancelled) return;
  {
    const std::lock_guard lock(index_mutex_);
    if (error_ && error_->code == ErrorCode::kDataLoss) return;  // the graver one stays
    if (!error_) KVGATE_LOG(kWarning, kSource, "writing is off: {}", error.ToString());
    error_ = error;
  }
  Wake();
}

void RocksKvStore::StopThreads() {
  stopping_ = true;
  {
    const std::shared_lock lock(database_mutex_);
    if (database_ != nullptr) database_->CancelCompactions();
  }
  {
    const std::lock_guard lock(wake_mutex_);  // a waiter is either before its check or asleep
  }
  wake_upkeep_.notify_all();
  wake_collector_.notify_all();
  space_freed_.notify_all();
  if (upkeep_.joinable()) upkeep_.join();
  if (collector_.joinable()) collector_.join();
}

void RocksKvStore::RunUpkeep() {
  auto touches_due = Clock::now() + kTouchInterval;
  const auto settled_at = touches_due;
  bool settled = false;
  while (!stopping_) {
    bool failing = false;
    {
      const std::lock_guard lock(index_mutex_);
      failing = error_.has_value();
    }
    bool flush = false;
    {
      std::unique_lock lock(wake_mutex_);
      auto due = touches_due;
      if (failing) {
        due = retry_at_;
      } else if (dirty_since_) {
        due = std::min(due, *dirty_since_ + options_.flush_interval);
      }
      if (!stopping_ && !error_wakes_ && Clock::now() < due) wake_upkeep_.wait_until(lock, due);
      error_wakes_ = false;
      const auto now = Clock::now();
      flush = !failing && ((dirty_since_ && now >= *dirty_since_ + options_.flush_interval) ||
                           now >= touches_due);
      if (failing && now < retry_at_) continue;
    }
    if (stopping_) return;
    if (!settled && Clock::now() >= settled_at) {
      settled = true;
      options_.on_settled();
    }
    std::optional<Error> background;
    {
      const std::shared_lock lock(database_mutex_);
      if (database_ != nullptr) background = database_->BackgroundError();
    }
    if (background && !failing) SetError(*background);
    if (failing) {
      Recover();
    } else if (flush && !background) {
      touches_due = Clock::now() + kTouchInterval;
      if (const auto flushed = FlushNow(); !flushed) SetError(flushed.error());
      if (used_bytes_estimate_ > marks_.collect_start) WakeCollector();
    }
  }
}

Result<void> RocksKvStore::ApplyPending(bool with_touches) {
  std::vector<KvKey> deletes;
  std::vector<KvIndexEntry> touched;
  {
    const std::lock_guard lock(index_mutex_);
    deletes.swap(pending_deletes_);
    if (with_touches) touched = index_.TakeTouched();
  }
  if (deletes.empty() && touched.empty()) return {};
  auto written = WriteToDatabase({.deletes = deletes, .records = {}, .entries = touched});
  if (!written) {
    const std::lock_guard lock(index_mutex_);
    pending_deletes_.insert(pending_deletes_.end(), deletes.begin(), deletes.end());
  }
  return written;
}

Result<void> RocksKvStore::FlushNow() {
  uint64_t num_writes = 0;
  {
    const std::lock_guard write_lock(write_mutex_);
    KVGATE_TRY_VOID(ApplyPending(true));
    {
      const std::lock_guard index_lock(index_mutex_);
      num_writes = counters_.num_writes;
    }
    // What is written from here on is the next flush's.
    const std::lock_guard lock(wake_mutex_);
    dirty_since_.reset();
  }
  {
    const std::shared_lock lock(database_mutex_);
    if (database_ == nullptr) {
      return MakeError(ErrorCode::kUnavailable, kSource, "flushing: the database is not open");
    }
    if (auto flushed = database_->Flush(); !flushed) {
      MarkDirty();
      return flushed;
    }
  }
  const std::lock_guard index_lock(index_mutex_);
  num_flushed_ = std::max(num_flushed_, num_writes);
  return {};
}

// Called while an error stands and its pause is over.
void RocksKvStore::Recover() {
  std::optional<Error> error;
  {
    const std::lock_guard lock(index_mutex_);
    error = error_;
  }
  bool is_open = false;
  {
    const std::shared_lock lock(database_mutex_);
    is_open = database_ != nullptr;
  }
  Result<void> done = *error;
  if (error->code == ErrorCode::kDataLoss || !is_open) {
    done = HealDamage();
  } else if (IsDiskWell(EnvOr(options_.env), options_.directory)) {
    done = Reopen();
  }
  if (done) done = FlushNow();
  if (done) {
    {
      const std::lock_guard index_lock(index_mutex_);
      error_.reset();
    }
    const std::lock_guard wake_lock(wake_mutex_);
    retry_pause_ = options_.retry_pause;
    KVGATE_LOG(kInfo, kSource, "writing is on again");
    return;
  }
  SetError(done.error());
  const std::lock_guard wake_lock(wake_mutex_);
  retry_at_ = Clock::now() + retry_pause_;
  retry_pause_ = std::min(retry_pause_ * 2, options_.retry_pause * kRetryPauseGrowth);
  error_wakes_ = false;
}

// Damage that stopped RocksDB. The first time the database is opened again and every record is
// read, so that what is rotten goes and the rest stays; if damage stops it again before space
// could be freed once, it is set aside and a new one begun.
Result<void> RocksKvStore::HealDamage() {
  if (collected_.exchange(false)) damage_strikes_ = 0;
  const std::lock_guard write_lock(write_mutex_);
  const std::unique_lock lock(database_mutex_);
  const bool was_open = database_ != nullptr;
  database_.reset();
  if (was_open && ++damage_strikes_ >= 2) {
    KVGATE_TRY(const auto target, SetAside(options_.directory));
    KVGATE_LOG(kWarning, kSource, "damaged beyond repair, set aside as {}", target.string());
    damage_strikes_ = 0;
  }
  KVGATE_TRY_VOID(OpenDatabase());
  {
    const std::lock_guard index_lock(index_mutex_);
    error_.reset();  // of the database that is gone
  }
  verify_wanted_ = true;
  WakeCollector();
  return {};
}

// After an error that RocksDB takes for final though the disk is well again. What was not flushed
// is lost, as by a crash.
Result<void> RocksKvStore::Reopen() {
  const std::lock_guard write_lock(write_mutex_);
  const std::unique_lock lock(database_mutex_);
  database_.reset();
  KVGATE_TRY_VOID(OpenDatabase());
  KVGATE_LOG(kInfo, kSource, "opened again after an error of the disk");
  return {};
}

void RocksKvStore::RunCollector() {
  while (!stopping_) {
    {
      std::unique_lock lock(wake_mutex_);
      wake_collector_.wait(lock, [&] { return stopping_ || collect_wanted_; });
      collect_wanted_ = false;
    }
    if (stopping_) return;
    if (verify_wanted_.exchange(false)) {
      const auto report = Verify(nullptr);
      if (!report) KVGATE_LOG(kWarning, kSource, "verifying: {}", report.error().ToString());
    }
    CollectUntilEnough();
  }
}

void RocksKvStore::CollectUntilEnough() {
  while (!stopping_) {
    const uint64_t used = MeasureUsedBytes();
    if (used <= marks_.collect_stop) return;
    const auto started = Clock::now();
    if (!CollectStep(used)) return;
    space_freed_.notify_all();
    // Half of the time is left to readers and flushes, unless a Put is waiting.
    const auto pause = std::min<Clock::duration>(Clock::now() - started, milliseconds(500));
    if (!put_waits_) {
      std::unique_lock lock(wake_mutex_);
      wake_collector_.wait_for(lock, pause, [&] { return stopping_ || put_waits_; });
    }
  }
}

// One bounded step; false when there is nothing to gain or the database refuses.
bool RocksKvStore::CollectStep(uint64_t used_bytes) {
  if (!CheckWritable()) return false;
  const std::shared_lock lock(database_mutex_);
  if (database_ == nullptr) return false;
  auto done = database_->Compact();
  if (done) {
    space_freed_.notify_all();
    used_bytes = database_->DiskBytes() + database_->MemtableBytes();
    if (used_bytes <= marks_.collect_stop) return true;
    uint64_t live_bytes = 0;
    const size_t num_files = ChooseFiles(used_bytes - marks_.collect_stop, live_bytes);
    if (num_files == 0) return false;
    collecting_bytes_ = live_bytes;
    done = database_->Collect(num_files);
    collecting_bytes_ = 0;
  }
  if (!done) {
    SetError(done.error());
    return false;
  }
  collected_ = true;
  return true;
}

// The oldest blob files that together free `bytes_to_free` and copy at most a step's worth.
size_t RocksKvStore::ChooseFiles(uint64_t bytes_to_free, uint64_t& live_bytes) const {
  const std::vector<KvBlobFile> files = database_->BlobFiles();
  uint64_t garbage_bytes = 0;
  for (const KvBlobFile& file : files) {
    garbage_bytes += file.file_bytes - std::min(file.file_bytes, file.live_bytes);
  }
  if (garbage_bytes < options_.capacity_bytes / 100) return 0;
  size_t num_files = 0;
  uint64_t freed_bytes = 0;
  live_bytes = 0;
  for (const KvBlobFile& file : files) {
    if (num_files > 0 && live_bytes + file.live_bytes > marks_.step_max) break;
    live_bytes += file.live_bytes;
    freed_bytes += file.file_bytes - std::min(file.file_bytes, file.live_bytes);
    ++num_files;
    if (freed_bytes >= bytes_to_free) break;
  }
  return num_files;
}

uint64_t RocksKvStore::MeasureUsedBytes() {
  const std::shared_lock lock(database_mutex_);
  if (database_ == nullptr) return 0;
  const uint64_t used = database_->DiskBytes() + database_->MemtableBytes();
  used_bytes_estimate_ = used;
  return used;
}

}  // namespace kvgate::store
