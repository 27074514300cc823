// RocksKvStore: the KvStore on top of KvDatabase and KvIndex. It holds the policy: what is
// admitted, evicted, flushed and collected, and what happens when the disk fails or returns wrong
// data.
//
// Threads: any number of callers, an maintenance thread that flushes on time and recovers from
// errors, and a collector thread that frees space. Locks, in this order: write_mutex_ (one writer
// of the database), database_mutex_ (shared by users, exclusive to replace the database),
// index_mutex_ (short, never held across I/O), wake_mutex_. Get does not take write_mutex_ and does
// not wait.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <shared_mutex>
#include <span>
#include <thread>
#include <vector>

#include "base/result.h"
#include "store/kv/kv_index.h"
#include "store/kv/kv_store.h"
#include "store/kv/rocks_kv_database.h"

namespace rocksdb {
class Env;
}

namespace kvgate::store::kv {

struct KvStoreOptions {
  std::filesystem::path directory;  // of the database itself: DATA/kv
  uint64_t capacity_bytes = 0;      // at least kKvCapacityBytesMin
  std::chrono::milliseconds flush_interval{1000};
  std::chrono::milliseconds admit_timeout{10'000};  // how long Put waits for space to be freed
  // Pause before the first attempt to write after an error; it doubles with each attempt, up to 16
  // times this value.
  std::chrono::milliseconds retry_pause{250};
  bool read_only = false;
  rocksdb::Env* env = nullptr;  // null means the shared one of EnvUse
  // Called once, when the store has been open for a minute.
  std::function<void()> on_settled = [] {};
};

inline constexpr uint64_t kKvCapacityBytesMin = uint64_t{16} << 20;

// Disk use at which something happens. Live records stay below live_max (88 %). The room up to
// collect_start (100 %) holds garbage, so that collecting moves little data. Above collect_start
// the collector works until collect_stop (95 %) is reached. Above admit_max (107 %) Put waits. One
// collection step moves at most step_max (5 %), or one file, beside the tables that it rewrites.
// The total stays below 115 % of the cap.
struct KvWatermarks {
  uint64_t live_max = 0;
  uint64_t collect_start = 0;
  uint64_t collect_stop = 0;
  uint64_t admit_max = 0;
  uint64_t step_max = 0;
  static KvWatermarks For(uint64_t capacity_bytes) {
    const uint64_t percent = capacity_bytes / 100;
    return {.live_max = 88 * percent,
            .collect_start = 100 * percent,
            .collect_stop = 95 * percent,
            .admit_max = 107 * percent,
            .step_max = 5 * percent};
  }
};

class RocksKvStore final : public KvStore {
 public:
  // If the disk refuses, it opens without a database: Stats().error says why, and opening is
  // retried until it succeeds. With read_only, the error is returned instead.
  static Result<std::unique_ptr<RocksKvStore>> Open(const KvStoreOptions& options);
  ~RocksKvStore() override;

  bool Contains(const KvKey& key) const override;
  Result<void> Put(std::span<const KvRecord> records) override;
  Result<void> Get(const KvLookup& lookup) override;
  void Touch(std::span<const KvKey> keys) override;
  void CountHits(std::span<const KvKey> keys, const KvUse& use) override;
  Result<void> Flush() override;
  KvStoreStats Stats() const override;
  std::vector<KvPrefix> ListPrefixes() const override;
  Result<std::vector<KvKey>> Chain(const BlockHash& last) const override;
  Result<std::vector<KvKey>> Chain(const KvKey& last) const override;
  std::vector<KvKey> WindowKeys(const KvKey& key) const override;
  Result<KvBlock> Read(const KvKey& key) override;
  Result<uint64_t> RemovePrefix(const BlockHash& leaf) override;
  Result<uint64_t> RemoveAll() override;
  Result<void> Pin(const KvKey& key, int64_t expires_unix) override;
  void Unpin(const KvKey& key) override;
  Result<KvVerifyReport> Verify(std::function<void(uint64_t, uint64_t)> progress) override;

  // Aborts if the index is inconsistent. For tests.
  void CheckIntegrity() const;

 private:
  using Clock = std::chrono::steady_clock;
  struct PutCall;

