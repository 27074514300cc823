// Breaker: stops asking an upstream that has failed several times in a row, for a while; then lets
// one request through to see. Thread-safe; knows no clock.
#pragma once

#include <chrono>
#include <mutex>

namespace kvgate::upstream {

class Breaker {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;
  struct Options {
    int failures = 5;               // in a row; 0: never opens
    std::chrono::seconds pause{5};  // without requests, then one
  };
  explicit Breaker(Options options) : options_(options) {}

  // Whether a request may be sent. Of an open breaker one may, once each pause.
  bool Allow(TimePoint now);
  // No request may be sent now; nothing is counted.
  bool IsOpen(TimePoint now) const;
  // An answer came, whatever its status.
  void Succeed();
  // None came: no connection, a timeout, an end without an answer.
  void Fail(TimePoint now);
  // Until the next one may try; at least 1.
  int retry_after_seconds(TimePoint now) const;

 private:
  const Options options_;
  mutable std::mutex mutex_;
  int failures_ = 0;
  TimePoint next_try_{};
};

}  // namespace kvgate::upstream
