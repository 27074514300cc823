// ThreadPool: a fixed set of threads that run one parallel region at a time.
//
// A decode step consists of about 150 regions of a few microseconds each, so a worker that has
// finished spins for a while before it sleeps; an idle pool uses no CPU. Regions are issued by one
// thread at a time, which takes part as thread 0. If a busy machine keeps a worker from running,
// ForEach continues without it: the caller waits only for workers that have taken items. The pool
// decides only who computes what, never the order of sums, so results do not depend on it.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <thread>
#include <type_traits>
#include <vector>

namespace kvgate::kernels::cpu::machine {

class ThreadPool {
 public:
  // How long a worker spins for the next region, and the caller for the last worker.
  static constexpr std::chrono::microseconds kSpinDuration{60};

  // num_threads includes the calling thread; at least 1.
  explicit ThreadPool(int num_threads);
  // REQUIRES: no region is running.
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int num_threads() const { return static_cast<int>(workers_.size()) + 1; }

  // Calls body(thread) once on every thread, with thread in [0, num_threads()), and returns when
  // all calls have returned. Earlier writes of the caller are visible to them, and theirs to the
  // caller.
  template <typename Body>
  void Run(const Body& body) {
    RunJob({.call = [](const void* context,
                       int thread) { (*static_cast<const Body*>(context))(thread); },
            .context = &body},
           Attendance::kAll);
  }

  // Calls body(item, thread) for every item in [0, num_items). Threads take items in ascending
  // order as they become free, which balances uneven items and busy cores. Runs on the calling
  // thread if there is only one item or one thread.
  template <typename Body>
  void ForEach(int64_t num_items, const Body& body) {
    if (num_items <= 1 || workers_.empty()) {
      for (int64_t item = 0; item < num_items; ++item) body(item, 0);
      return;
    }
    std::atomic<int64_t> next{0};
    const auto take_items = [&](int thread) {
      for (int64_t item = next.fetch_add(1, std::memory_order_relaxed); item < num_items;
           item = next.fetch_add(1, std::memory_order_relaxed)) {
        body(item, thread);
      }
    };
    RunJob({.call = [](const void* context,
                       int thread) { (*static_cast<decltype(&take_items)>(context))(thread); },
            .context = &take_items},
           Attendance::kWhoComes);
  }

  // Number of workers that are asleep now; for tests.
  int num_sleeping() const { return num_sleeping_.load(std::memory_order_relaxed); }

 private:
  struct Job {
    void (*call)(const void* context, int thread) = nullptr;
    const void* context = nullptr;
  };

  enum class Attendance : uint8_t { kAll, kWhoComes };

  void RunJob(Job job, Attendance attendance);
  void WorkerLoop(int thread);
  void Stop();  // also joins the workers

  // The gate of the newest region holds its epoch, a closed flag and the number of workers that
  // entered.
  static constexpr uint64_t kEntered = 0xFFFF;
  static constexpr uint64_t kClosed = uint64_t{1} << 16;
  static constexpr int kEpochShift = 32;

  // Each is on its own cache line: workers poll epoch_ while others increment finished_.
  alignas(64) std::atomic<uint32_t> epoch_{0};  // incremented per region after its gate opens
  alignas(64) std::atomic<uint64_t> gate_{kClosed};
  alignas(64) std::atomic<uint32_t> finished_{0};  // workers that have finished this region
  alignas(64) std::atomic<int> num_sleeping_{0};
  Job job_;  // published by gate_
  std::atomic<bool> stop_{false};
  std::vector<std::thread> workers_;
};

}  // namespace kvgate::kernels::cpu::machine
