// WallClock: the time of day, by which stored things age and expire. A thread may simulate it: then
// it is what the simulation says, and a run repeats to the bit.
#pragma once

#include <chrono>
#include <cstdint>

namespace kvgate {

class WallClock {
 public:
  // Microseconds since 1970.
  static int64_t NowUs() {
    if (t_simulated_ != nullptr) return *t_simulated_;
    return std::chrono::duration_cast<std::chrono::microseconds>(
               std::chrono::system_clock::now().time_since_epoch())
        .count();
  }
  // Seconds since 1970.
  static int64_t NowUnix() { return NowUs() / 1'000'000; }

  // This thread's time from now on, in microseconds; null: the system's. For tests.
  static void Simulate(const int64_t* now_us) { t_simulated_ = now_us; }

 private:
  static inline thread_local const int64_t* t_simulated_ = nullptr;
};

}  // namespace kvgate
