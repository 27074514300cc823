// Breaker: stops calls for a while after several failures in a row, then lets one call through as a
// trial. Thread-safe; it takes the time from its caller.
#pragma once

#include <chrono>
#include <mutex>

#include "base/clock.h"

namespace kvgate::store::remote {

class Breaker {
 public:
  using TimePoint = SteadyClock::time_point;
  struct Options {
    int failures_max = 3;  // in a row; 0: calls are never stopped
    std::chrono::milliseconds pause{2000};
  };
  explicit Breaker(Options options) : options_(options) {}

  // Returns true if a call may be made; its outcome is then reported. A breaker that has tripped
  // allows one call per pause.
  bool Allow(TimePoint now);
  // Returns true if it had tripped, and calls are made again.
  bool Succeed();
  // Returns true if it trips with this failure.
  bool Fail(TimePoint now);
  // Returns true if no call may be made now; unlike Allow it changes no state.
  bool IsPaused(TimePoint now) const;
  // Zero if a call may be made now.
  std::chrono::milliseconds UntilTrial(TimePoint now) const;

 private:
  bool has_tripped() const {
    return options_.failures_max > 0 && num_failures_ >= options_.failures_max;
  }

  const Options options_;
  mutable std::mutex mutex_;
  int num_failures_ = 0;
  TimePoint next_trial_{};
};

}  // namespace kvgate::store::remote
