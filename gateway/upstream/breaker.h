// Breaker: stops requests to an upstream for a while after several failures in a row, then lets one
// request through as a trial. Thread-safe; it takes the time from its caller.
#pragma once

#include <chrono>
#include <cstdint>
#include <mutex>

namespace kvgate::upstream {

class Breaker {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;
  struct Options {
    int failures = 5;               // in a row; 0: never opens
    std::chrono::seconds pause{5};  // time without requests before a trial
  };
  explicit Breaker(Options options) : options_(options) {}

  // Returns true if a request may be sent. An open breaker allows one request per pause.
  bool Allow(TimePoint now);
  // Returns true if no request may be sent now; unlike Allow it changes no state.
  bool IsOpen(TimePoint now) const;
  // Records that an answer came, whatever its status.
  void Succeed();
  // Records that no answer came: no connection, a timeout, or an end without an answer.
  void Fail(TimePoint now);
  enum class State : uint8_t {
    kClosed,
    kOpen,      // no request may be sent now
    kHalfOpen,  // the next request is a trial
  };
  State state(TimePoint now) const;
  // Zero if a request may be sent now.
  std::chrono::microseconds until_trial(TimePoint now) const;
  // Seconds until the next trial; at least 1.
  int retry_after_seconds(TimePoint now) const;

 private:
  bool has_tripped() const { return options_.failures != 0 && failures_ >= options_.failures; }

  const Options options_;
  mutable std::mutex mutex_;
  int failures_ = 0;
  TimePoint next_try_{};
};

}  // namespace kvgate::upstream
