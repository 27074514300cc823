// Clock: the time that the engine's decisions go by. It is the steady clock's, unless the thread
// simulates: then it is what the simulation says, and a run repeats to the bit.
#pragma once

#include <chrono>

namespace kvgate::tier {

class Clock {
 public:
  using duration = std::chrono::steady_clock::duration;
  using rep = duration::rep;
  using period = duration::period;
  using time_point = std::chrono::steady_clock::time_point;
  static constexpr bool is_steady = true;

  static time_point now() {
    return t_simulated_ != nullptr ? *t_simulated_ : std::chrono::steady_clock::now();
  }

  // This thread's time from now on; null: the steady clock's. For tests.
  static void Simulate(const time_point* now) { t_simulated_ = now; }

 private:
  static inline thread_local const time_point* t_simulated_ = nullptr;
};

}  // namespace kvgate::tier
