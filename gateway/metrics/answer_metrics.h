// AnswerMetrics names the histograms of requests that were answered, by who answered them: the
// local engine, or an upstream by its configured name.
//
// Thread-safe; finding an upstream's histograms again takes no lock.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "gateway/metrics/registry.h"

namespace kvgate::metrics {

// The histograms of one upstream. A time that is not known is not observed.
struct AnswerTimes {
  Histogram& ttft_seconds;     // from the request's arrival to the first token or byte
  Histogram& itl_seconds;      // each gap between two tokens, or pieces of a stream
  Histogram& tpot_seconds;     // of one answer: time per output token after the first
  Histogram& queue_seconds;    // waiting for the engine, or for a connection
  Histogram& prefill_seconds;  // until the first token, without the queue
  Histogram& decode_seconds;   // from the first token to the last
  Histogram& request_seconds;  // from the request's arrival to its end
  Histogram& prompt_tokens;    // length of the prompt, cached tokens included
};

class AnswerMetrics {
 public:
  static constexpr std::string_view kLocal = "local";
  static constexpr size_t kUpstreamsMax = 64;  // further ones count as "other"

  explicit AnswerMetrics(Registry& registry);
  // The reference stays valid.
  AnswerTimes& Of(std::string_view upstream);
  AnswerTimes& local() { return local_; }

 private:
  struct Entry {
    std::string name;
    AnswerTimes times;
  };
  AnswerTimes Make(std::string_view upstream);
  AnswerTimes& Add(std::string_view upstream);

  HistogramFamily& ttft_;
  HistogramFamily& itl_;
  HistogramFamily& tpot_;
  HistogramFamily& queue_;
  HistogramFamily& prefill_;
  HistogramFamily& decode_;
  HistogramFamily& request_;
  HistogramFamily& prompt_;
  std::mutex mutex_;  // guards entries_
  std::vector<std::unique_ptr<Entry>> entries_;
  // The entries in the order of their making, for readers; null behind the last one.
  std::array<std::atomic<Entry*>, kUpstreamsMax> published_ = {};
  AnswerTimes& local_;
};

}  // namespace kvgate::metrics
