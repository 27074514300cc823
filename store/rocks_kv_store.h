// RocksKvStore: the KvStore over KvDatabase and KvIndex. Policy lives here: what is admitted,
// evicted, flushed, collected, and what happens when the disk refuses or lies.
//
// Threads: any number of callers; one thread that flushes on time and recovers from errors
// (upkeep), one that frees space (collector). Locks, in this order: write_mutex_ (one writer of
// the database), database_mutex_ (shared by users, exclusive to replace the database),
// index_mutex_ (short, never across I/O), wake_mutex_. Get takes neither the first nor waits.
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

#include <kvgate/result.h>

#include "store/kv_index.h"
#include "store/kv/kv_store.h"
#include "store/rocks_kv_database.h"

namespace rocksdb {
class Env;
}

namespace kvgate::store {

struct KvStoreOptions {
  std::filesystem::path directory;  // of the database itself: DATA/kv
  uint64_t capacity_bytes = 0;      // at least kKvCapacityBytesMin
  std::chrono::milliseconds flush_interval{1000};
  std::chrono::milliseconds admit_timeout{10'000};  // how long Put waits for space to be freed
  // Before the first new attempt to write after an error; twice that before the next, up to 16
  // times that.
  std::chrono::milliseconds retry_pause{250};
  bool read_only = false;
  rocksdb::Env* env = nullptr;  // null: PrivateEnv()
  // Called once, when the store has been open for a minute.
  std::function<void()> on_settled = [] {};
};

inline constexpr uint64_t kKvCapacityBytesMin = uint64_t{16} << 20;

// How the cap is kept, in 1/100 of it. Live records stay under the first; between it and the
// second there is room for garbage, so that collecting moves little; above the second the
// collector works until the third; above the fourth Put waits. A collection step moves at most
// the fifth at once. All of it together stays under 115.
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
            .admit_max = 109 * percent,
            .step_max = 5 * percent};
  }
};

class RocksKvStore final : public KvStore {
 public:
  // Where the disk refuses, it opens without a database: Stats().error says why, and it is tried
  // again until it opens. Not when read_only.
  static Result<std::unique_ptr<RocksKvStore>> Open(const KvStoreOptions& options);
  ~RocksKvStore() override;

  bool Contains(const KvKey& key) const override;
  Result<void> Put(std::span<const KvRecord> records) override;
  Result<void> Get(const KvLookup& lookup) override;
  void Touch(std::span<const KvKey> keys) override;
  Result<void> Flush() override;
  KvStoreStats Stats() const override;
  std::vector<KvPrefix> ListPrefixes() const override;
  Result<std::vector<KvKey>> Chain(const BlockHash& last) const override;
  std::vector<KvKey> WindowKeys(const KvKey& key) const override;
  Result<KvBlock> Read(const KvKey& key) override;
  Result<uint64_t> RemovePrefix(const BlockHash& leaf) override;
  Result<uint64_t> RemoveAll() override;
  Result<void> Pin(const KvKey& key, int64_t expires_unix) override;
  void Unpin(const KvKey& key) override;
  Result<KvVerifyReport> Verify(std::function<void(uint64_t, uint64_t)> progress) override;

  // Aborts when the index is inconsistent. For tests.
  void CheckIntegrity() const;

 private:
  using Clock = std::chrono::steady_clock;
  struct PutCall;

  explicit RocksKvStore(const KvStoreOptions& options);

  // rocks_kv_store.cc: what callers ask for.
  Result<void> OpenDatabase();
  Result<void> LoadIndex();
  Result<void> CheckPut(std::span<const KvRecord> records) const;
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

  // rocks_kv_pins.cc. All REQUIRE index_mutex_ held.
  bool HasPinRoomFor(const KvIndexEntry& entry) const;
  bool TryPin(KvIndex::Node& node);
  void PinAgain();
  void ExpirePins();
  Result<void> CheckNoPins(std::span<KvIndex::Node* const> nodes) const;

  // rocks_kv_upkeep.cc: what happens by itself.
  void RunUpkeep();
  void RunCollector();
  void StopThreads();
  Result<void> ApplyPending(bool with_touches);  // REQUIRES: write_mutex_ held
  Result<void> FlushNow();
  void Recover();
  Result<void> HealDamage();
  Result<void> Reopen();
  void CollectUntilEnough();
  bool CollectStep(uint64_t used_bytes);
  size_t ChooseFiles(uint64_t bytes_to_free, uint64_t& live_bytes) const;
  uint64_t MeasureUsedBytes();
  void SetError(const Error& error);
  void MarkDirty();
  void Wake();
  void WakeCollector();

  const KvStoreOptions options_;
  const KvWatermarks marks_;

  std::mutex write_mutex_;
  mutable std::shared_mutex database_mutex_;
  std::unique_ptr<KvDatabase> database_;  // null only while a damaged one could not be replaced

  mutable std::mutex index_mutex_;
  KvIndex index_;
  std::map<KvKey, int64_t> pins_;       // wanted until then (0: always), stored or not
  std::vector<KvKey> pending_deletes_;  // gone from the index, not yet from the database
  KvStoreStats counters_;               // the num_ fields only
  uint64_t num_flushed_ = 0;            // of counters_.num_writes: those a crash cannot lose
  std::optional<Error> error_;          // why writing is off
  uint64_t num_damaged_at_open_ = 0;    // until the next Verify reports them
  uint64_t num_orphans_at_open_ = 0;

  // Upper bound of disk and memtable bytes since the last measurement.
  std::atomic<uint64_t> used_bytes_estimate_{0};
  std::atomic<uint64_t> collecting_bytes_{0};  // copies that a running step may make
  std::atomic<bool> put_waits_{false};
  std::atomic<bool> verify_wanted_{false};
  int damage_strikes_ = 0;  // upkeep thread; reset by the collector through collected_
  std::atomic<bool> collected_{false};

  mutable std::mutex wake_mutex_;
  std::condition_variable wake_upkeep_;
  std::condition_variable wake_collector_;
  std::condition_variable space_freed_;
  std::optional<Clock::time_point> dirty_since_;
  Clock::time_point retry_at_{};
  std::chrono::milliseconds retry_pause_ = options_.retry_pause;
  bool error_wakes_ = false;
  bool collect_wanted_ = false;
  std::atomic<bool> stopping_{false};
  std::thread upkeep_;
  std::thread collector_;
};

}  // namespace kvgate::store
