// StoreTier: moves KV blocks between the block pool's memory and a store, off the engine thread:
// the data directory's, or one that gateways share.
//
// The caller keeps every block of a job referenced until the job's completion arrives, because the
// tier's workers read and write their memory. Completions are delivered on a worker's thread.
// Writing is bounded in bytes: a write that does not fit is refused, not queued, so that serving
// never waits for a slow disk. A load can be given up: its caller goes on without it and releases
// the blocks when the completion comes. The speed of loads is measured as they run, so that the
// caller can predict if one is worth it. All functions may be called from any thread.
//
// A driven tier has no threads: its owner takes the tasks, performs them and ends each one. The
// tier's own threads otherwise do just that, one task after the other.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <thread>
#include <unordered_map>
#include <vector>

#include "base/clock.h"
#include "base/ids.h"
#include "engine/kv/block_hasher.h"
#include "engine/tier/moved_kv.h"
#include "kernels/backend.h"
#include "store/kv/block_store.h"

namespace kvgate::tier {

using Clock = SteadyClock;

struct LoadItem {
  kv::BlockKey key;
  BlockId block;                    // destination
  uint32_t group = kv::kFullGroup;  // selects the arena
};

struct WriteItem {
  kv::BlockKey key;
  BlockHash parent;  // zero for the first block of a prefix; a window block's own hash
  uint32_t depth = 0;
  BlockId block;
  std::vector<TokenId> tokens = {};  // the block's tokens, stored with the full group only
  uint32_t group = kv::kFullGroup;
};

// Which of an engine's stores; the tickets of their loads differ.
enum class StoreName : uint8_t { kDisk, kShared };

struct Completion {
  enum class Kind : uint8_t { kLoad, kWrite } kind = Kind::kLoad;
  StoreName store = StoreName::kDisk;
  uint64_t ticket = 0;
  // kLoad: the number of leading items that are verified and in place. kWrite: the number of items
  // that the store took.
  uint32_t num_ok = 0;
};

// The memory of a KV group, as far as its records are concerned.
struct GroupArena {
  kernels::KvArena* arena = nullptr;
  uint32_t shape_tag = 0;
};

class StoreTier {
 public:
  struct Options {
    StoreName store = StoreName::kDisk;
    Fingerprint fingerprint;
    std::vector<GroupArena> groups;                  // by index of the KV group
    uint64_t write_bytes_max = uint64_t{256} << 20;  // queued or being written
    int load_threads = 2;
    bool is_driven = false;  // no threads: the caller uses TakeRead, TakeWrite, Perform and End
    std::function<void(Completion)> on_completion;
  };

  // Backend, arenas and store must outlive the tier.
  StoreTier(Options options, store::kv::BlockStore& store, kernels::Backend& backend);
  // Finishes the queued jobs, delivers their completions, and joins the threads.
  ~StoreTier();

  StoreName store() const { return options_.store; }
  // Says if the store has the record as far as it knows, without I/O or verification.
  bool Contains(const kv::BlockKey& key, uint32_t group = kv::kFullGroup) const;
  void Touch(std::span<const kv::BlockKey> keys, uint32_t group = kv::kFullGroup);
  // Counts a request that read num_tokens tokens of the prefix with these keys, wherever they were,
  // and whose computation would have taken `seconds`. Never throws.
  void CountHit(std::span<const kv::BlockKey> keys, int num_tokens, double seconds);

  // Starts loading and returns the ticket that names the load. Exactly one completion follows,
  // unless GiveUp says otherwise. Throws std::bad_alloc without starting a load. REQUIRES: items
  // not empty.
  uint64_t Load(std::vector<LoadItem> items);
  // Returns how many leading items are in place so far.
  uint32_t NumLoaded(uint64_t ticket) const;
  struct GivenUp {
    uint32_t num_ok = 0;     // leading items that are in place and stay so
    uint32_t num_begun = 0;  // items [num_ok, num_begun) may still be written to
    bool completes = false;  // true if a completion will still arrive
  };
  // Stops the load: no further item is begun.
  GivenUp GiveUp(uint64_t ticket);
  // Reads records and drops them, to measure the disk: the first one gives the latency, the others
  // the bandwidth. Reads at most kProbeRecordsMax, and none while a load is in flight.
  void Probe(std::span<const kv::BlockKey> keys);
  static constexpr size_t kProbeRecordsMax = 8;
  // Returns false if the queue has no room for all of them. If it returns false or throws
  // std::bad_alloc, no completion follows.
  [[nodiscard]] bool Write(uint64_t ticket, std::vector<WriteItem> items);

