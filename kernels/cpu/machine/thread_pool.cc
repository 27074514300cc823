#include "kernels/cpu/machine/thread_pool.h"

#include "base/check.h"

namespace kvgate::kernels::cpu::machine {
namespace {

// Tells the core that this is a spin loop, so that a sibling hyperthread gets its resources.
inline void Pause() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield" ::: "memory");
#endif
}

// Waits until value != old: spins for kSpinDuration, then sleeps in the kernel.
template <typename OnSleep>
uint32_t AwaitChange(const std::atomic<uint32_t>& value, uint32_t old, const OnSleep& on_sleep) {
  constexpr int kPolls = 32;  // between clock reads, which cost about as much as 32 polls
  const auto deadline = std::chrono::steady_clock::now() + ThreadPool::kSpinDuration;
  while (true) {
    for (int poll = 0; poll < kPolls; ++poll) {
      const uint32_t now = value.load(std::memory_order_acquire);
      if (now != old) return now;
      Pause();
    }
    if (std::chrono::steady_clock::now() >= deadline) break;
  }
  on_sleep(1);
  value.wait(old, std::memory_order_acquire);
  on_sleep(-1);
  return value.load(std::memory_order_acquire);
}

}  // namespace

ThreadPool::ThreadPool(int num_threads) {
  KVGATE_CHECK(num_threads >= 1, "a pool has at least its caller");
  workers_.reserve(static_cast<size_t>(num_threads) - 1);
  try {
    for (int thread = 1; thread < num_threads; ++thread) {
      workers_.emplace_back([this, thread] { WorkerLoop(thread); });
    }
  } catch (...) {
    Stop();  // joins those that were started
    throw;
  }
}

ThreadPool::~ThreadPool() { Stop(); }

void ThreadPool::Stop() {
  stop_ = true;
  // No gate is open: the workers wake, see stop_ and return.
  epoch_.fetch_add(1, std::memory_order_release);
  epoch_.notify_all();
  for (std::thread& worker : workers_) worker.join();
}

void ThreadPool::RunJob(Job job, Attendance attendance) {
  if (workers_.empty()) {
    job.call(job.context, 0);
    return;
  }
  job_ = job;
  finished_.store(0, std::memory_order_relaxed);
  const uint32_t epoch = epoch_.load(std::memory_order_relaxed) + 1;
  gate_.store(uint64_t{epoch} << kEpochShift, std::memory_order_release);
  epoch_.store(epoch, std::memory_order_release);
  epoch_.notify_all();  // costs one load if no worker sleeps
  job.call(job.context, 0);
  auto num_entered = static_cast<uint32_t>(workers_.size());
  if (attendance == Attendance::kWhoComes) {
    const uint64_t gate = gate_.fetch_or(kClosed, std::memory_order_acq_rel);
    num_entered = static_cast<uint32_t>(gate & kEntered);
  }
  uint32_t finished = finished_.load(std::memory_order_acquire);
  while (finished != num_entered) finished = AwaitChange(finished_, finished, [](int) {});
}

void ThreadPool::WorkerLoop(int thread) {
  uint32_t seen = 0;
  uint32_t last_entered = 0;
  while (true) {
    seen = AwaitChange(epoch_, seen, [this](int change) {
      num_sleeping_.fetch_add(change, std::memory_order_relaxed);
    });
    if (stop_.load(std::memory_order_relaxed)) return;
    // A gate opens before its epoch is published, so this worker may have entered it already.
    uint64_t gate = gate_.load(std::memory_order_acquire);
    const auto may_enter = [&] {
      return (gate & kClosed) == 0 && static_cast<uint32_t>(gate >> kEpochShift) != last_entered;
    };
    while (may_enter() && !gate_.compare_exchange_weak(gate, gate + 1, std::memory_order_acq_rel)) {
    }
    if (!may_enter()) continue;  // or too late: the region was computed without this worker
    last_entered = static_cast<uint32_t>(gate >> kEpochShift);
    job_.call(job_.context, thread);
    finished_.fetch_add(1, std::memory_order_acq_rel);
    finished_.notify_one();
  }
}

}  // namespace kvgate::kernels::cpu::machine
