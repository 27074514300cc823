// Upkeep: what a server does by itself, on a thread of its own: brings pinned prefixes in while the
// engine is idle, drops pins that have expired, remembers what has been written of the daily
// budget.
//
// Pinned prefixes come in by priority, one at a time: restored from disk, or computed where their
// KV is gone or of other numerics. A request that comes meanwhile is not kept waiting: the prefix
// is given up and taken up again later, from where it was.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <thread>

#include "engine/engine.h"
#include "engine/tier/write_admission.h"
#include "gateway/service/prefill_sink.h"
#include "gateway/local/prefix_service.h"
#include "store/meta/meta_store.h"

namespace kvgate::service {

class Upkeep {
 public:
  // All of them outlive it.
  struct Parts {
    engine::Engine& engine;
    PrefixService& prefixes;
    store::MetaStore* meta = nullptr;                 // null: nothing is remembered
    tier::WriteAdmission* write_admission = nullptr;  // null: there is no budget
    std::chrono::milliseconds poll{20};               // of the engine, while a prefix waits or runs
    std::chrono::milliseconds period{10'000};         // of everything else
  };
  explicit Upkeep(Parts parts);
  // Gives up what is under way, and joins.
  ~Upkeep();
  Upkeep(const Upkeep&) = delete;
  Upkeep& operator=(const Upkeep&) = delete;

  // Pinned prefixes that are in memory, or were found not to be of this model or not to fit.
  size_t num_done() const { return num_done_.load(); }

 private:
  void Run();
  void BringIn(const store::Pin& pin);
  std::optional<engine::FinishEvent> Prefill(const store::Pin& pin);
  bool IsOfThisModel(const store::Pin& pin) const;
  bool FitsMemory(const store::Pin& pin, const store::KvKey& leaf);
  void FollowKey(const store::Pin& pin, const store::KvKey& leaf);
  void SaveBudget();
  // False: the upkeep ends.
  bool Sleep(std::chrono::milliseconds time);

  const Parts parts_;
  uint64_t num_blocks_ = 0;  // brought in so far
  tier::WriteAdmissionState saved_;
  std::atomic<size_t> num_done_{0};
  std::mutex mutex_;
  std::condition_variable wake_;
  bool stopping_ = false;
  std::thread thread_;  // last: starts when the rest is there
};

// The budget's state of the process before this one; without one it is left as it is.
void RestoreWriteBudget(store::MetaStore& meta, tier::WriteAdmission& admission);
void SaveWriteBudget(store::MetaStore& meta, const tier::WriteAdmissionState& state);

}  // namespace kvgate::service