  size_t block_bytes(uint32_t group) const { return ArenaOf(group).block_bytes(); }
  uint64_t write_bytes_queued() const;
  // Bytes of load items that were not begun yet.
  uint64_t load_bytes_queued() const;
  struct LoadSpeed {
    double bytes_per_second = 0;  // of all loaders together; 0 until measured
    // Time until the first record of a load arrives after a pause, which includes opening files and
    // waking threads. It occurs once per burst, so it is kept out of the bandwidth.
    double latency_seconds = 0;
    // The speed is based on one record only: a lower bound, or an upper one if the disk hangs.
    bool is_guess = false;
    std::chrono::steady_clock::time_point measured_at;
  };
  LoadSpeed load_speed() const;
  MovedKv moved() const;
  // Waits until no job is queued or running, then flushes the store. REQUIRES: it is not driven.
  Result<void> Flush();

 private:
  struct LoadJob;

 public:
  // A unit of work: one record to read, or one job's records to write.
  struct Task {
    std::shared_ptr<LoadJob> job;  // of a load; null for a probe or a write
    size_t index = 0;              // of the item to read
    kv::BlockKey probe;            // the record to read if there is neither a job nor a write
    uint64_t ticket = 0;           // of a write
    std::vector<WriteItem> to_write;
    uint32_t num_ok = 0;      // records read or written successfully
    bool is_counted = false;  // the read counts for the bandwidth
    uint64_t time_us = 0;     // that Perform took
  };
  class Staging;
  // Returns the next task, or nullopt if there is none.
  std::optional<Task> TakeRead();
  std::optional<Task> TakeWrite();
  // Performs the I/O; staging may be null if the arena is host memory.
  void Perform(Task& task, Staging* staging);
  // Accounts for the task, and delivers the completion if the job is done.
  void End(Task& task);

 private:
  struct WriteJob {
    uint64_t ticket = 0;
    std::vector<WriteItem> items;
  };

  void StopThreads();
  void RunLoader();
  void RunWriter();
  void Complete(const Completion& completion);
  std::optional<Task> NextRead();   // REQUIRES: mutex_ held
  std::optional<Task> NextWrite();  // likewise
  bool EndRead(Task& task);         // returns true if the job is done
  bool EndWrite(Task& task);
  bool LoadOne(const LoadItem& item, Staging* staging);
  bool ReadRecord(const kv::BlockKey& key, uint32_t group, std::span<std::byte> payload);
  kernels::KvArena& ArenaOf(uint32_t group) const { return *options_.groups[group].arena; }
  size_t block_bytes_max() const;  // the largest of all groups
  // `items` are load or write items.
  template <typename Items>
  uint64_t BytesOf(const Items& items) const;
  // The functions below REQUIRE that mutex_ is held, except the last three.
  void MeasureOn(const LoadJob& job);
  void AddProbe(const kv::BlockKey& key);
  bool BeginLoading();
  void EndLoading(uint64_t bytes, bool is_counted);  // 0 bytes if the read failed
  void EndFirstRead(uint64_t bytes);
  void CountBusyTime();
  bool FinishIfDone(const std::shared_ptr<LoadJob>& job);
  void WriteAll(Task& task, Staging* staging);
  uint32_t WriteBatch(std::span<const WriteItem> items, Staging* staging);
  // Returns the block's memory, or a copy of it in `staging` if the arena is not host memory.
  std::span<const std::byte> Fetch(const WriteItem& item, std::span<std::byte> staging) const;

  Options options_;
  store::kv::BlockStore& store_;
  kernels::Backend& backend_;

  mutable std::mutex mutex_;
  std::condition_variable load_ready_;
  std::condition_variable write_ready_;
  std::condition_variable idle_;
  std::deque<std::shared_ptr<LoadJob>> loads_;                   // with items that are not begun
  std::unordered_map<uint64_t, std::shared_ptr<LoadJob>> jobs_;  // loads without a completion yet
  std::deque<kv::BlockKey> probes_;
  uint64_t last_ticket_;
  int num_loading_ = 0;  // loaders inside a read
  // Basis of the speed: time in which some loader was reading, and the bytes it read.
  double measured_seconds_ = 0;
  double measured_bytes_ = 0;
  Clock::time_point counted_until_;
  Clock::time_point burst_began_;  // first read after a pause
  bool awaits_first_ = false;      // no record of the burst has arrived yet
  int num_counted_ = 0;  // reads in flight that began after the burst's first record arrived
  LoadSpeed load_speed_;
  std::deque<WriteJob> writes_;
  uint64_t write_bytes_queued_ = 0;
  MovedKv moved_;
  int num_jobs_ = 0;  // queued or running, of either kind
  bool stopping_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace kvgate::tier
