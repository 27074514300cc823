#include "gateway/bench/gpu/requests.h"

#include <fmt/format.h>

#include <utility>

namespace kvgate::bench::gpu {
namespace {

uint64_t Mix(uint64_t x) {  // the finalizer of splitmix64
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
  return x ^ (x >> 31);
}

class QueueSink final : public engine::TokenSink {
 public:
  QueueSink(size_t id, int max_tokens, std::shared_ptr<Requests::Queue> queue)
      : queue_(std::move(queue)) {
    answer_.id = id;
    answer_.submitted = Clock::now();
    answer_.tokens.reserve(static_cast<size_t>(max_tokens));
    answer_.times.reserve(static_cast<size_t>(max_tokens));
  }

  void OnToken(engine::TokenEvent event) override {
    answer_.times.push_back(Clock::now());
    answer_.tokens.push_back(event.token);
  }

  void OnFinish(engine::FinishEvent event) override {
    answer_.stats = event.stats;
    answer_.error = std::move(event.error);
    if (!answer_.error && event.reason == engine::FinishReason::kCancelled) {
      answer_.error = Error{ErrorCode::kCancelled, "bench", "the request was cancelled"};
    }
    const std::lock_guard lock(queue_->mutex);
    queue_->answers.push_back(std::move(answer_));
    queue_->wake.notify_one();
  }

 private:
  Answer answer_;
  std::shared_ptr<Requests::Queue> queue_;
};

}  // namespace

Requests::Requests(engine::Engine& engine) : engine_(engine) {}

Requests::~Requests() {
  CancelAll();
  while (num_running() > 0) Next(Clock::now() + std::chrono::seconds(1));
}

Result<void> Requests::Submit(size_t id, Ask ask) {
  engine::GenerationRequest request;
  request.sink = std::make_shared<QueueSink>(id, ask.max_tokens, queue_);
  request.prompt = std::move(ask.prompt);
  request.max_tokens = ask.max_tokens;
  request.sampling.temperature = 0;
  request.ignore_end_of_generation = true;
  request.cache_salt = std::move(ask.salt);
  request.num_stable_tokens = ask.num_stable_tokens;
  KVGATE_TRY(const RequestId submitted, engine_.Submit(std::move(request)));
  running_.emplace(id, submitted);
  return {};
}

std::optional<Answer> Requests::Next(Clock::time_point until) {
  std::unique_lock lock(queue_->mutex);
  if (!queue_->wake.wait_until(lock, until, [this] { return !queue_->answers.empty(); })) {
    return std::nullopt;
  }
  Answer answer = std::move(queue_->answers.front());
  queue_->answers.pop_front();
  lock.unlock();
  running_.erase(answer.id);
  return answer;
}

void Requests::CancelAll() {
  for (const auto& [id, request] : running_) engine_.Cancel(request);
}

Result<Answer> AskOne(engine::Engine& engine, Ask ask, double seconds_max) {
  Requests requests(engine);
  const size_t num_tokens = ask.prompt.size();
  KVGATE_TRY_VOID(requests.Submit(0, std::move(ask)));
  std::optional<Answer> answer = requests.Next(After(seconds_max));
  if (!answer) {
    return MakeError(ErrorCode::kDeadline, "bench",
                     fmt::format("a prompt of {} tokens is not answered after {:.0f} s", num_tokens,
                                 seconds_max));
  }
  if (answer->error) return *std::move(answer->error);
  return *std::move(answer);
}

std::vector<TokenId> RandomTokens(int count, int vocab_size, uint64_t seed) {
  // The seed is mixed first, because adjacent seeds would otherwise give shifted copies of one
  // sequence.
  const uint64_t key = Mix(seed + 1);
  std::vector<TokenId> tokens;
  tokens.reserve(static_cast<size_t>(count));
  for (int i = 0; i < count; ++i) {
    const uint64_t bits = Mix(key + static_cast<uint64_t>(i) * 0x9e3779b97f4a7c15ull);
    tokens.push_back(static_cast<TokenId>(bits % static_cast<uint64_t>(vocab_size)));
  }
  return tokens;
}

}  // namespace kvgate::bench::gpu