  explicit RocksKvStore(const KvStoreOptions& options);

  // The functions that callers ask for, in rocks_kv_store.cc.
  Result<void> OpenDatabase();
  Result<void> LoadIndex();
  void PlaceRecord(const KvRecord& record, PutCall& call);
  Result<void> WriteChunk(PutCall& call);
  void RollBack(const PutCall& call);
  using UseRecord = std::function<void(const ProvedRecord&)>;
  Result<void> ReadAndProve(const KvIndexEntry& entry, const UseRecord& use) const;
  Error CountMiss(const KvIndexEntry& entry, uint64_t generation, Error why);
  uint64_t Drop(const KvKey& key, uint64_t generation, const Error& why);
  void EvictFor(uint64_t bytes);
  Result<void> WaitForSpace(uint64_t bytes);
  Result<void> WriteToDatabase(const KvChange& change);
  Result<void> CheckWritable() const;

  // Defined in rocks_kv_pins.cc. All REQUIRE index_mutex_ held.
  bool HasPinRoomFor(const KvIndexEntry& entry) const;
  bool TryPin(KvIndex::Node& node);
  void PinAgain();
  void ExpirePins();
  Result<void> CheckNoPins(std::span<KvIndex::Node* const> nodes) const;

  // Background work, in rocks_kv_maintenance.cc.
  struct MaintenanceTimes {
    Clock::time_point touches_due;
    Clock::time_point settled_at;
    bool settled = false;
  };
  void RunMaintenance();
  void TakeCare(MaintenanceTimes& times);
  void RunCollector();
  void Collect();
  void PauseAfterFailure(std::condition_variable& wake);
  void StopThreads();
  Result<void> ApplyPending(bool with_touches);  // REQUIRES: write_mutex_ held
  // Forgets the first `num_written` pending deletes, which the database has applied; later ones
  // stay. REQUIRES: write_mutex_ and index_mutex_ held.
  void ForgetDeletes(size_t num_written);
  Result<void> FlushNow();
  void Recover();
  Result<void> HealDamage();
  Result<void> Reopen();
  void CollectUntilEnough();
  bool CollectStep(uint64_t used_bytes);
  uint64_t MeasureUsedBytes();
  void SetError(const Error& error);
  void MarkDirty();
  void Wake();
  void WakeCollector();

  const KvStoreOptions options_;
  const KvWatermarks marks_;

  std::mutex write_mutex_;
  mutable std::shared_mutex database_mutex_;
  std::unique_ptr<KvDatabase> database_;  // null only while it cannot be opened or replaced

  mutable std::mutex index_mutex_;
  KvIndex index_;
  std::map<KvKey, int64_t> pins_;       // wanted until that time (0 means forever), stored or not
  std::vector<KvKey> pending_deletes_;  // removed from the index, not yet from the database
  KvStoreStats counters_;               // the num_ fields only
  uint64_t num_flushed_ = 0;            // part of counters_.num_writes that a crash cannot lose
  std::optional<Error> error_;          // why writing is disabled
  uint64_t num_damaged_at_open_ = 0;    // until the next Verify reports them
  uint64_t num_orphans_at_open_ = 0;

  // Upper bound of disk and memtable bytes since the last measurement.
  std::atomic<uint64_t> used_bytes_estimate_{0};
  std::atomic<uint64_t> collecting_bytes_{0};  // bytes that a running step may copy
  std::atomic<bool> put_waits_{false};
  std::atomic<bool> verify_wanted_{false};
  int damage_strikes_ = 0;  // used by the maintenance thread; the collector resets it by collected_
  std::atomic<bool> collected_{false};

  mutable std::mutex wake_mutex_;
  std::condition_variable wake_maintenance_;
  std::condition_variable wake_collector_;
  std::condition_variable space_freed_;
  std::optional<Clock::time_point> dirty_since_;
  Clock::time_point retry_at_{};
  std::chrono::milliseconds retry_pause_ = options_.retry_pause;
  bool error_wakes_ = false;
  bool collect_wanted_ = false;
  std::atomic<bool> stopping_{false};
  std::thread maintenance_;
  std::thread collector_;
};

}  // namespace kvgate::store::kv
