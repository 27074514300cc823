// ManualClock: while it lives, the times of base/clock.h stand still on all threads, and pass only
// when a test says so.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <mutex>

#include "base/clock.h"

namespace kvgate::test {

// There is one at a time. It begins at the real time, or at one that a run can be repeated from;
// afterwards the real time goes on.
class ManualClock {
 public:
  ManualClock() : ManualClock(std::chrono::steady_clock::now(), WallClock::NowUs()) {}
  ManualClock(SteadyClock::time_point steady, int64_t wall_us) {
    steady_ = steady;
    wall_us_ = wall_us;
    SteadyClock::SimulateForAll(&steady_);
    WallClock::SimulateForAll(&wall_us_);
  }
  ~ManualClock() {
    SteadyClock::SimulateForAll(nullptr);
    WallClock::SimulateForAll(nullptr);
  }
  ManualClock(const ManualClock&) = delete;
  ManualClock& operator=(const ManualClock&) = delete;

  // Lets time pass. Any thread may call it: a fake disk, for instance, whose reads take time.
  static void Advance(std::chrono::microseconds time) {
    const std::lock_guard lock(mutex_);
    steady_ = steady_.load() + time;
    wall_us_ += time.count();
  }

 private:
  // A thread may still ask for the time when the test has ended, so the sources are never freed.
  static inline std::mutex mutex_;
  static inline std::atomic<SteadyClock::time_point> steady_{};
  static inline std::atomic<int64_t> wall_us_{0};
};

}  // namespace kvgate::test
