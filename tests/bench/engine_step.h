// The engine's own time for a token, beside which other things are measured.
#pragma once

#include <fmt/format.h>

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <utility>

#include "engine/engine.h"

namespace kvgate::test {

inline double Microseconds(std::chrono::steady_clock::time_point since) {
  return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - since)
      .count();
}

class WaitingSink final : public engine::TokenSink {
 public:
  void OnToken(engine::TokenEvent) override {}
  void OnFinish(engine::FinishEvent) override {
    const std::lock_guard lock(mutex_);
    finished_ = true;
    condition_.notify_one();
  }
  void Wait() {
    std::unique_lock lock(mutex_);
    condition_.wait(lock, [this] { return finished_; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable condition_;
  bool finished_ = false;
};

// Decodes this many tokens of a single sequence, which is the fastest decoding, and returns the
// mean time of all but the first.
inline double DecodeMicroseconds(engine::Engine& engine, uint64_t seed, int num_tokens) {
  const auto run = [&](int count) {
    auto sink = std::make_shared<WaitingSink>();
    engine::GenerationRequest request;
    request.prompt = {static_cast<TokenId>(3 + seed % 100), 5, 7};
    request.max_tokens = count;
    request.sampling.seed = seed;
    request.ignore_end_of_generation = true;
    request.sink = sink;
    const auto began = std::chrono::steady_clock::now();
    if (!engine.Submit(std::move(request))) {
      fmt::print("the engine refuses\n");
      std::exit(1);
    }
    sink->Wait();
    return Microseconds(began);
  };
  const double first = run(1);
  return (run(num_tokens) - first) / (num_tokens - 1);
}

}  // namespace kvgate::test
