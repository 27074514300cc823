// Maintenance is a server's background work, on a thread of its own: it loads pinned prefixes while
// the engine is idle, drops expired pins, and saves how much of the daily write budget is spent.
//
// Pinned prefixes are loaded by priority, one at a time: restored from disk, or computed if their
// KV is gone or has other numerics. A request that arrives meanwhile does not wait: the load is
// cancelled and continues later from where it stopped.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <set>
#include <thread>
#include <vector>

#include "engine/engine.h"
#include "engine/tier/write_admission.h"
#include "gateway/local/prefill_sink.h"
#include "gateway/local/prefix_service.h"
#include "store/meta/meta_store.h"

namespace kvgate::local {

class Maintenance {
 public:
  // All references must outlive it.
  struct Parts {
    engine::Engine& engine;
    PrefixService& prefixes;
    store::meta::MetaStore* meta = nullptr;           // null: the write budget is not saved
    tier::WriteAdmission* write_admission = nullptr;  // null: there is no write budget
    std::chrono::milliseconds poll{20};        // of the engine, while a prefix waits or loads
    std::chrono::milliseconds period{10'000};  // of all other work
  };
  explicit Maintenance(Parts parts);
  // Cancels the load under way and joins.
  ~Maintenance();
  Maintenance(const Maintenance&) = delete;
  Maintenance& operator=(const Maintenance&) = delete;

  // Loads a pinned prefix as soon as the engine is idle. From any thread; does not wait.
  void BringInSoon(const BlockHash& id);

  // Counts pinned prefixes that are in memory, are of another model, or do not fit.
  size_t num_done() const { return num_done_.load(); }

 private:
  void Run();
  void BringInAll();
  void BringInQueued();
  void DropExpiredPins();
  void BringIn(const store::meta::Pin& pin);
  std::optional<engine::FinishEvent> Prefill(const store::meta::Pin& pin);
  bool IsOfThisModel(const store::meta::Pin& pin) const;
  bool FitsMemory(const store::meta::Pin& pin, const store::kv::KvKey& leaf);
  void FollowKey(const store::meta::Pin& pin, const store::kv::KvKey& leaf);
  void SaveBudget();
  // Waits for the next period, or a prefix to bring in. This and Sleep return false when the
  // maintenance is stopping.
  bool WaitForWork();
  bool Sleep(std::chrono::milliseconds time);

  const Parts parts_;
  uint64_t num_blocks_ = 0;      // loaded so far
  std::set<BlockHash> counted_;  // the leaves of those prefixes
  tier::WriteAdmissionState saved_;
  std::atomic<size_t> num_done_{0};
  std::mutex mutex_;
  std::condition_variable wake_;
  bool stopping_ = false;
  std::vector<BlockHash> queue_;  // pinned prefixes to bring in, at most kPinsMax
  std::thread thread_;            // declared last, so that it starts when all other members exist
};

// Restores the budget's state from the process before this one; leaves it as it is if none is
// saved.
void RestoreWriteBudget(store::meta::MetaStore& meta, tier::WriteAdmission& admission);
void SaveWriteBudget(store::meta::MetaStore& meta, const tier::WriteAdmissionState& state);

}  // namespace kvgate::local
