// The two times by which code decides: SteadyClock for how long something has taken and when it is
// due, WallClock for the age of stored data. A test can simulate both (tests/manual_clock.h), so
// that it advances time by hand instead of waiting, and a run is reproducible to the bit.
//
// A class asks these clocks, or takes a function in its options where its owner has a time of its
// own. Waits on a condition variable or a socket take real time whatever the clocks say.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

namespace kvgate {

// A clock as std::chrono wants it. It is the system's steady clock, unless it is simulated.
class SteadyClock {
 public:
  using duration = std::chrono::steady_clock::duration;
  using rep = duration::rep;
  using period = duration::period;
  using time_point = std::chrono::steady_clock::time_point;
  static constexpr bool is_steady = true;

  static time_point now() {
    if (t_simulated_ != nullptr) return *t_simulated_;
    const std::atomic<time_point>* const common = common_.load(std::memory_order_acquire);
    return common == nullptr ? std::chrono::steady_clock::now() : common->load();
  }

  // For tests: sets the source of this thread's time; null means that of the process.
  static void Simulate(const time_point* now) { t_simulated_ = now; }
  // For tests: sets the source of the time of threads that simulate none; null means the system's.
  // It must stay readable for as long as any thread runs.
  static void SimulateForAll(const std::atomic<time_point>* now) { common_ = now; }

 private:
  static inline thread_local const time_point* t_simulated_ = nullptr;
  static inline std::atomic<const std::atomic<time_point>*> common_{nullptr};
};

// The time of day, by which stored data ages and expires.
class WallClock {
 public:
  // Microseconds since 1970.
  static int64_t NowUs() {
    if (t_simulated_ != nullptr) return *t_simulated_;
    const std::atomic<int64_t>* const common = common_.load(std::memory_order_acquire);
    if (common != nullptr) return common->load();
    return std::chrono::duration_cast<std::chrono::microseconds>(
               std::chrono::system_clock::now().time_since_epoch())
        .count();
  }
  // Seconds since 1970.
  static int64_t NowUnix() { return NowUs() / 1'000'000; }

  // For tests, as those of SteadyClock; the source is in microseconds since 1970.
  static void Simulate(const int64_t* now_us) { t_simulated_ = now_us; }
  static void SimulateForAll(const std::atomic<int64_t>* now_us) { common_ = now_us; }

 private:
  static inline thread_local const int64_t* t_simulated_ = nullptr;
  static inline std::atomic<const std::atomic<int64_t>*> common_{nullptr};
};

}  // namespace kvgate
