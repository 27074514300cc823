// Requests: submits requests to an engine from one thread and waits for answers, with the time of
// every token.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "engine/engine.h"

namespace kvgate::bench::gpu {

using Clock = std::chrono::steady_clock;

inline double SecondsBetween(Clock::time_point begin, Clock::time_point end) {
  return std::chrono::duration<double>(end - begin).count();
}

inline Clock::time_point After(double seconds) {
  return Clock::now() +
         std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
}

struct Ask {
  std::vector<TokenId> prompt;
  int max_tokens = 1;
  std::string salt = {};  // prefixes are shared within one salt
  int num_stable_tokens = 0;
};

struct Answer {
  size_t id = 0;  // as given to Submit
  engine::RequestStats stats;
  std::optional<Error> error;  // also set if it was cancelled
  std::vector<TokenId> tokens;
  std::vector<Clock::time_point> times;  // of the tokens
  Clock::time_point submitted;
  // REQUIRES: at least one token.
  double ttft_ms() const { return 1e3 * SecondsBetween(submitted, times.front()); }
};

class Requests {
 public:
  explicit Requests(engine::Engine& engine);
  // Cancels running requests and waits for their end.
  ~Requests();
  Requests(const Requests&) = delete;
  Requests& operator=(const Requests&) = delete;

  // Decodes greedily and always produces as many tokens as asked for.
  Result<void> Submit(size_t id, Ask ask);
  // Returns answers in the order in which they end; nullopt if none ends by `until`.
  // REQUIRES: num_running() > 0
  std::optional<Answer> Next(Clock::time_point until);
  void CancelAll();
  size_t num_running() const { return running_.size(); }

  struct Queue {
    std::mutex mutex;
    std::condition_variable wake;
    std::deque<Answer> answers;
  };

 private:
  engine::Engine& engine_;
  std::shared_ptr<Queue> queue_ = std::make_shared<Queue>();
  std::unordered_map<size_t, RequestId> running_;
};

// Runs one request alone. Fails with kDeadline if it takes longer than `seconds_max`.
Result<Answer> AskOne(engine::Engine& engine, Ask ask, double seconds_max = 300);

// Returns the same tokens for the same seed; sequences of different seeds share no KV block.
std::vector<TokenId> RandomTokens(int count, int vocab_size, uint64_t seed);

}  // namespace kvgate::bench::gpu
