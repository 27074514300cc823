// ThreadPool: a fixed set of threads that run one parallel region at a time.
//
// A decode step is about 150 regions of some microseconds each, so a worker that has finished spins
// a while for the next region before it sleeps; an idle pool uses no CPU. Regions are issued by one
// thread at a time, which takes part as thread 0. Where a busy machine keeps a worker from running,
// ForEach goes on without it: the caller waits only for workers that have taken items. The pool
// decides only who computes what, never the order of sums, so results do not depend on it.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <thread>
#include <type_traits>
#include <vector>

namespace kvgate::kernels::cpu {

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

  // Calls body(thread) once on every thread, thread in [0, num_threads()), and returns when all
  // have returned. What the caller wrote before is visible to them, what they wrote is to it.
  template <typename Body>
  void Run(const Body& body) {
    RunJob({.call = [](const void* context,
                       int thread) { (*static_cast<const Body*>(context))(thread); },
            .context = &body},
           Attendance::kAll);
  }

  // Calls body(item, thread) for every item in [0, num_items). Threads take items in rising order
  // as they become free, so uneven items and a busy core even out. Runs in place where there is
  // one item or one thread.
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

  // Workers asleep now; for tests.
  int num_sleeping() const { return num_sleeping_.load(std::memory_order_relaxed); }

 private:
  struct Job {
    void (*call)(const void* context, int thread) = nullptr;
    const void* context = nullptr;
  };

  enum class Attendance : uint8_t { kAll, kWhoComes };

  void RunJob(Job job, Attendance attendance);
  void WorkerLoop(int thread);
  void Stop();  // and joins

  // The gate of the newest region: its epoch, whether it is closed, and how many workers entered.
  static constexpr uint64_t kEntered = 0xFFFF;
  static constexpr uint64_t kClosed = uint64_t{1} << 16;
  static constexpr int kEpochShift = 32;

  // Each on its own cache line: the workers poll epoch_ while others count up finished_.
  alignas(64) std::atomic<uint32_t> epoch_{0};  // rises by one per region, after its gate opened
  alignas(64) std::atomic<uint64_t> gate_{kClosed};
  alignas(64) std::atomic<uint32_t> finished_{0};  // workers that are done with this region
  alignas(64) std::atomic<int> num_sleeping_{0};
  Job job_;  // published by gate_
  std::atomic<bool> stop_{false};
  std::vector<std::thread> workers_;
};

}  // namespace kvgate::kernels::cpu
