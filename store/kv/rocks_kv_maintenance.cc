// The two threads of RocksKvStore: maintenance (timed flushes, recovery from errors) and the
// collector.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/log.h"
#include "base/memory_fence.h"
#include "store/file/rocks_common.h"
#include "store/file/rocks_file_system.h"
#include "store/kv/rocks_kv_store.h"

namespace kvgate::store::kv {
namespace {

using std::chrono::milliseconds;

constexpr std::string_view kSource = "store.kv";
// Last-use times alone are flushed rarely, because a crash may lose them.
constexpr std::chrono::seconds kTouchInterval{60};
constexpr int kRetryPauseGrowth = 16;

// Returns how many of the oldest blob files to collect: enough to free `bytes_to_free`, but copying
// at most step_max. Returns 0 if less than one percent of the cap is garbage.
size_t ChooseFiles(std::span<const KvBlobFile> files, const KvWatermarks& marks,
                   uint64_t bytes_to_free, uint64_t& live_bytes) {
  uint64_t garbage_bytes = 0;
  for (const KvBlobFile& file : files) {
    garbage_bytes += file.file_bytes - std::min(file.file_bytes, file.live_bytes);
  }
  if (garbage_bytes < marks.collect_start / 100) return 0;
  size_t num_files = 0;
  uint64_t freed_bytes = 0;
  live_bytes = 0;
  for (const KvBlobFile& file : files) {
    if (num_files > 0 && live_bytes + file.live_bytes > marks.step_max) break;
    live_bytes += file.live_bytes;
    freed_bytes += file.file_bytes - std::min(file.file_bytes, file.live_bytes);
    ++num_files;
    if (freed_bytes >= bytes_to_free) break;
  }
  return num_files;
}

}  // namespace

void RocksKvStore::Wake() {
  {
    const std::lock_guard lock(wake_mutex_);
    error_wakes_ = true;
  }
  wake_maintenance_.notify_all();
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
  wake_maintenance_.notify_all();
}

void RocksKvStore::SetError(const Error& error) {
  if (error.code == ErrorCode::kCancelled) return;
  {
    const std::lock_guard lock(index_mutex_);
    if (error_ && error_->code == ErrorCode::kDataLoss) return;  // the more serious error stays
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
    const std::lock_guard lock(wake_mutex_);  // a waiter is now either before its check or asleep
  }
  wake_maintenance_.notify_all();
  wake_collector_.notify_all();
  space_freed_.notify_all();
  if (maintenance_.joinable()) maintenance_.join();
  if (collector_.joinable()) collector_.join();
}

void RocksKvStore::RunMaintenance() {
  const auto first = Clock::now() + kTouchInterval;
  MaintenanceTimes times{.touches_due = first, .settled_at = first};
  while (!stopping_) {
    if (Attempt(kSource, "maintenance", [&] { TakeCare(times); })) continue;
    PauseAfterFailure(wake_maintenance_);
    MarkDirty();  // unfinished writes are flushed next time
  }
}

void RocksKvStore::PauseAfterFailure(std::condition_variable& wake) {
  std::unique_lock lock(wake_mutex_);
  wake.wait_for(lock, options_.retry_pause, [this] { return stopping_.load(); });
}

// Waits until there is something to do, then does it.
void RocksKvStore::TakeCare(MaintenanceTimes& times) {
  bool failing = false;
  {
    const std::lock_guard lock(index_mutex_);
    failing = error_.has_value();
  }
  bool flush = false;
  {
    std::unique_lock lock(wake_mutex_);
    auto due = times.touches_due;
    if (failing) {
      due = retry_at_;
    } else if (dirty_since_) {
      due = std::min(due, *dirty_since_ + options_.flush_interval);
    }
    if (!stopping_ && !error_wakes_ && Clock::now() < due) wake_maintenance_.wait_until(lock, due);
    error_wakes_ = false;
    const auto now = Clock::now();
    flush = !failing && ((dirty_since_ && now >= *dirty_since_ + options_.flush_interval) ||
                         now >= times.touches_due);
    if (failing && now < retry_at_) return;
  }
  if (stopping_) return;
  if (!times.settled && Clock::now() >= times.settled_at) {
    times.settled = true;
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
    times.touches_due = Clock::now() + kTouchInterval;
    if (const auto flushed = FlushNow(); !flushed) SetError(flushed.error());
    if (used_bytes_estimate_ > marks_.collect_start) WakeCollector();
  }
}

Result<void> RocksKvStore::ApplyPending(bool with_touches) {
  std::vector<KvKey> deletes;
  std::vector<KvIndexEntry> touched;
  {
    const std::lock_guard lock(index_mutex_);
    deletes = pending_deletes_;
    if (with_touches) touched = index_.TakeTouched();
  }
  if (deletes.empty() && touched.empty()) return {};
  auto written = WriteToDatabase({.deletes = deletes, .records = {}, .entries = touched});
  if (written) {
    const std::lock_guard lock(index_mutex_);
    ForgetDeletes(deletes.size());
  }
  return written;
}

void RocksKvStore::ForgetDeletes(size_t num_written) {
  const auto begin = pending_deletes_.begin();
  pending_deletes_.erase(begin, begin + static_cast<std::ptrdiff_t>(num_written));
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
    // Writes from here on belong to the next flush.
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

// Called while an error is set, after the pause before the next attempt.
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
  } else if (file::IsDiskWell(*file::EnvUse(options_.env), options_.directory)) {
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

// Handles damage that stopped RocksDB. The first time, the database is reopened and every record is
// verified, so that only damaged ones are lost. If damage stops it again before space was freed
// even once, the database is set aside and replaced by a new one.
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
    error_.reset();  // it belonged to the old database
  }
  verify_wanted_ = true;
  WakeCollector();
  return {};
}

// Reopens the database after an error that RocksDB treats as final although the disk works again.
// Unflushed records are lost, as in a crash.
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
    if (Attempt(kSource, "freeing space", [this] { Collect(); })) continue;
    collecting_bytes_ = 0;
    PauseAfterFailure(wake_collector_);
    WakeCollector();
  }
}

// Waits until space is wanted, then frees some.
void RocksKvStore::Collect() {
  {
    std::unique_lock lock(wake_mutex_);
    wake_collector_.wait(lock, [&] { return stopping_ || collect_wanted_; });
    collect_wanted_ = false;
  }
  if (stopping_) return;
  if (verify_wanted_.exchange(false)) {
    const bool done = Attempt(kSource, "verifying", [this] {
      const auto report = Verify(nullptr);
      if (!report) KVGATE_LOG(kWarning, kSource, "verifying: {}", report.error().ToString());
    });
    if (!done) verify_wanted_ = true;
  }
  CollectUntilEnough();
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

// Does one bounded step. Returns false if there is no gain or the database fails.
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
    const size_t num_files =
        ChooseFiles(database_->BlobFiles(), marks_, used_bytes - marks_.collect_stop, live_bytes);
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

uint64_t RocksKvStore::MeasureUsedBytes() {
  const std::shared_lock lock(database_mutex_);
  if (database_ == nullptr) return 0;
  const uint64_t used = database_->DiskBytes() + database_->MemtableBytes();
  used_bytes_estimate_ = used;
  return used;
}

}  // namespace kvgate::store::kv
