// DiskTier: moves KV blocks between the block pool's memory and the store, off the engine thread.
//
// The caller keeps every block of a job referenced until the job's completion arrives: the tier
// reads and writes their memory from its workers. Completions are delivered on a worker's thread.
// Writing is bounded in bytes: what does not fit is refused, not queued, so that serving never
// waits for a slow disk. A load can be given up: its caller goes on without it and lets go of the
// blocks when the completion comes. The speed of loads is measured as they run, so that the caller
// can tell beforehand whether one pays. All functions may be called from any thread.
//
// A tier that is driven has no threads: whoever made it takes its tasks, and says when each of them
// is done. The tier's own threads do just that, one task after the other.
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

#include <kvgate/ids.h>

#include "engine/kv/block_hasher.h"
#include "base/clock.h"
#include "kernels/backend.h"
#include "store/kv/kv_store.h"

namespace kvgate::tier {

struct LoadItem {
  kv::BlockKey key;
  BlockId block;       // where the bytes go
  uint32_t group = 0;  // in whose arena
};

struct WriteItem {
  kv::BlockKey key;
  BlockHash parent;  // zero for the first block of a prefix; of a window's block the key's own hash
  uint32_t depth = 0;
  BlockId block;
  std::vector<TokenId> tokens = {};  // of the block; kept with it, in group 0
  uint32_t group = 0;
};

struct Completion {
  enum class Kind : uint8_t { kLoad, kWrite } kind = Kind::kLoad;
  uint64_t ticket = 0;
  // kLoad: how many items from the first on are proved and in place. kWrite: how many were taken
  // by the store.
  uint32_t num_ok = 0;
};

// Of a KV group beside group 0.
struct WindowArena {
  kernels::KvArena* arena = nullptr;
  uint32_t shape_tag = 0;
};

class DiskTier {
 public:
  struct Options {
    Fingerprint fingerprint;
    uint32_t shape_tag = 0;
    std::vector<WindowArena> windows = {};           // of groups 1, 2, ...
    uint64_t write_bytes_max = uint64_t{256} << 20;  // queued or being written
    int load_threads = 2;
    bool is_driven = false;  // no threads: TakeRead, TakeWrite, Perform and End are the caller's
    std::function<void(Completion)> on_completion;
  };

  // Backend, arena (of group 0) and store must outlive the tier.
  DiskTier(Options options, store::KvStore& store, kernels::Backend& backend,
           kernels::KvArena& arena);
  // Finishes what is queued, delivers its completions, and joins.
  ~DiskTier();

  // From the store's index: no I/O, no proof.
  bool Contains(const kv::BlockKey& key, uint32_t group = 0) const;
  void Touch(std::span<const kv::BlockKey> keys, uint32_t group = 0);

  // Starts loading; the ticket names the load from now on. Exactly one completion follows, unless
  // GiveUp says otherwise. std::bad_alloc: there is no load. REQUIRES: items not empty.
  uint64_t Load(std::vector<LoadItem> items);
  // How many items from the first on are in place so far.
  uint32_t NumLoaded(uint64_t ticket) const;
  struct GivenUp {
    uint32_t num_ok = 0;     // from the first on: in place, and stay so
    uint32_t num_begun = 0;  // items [num_ok, num_begun) may still be written to
    bool completes = false;  // until the completion arrives; false: none will
  };
  // No further item is begun.
  GivenUp GiveUp(uint64_t ticket);
  // Reads records and drops them, only to measure: one says how long the first takes, the others
  // how quickly more follow. At most kProbeRecordsMax; nothing when a load is under way.
  void Probe(std::span<const kv::BlockKey> keys);
  static constexpr size_t kProbeRecordsMax = 8;
  // False, and no completion, when the queue has no room for all of them; nor with std::bad_alloc.
  [[nodiscard]] bool Write(uint64_t ticket, std::vector<WriteItem> items);

