// UpstreamMeter: what is known of the requests to one upstream: how many there are and were, how
// many failed, and how quick their answers are. Thread-safe.
#pragma once

#include <chrono>
#include <cstdint>
#include <mutex>
#include <optional>

#include "gateway/upstream/exchange_observer.h"
#include "gateway/upstream/latency_window.h"

namespace kvgate::upstream {

class UpstreamMeter {
 public:
  void Begin();
  // `num_output_tokens` are those that a stream's answer reports; absent for other answers, whose
  // first byte says nothing of their first token.
  void End(const ExchangeEnd& end, std::optional<uint64_t> num_output_tokens);

  struct Numbers {
    int64_t active = 0;
    uint64_t requests = 0;  // that have ended
    uint64_t failed = 0;    // of those: status 400 and above, or cut
    std::optional<LatencyWindow::Percentiles> ttft = {};
    std::optional<LatencyWindow::Percentiles> tpot = {};
  };
  Numbers numbers() const;

 private:
  mutable std::mutex mutex_;
  int64_t active_ = 0;
  uint64_t requests_ = 0;
  uint64_t failed_ = 0;
  LatencyWindow ttft_;
  LatencyWindow tpot_;
};

}  // namespace kvgate::upstream