  size_t block_bytes(uint32_t group) const { return ArenaOf(group).block_bytes(); }
  uint64_t write_bytes_queued() const;
  // Of loads not begun yet.
  uint64_t load_bytes_queued() const;
  struct LoadSpeed {
    double bytes_per_second = 0;  // of all loaders together; 0: not measured yet
    // Until the first record of a load is there, after a pause: files are opened, and threads
    // woken. It comes once, so no bandwidth is taken from it.
    double latency_seconds = 0;
    bool is_guess = false;  // there was no second record yet: it is at least that, or hangs
    std::chrono::steady_clock::time_point measured_at;
  };
  LoadSpeed load_speed() const;
  uint64_t num_blocks_written() const;
  // Waits until no job is queued or running, then flushes the store. REQUIRES: it is not driven.
  Result<void> Flush();

 private:
  struct LoadJob;

 public:
  // A piece of work: a record to read, or a job's records to write.
  struct Task {
    std::shared_ptr<LoadJob> job;  // of a load
    size_t index = 0;              // of the item to read
    kv::BlockKey probe;            // without a job, and nothing to write
    uint64_t ticket = 0;           // of a write
    std::vector<WriteItem> to_write;
    uint32_t num_ok = 0;      // records that came through
    bool is_counted = false;  // of a read: it says something of the bandwidth
  };
  class Staging;
  // The next one, if there is any.
  std::optional<Task> TakeRead();
  std::optional<Task> TakeWrite();
  // Does the I/O; null: the arena is host memory.
  void Perform(Task& task, Staging* staging);
  // Counts it, and delivers the completion that is due.
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
  bool EndRead(Task& task);         // whether its job is done
  bool EndWrite(Task& task);
  bool LoadOne(const LoadItem& item, Staging* staging);
  bool ReadRecord(const kv::BlockKey& key, uint32_t group, std::span<std::byte> payload);
  store::KvKey KeyOf(const kv::BlockKey& key, uint32_t group) const;
  kernels::KvArena& ArenaOf(uint32_t group) const {
    return group == 0 ? arena_ : *options_.windows[group - 1].arena;
  }
  uint32_t ShapeTagOf(uint32_t group) const {
    return group == 0 ? options_.shape_tag : options_.windows[group - 1].shape_tag;
  }
  size_t block_bytes_max() const;  // of any group
  // Of load or write items.
  template <typename Items>
  uint64_t BytesOf(const Items& items) const;
  // The rest REQUIRES mutex_ held.
  void MeasureOn(const LoadJob& job);
  void AddProbe(const kv::BlockKey& key);
  bool BeginLoading();
  void EndLoading(uint64_t bytes, bool is_counted);  // 0 bytes: it failed
  void EndFirstRead(uint64_t bytes);
  void CountBusyTime();
  bool FinishIfDone(const std::shared_ptr<LoadJob>& job);
  void WriteAll(Task& task, Staging* staging);
  uint32_t WriteBatch(std::span<const WriteItem> items, Staging* staging);
  // The staging's part where the arena is not host memory.
  std::span<const std::byte> Fetch(const WriteItem& item, std::span<std::byte> staging) const;

  Options options_;
  store::KvStore& store_;
  kernels::Backend& backend_;
  kernels::KvArena& arena_;

  mutable std::mutex mutex_;
  std::condition_variable load_ready_;
  std::condition_variable write_ready_;
  std::condition_variable idle_;
  std::deque<std::shared_ptr<LoadJob>> loads_;                   // with items not begun
  std::unordered_map<uint64_t, std::shared_ptr<LoadJob>> jobs_;  // loads without a completion yet
  std::deque<kv::BlockKey> probes_;
  uint64_t last_ticket_ = 0;
  int num_loading_ = 0;  // loaders inside a read
  // What the speed is taken over: time in which a loader read, and what came of it.
  double measured_seconds_ = 0;
  double measured_bytes_ = 0;
  Clock::time_point counted_until_;
  Clock::time_point burst_began_;  // the first read after a pause
  bool awaits_first_ = false;      // no record of the burst has come yet
  int num_counted_ = 0;            // reads under way that began after the first record came
  LoadSpeed load_speed_;
  std::deque<WriteJob> writes_;
  uint64_t write_bytes_queued_ = 0;
  uint64_t num_blocks_written_ = 0;
  int num_jobs_ = 0;  // queued or running, of either kind
  bool stopping_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace kvgate::tier
