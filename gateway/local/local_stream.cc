#include "gateway/local/local_stream.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

namespace kvgate::local {
namespace {

using Clock = std::chrono::steady_clock;

// The data of a token with log-probabilities until the reader spells it.
struct PendingToken {
  TokenId token = 0;
  float logprob = 0;
  std::vector<sample::TokenLogprob> top;
};

dialect::form::CompletionStats ToStats(const engine::RequestStats& stats, bool logits_hash) {
  return {.num_prompt_tokens = stats.num_prompt_tokens,
          .num_output_tokens = stats.num_output_tokens,
          .num_cached_tokens = stats.num_cached_tokens,
          .num_device_tokens = stats.num_device_tokens,
          .num_host_tokens = stats.num_host_tokens,
          .num_disk_tokens = stats.num_disk_tokens,
          .num_shared_tokens = stats.num_shared_tokens,
          .last_stored_block = stats.last_stored_block,
          .queue_seconds = stats.queue_seconds,
          .restore_seconds = stats.restore_seconds,
          .given_up = {.reason = stats.given_up.reason,
                       .num_tokens = stats.given_up.num_tokens,
                       .load_seconds = stats.given_up.load_seconds,
                       .compute_seconds = stats.given_up.compute_seconds},
          .prefill_seconds = stats.prefill_seconds,
          .ttft_seconds = stats.ttft_seconds,
          .total_seconds = stats.total_seconds,
          .logits_hash = logits_hash ? std::optional(stats.logits_hash) : std::nullopt};
}

void ObserveAnswer(const engine::RequestStats& stats, metrics::AnswerTimes& times) {
  times.request_seconds.Observe(stats.total_seconds);
  times.queue_seconds.Observe(stats.queue_seconds);
  times.prompt_tokens.Observe(stats.num_prompt_tokens);
  if (stats.num_output_tokens == 0) return;
  times.prefill_seconds.Observe(stats.prefill_seconds);
  const double decode_seconds = std::max(0.0, stats.total_seconds - stats.ttft_seconds);
  times.decode_seconds.Observe(decode_seconds);
  if (stats.num_output_tokens == 1) return;
  times.tpot_seconds.Observe(decode_seconds / (stats.num_output_tokens - 1));
}

// Shared by the reader's stream and the engine; either may be destroyed first.
class Buffer final : public engine::TokenSink {
 public:
  Buffer(std::function<void()> wake, metrics::GatewayMetrics* metrics, bool logprobs,
         size_t pending_bytes_max)
      : metrics_(metrics),
        logprobs_(logprobs),
        pending_bytes_max_(pending_bytes_max),
        wake_(std::move(wake)) {}

  void OnToken(engine::TokenEvent event) override {
    ObserveToken();
    const std::lock_guard lock(mutex_);
    if (overflowed_) return;
    const bool was_empty = Empty();
    if (!std::exchange(seen_, true)) begun_ = true;
    num_cached_tokens_ = event.num_cached_tokens;
    text_ += event.text;
    size_t bytes = event.text.size();
    if (logprobs_) {
      bytes += sizeof(PendingToken) + event.top_logprobs.size() * sizeof(sample::TokenLogprob);
      tokens_.push_back({event.token, event.logprob, std::move(event.top_logprobs)});
    }
    pending_bytes_ += bytes;
    if (pending_bytes_ > pending_bytes_max_) overflowed_ = true;
    if (was_empty && !Empty()) Wake();
  }

  void OnFinish(engine::FinishEvent event) override {
    if (metrics_ != nullptr && event.reason != engine::FinishReason::kCancelled) {
      ObserveAnswer(event.stats, metrics_->answers.local());
    }
    const std::lock_guard lock(mutex_);
    try {
      text_ += event.text;
    } catch (const std::bad_alloc&) {  // an answer without its end is invalid
      event.reason = engine::FinishReason::kError;
      event.error = engine::OutOfMemory();
    }
    finish_ = std::move(event);
    finish_seen_ = true;
    Wake();
  }

  struct Taken {
    bool begun = false;
    int num_cached_tokens = 0;
    std::string text;
    std::vector<PendingToken> tokens;
    std::optional<engine::FinishEvent> finish;
    double itl_seconds_max = 0;  // set with `finish`
    bool overflowed = false;
  };
  Taken Take() {
    const std::lock_guard lock(mutex_);
    pending_bytes_ = 0;
    return {.begun = std::exchange(begun_, false),
            .num_cached_tokens = num_cached_tokens_,
            .text = std::exchange(text_, {}),
            .tokens = std::exchange(tokens_, {}),
            .finish = std::exchange(finish_, std::nullopt),
            .itl_seconds_max = finish_seen_ ? itl_seconds_max_ : 0,
            .overflowed = overflowed_};
  }

  // Called when the reader goes; once it returns, wake_ is neither running nor called again.
  void Detach() {
    const std::lock_guard lock(mutex_);
    wake_ = nullptr;
  }

 private:
  bool Empty() const {
    return text_.empty() && tokens_.empty() && !begun_ && !finish_ && !overflowed_;
  }

  void Wake() {
    if (wake_) wake_();
  }

  // Only the engine thread calls this, so the times need no lock.
  void ObserveToken() {
    const Clock::time_point now = Clock::now();
    const Clock::time_point since = last_token_.value_or(started_);
    const double gap = std::chrono::duration<double>(now - since).count();
    if (last_token_) itl_seconds_max_ = std::max(itl_seconds_max_, gap);
    if (metrics_ != nullptr) {
      metrics::AnswerTimes& times = metrics_->answers.local();
      (last_token_ ? times.itl_seconds : times.ttft_seconds).Observe(gap);
    }
    last_token_ = now;
  }

  metrics::GatewayMetrics* const metrics_;
  const bool logprobs_;
  const size_t pending_bytes_max_;
  const Clock::time_point started_ = Clock::now();
  std::optional<Clock::time_point> last_token_;
  double itl_seconds_max_ = 0;  // the engine thread's until it has finished

  std::mutex mutex_;
  std::function<void()> wake_;
  bool seen_ = false;   // a token has come
  bool begun_ = false;  // a token has come, but Take has not reported it
  int num_cached_tokens_ = 0;
  std::string text_;
  std::vector<PendingToken> tokens_;
  std::optional<engine::FinishEvent> finish_;
  bool finish_seen_ = false;  // no token comes any more
  size_t pending_bytes_ = 0;
  bool overflowed_ = false;
};

class LocalStream final : public EventStream {
 public:
  LocalStream(RequestId id, std::shared_ptr<Buffer> buffer, const LocalStreamOptions& options)
      : id_(id),
        buffer_(std::move(buffer)),
        engine_(options.engine),
        tokenizer_(options.tokenizer),
        logits_hash_(options.logits_hash),
        segments_(options.segments),
        usage_(options.usage),
        caller_stops_(options.caller_stops),
        pending_bytes_max_(options.pending_bytes_max) {}

  ~LocalStream() override {
    buffer_->Detach();
    if (!finished_) engine_.Cancel(id_);
  }

  std::vector<dialect::form::CompletionEvent> Take() override {
    std::vector<dialect::form::CompletionEvent> events;
    Buffer::Taken taken = buffer_->Take();
    if (finished_) return events;
    if (taken.begun && !std::exchange(begun_, true)) {
      usage_.num_cached_tokens = taken.num_cached_tokens;
      events.emplace_back(dialect::form::BeginEvent{.usage = usage_});
    }
    if (!taken.text.empty() || !taken.tokens.empty()) {
      events.emplace_back(
          dialect::form::DeltaEvent{.text = std::move(taken.text), .tokens = Spell(taken.tokens)});
    }
    if (taken.overflowed) {
      engine_.Cancel(id_);
      events.emplace_back(Overflow());
    } else if (taken.finish) {
      dialect::form::FinishEvent finish = ToFinish(std::move(*taken.finish));
      finish.stats.itl_seconds_max = taken.itl_seconds_max;
      events.emplace_back(std::move(finish));
    }
    finished_ = taken.overflowed || taken.finish;
    return events;
  }

  void Cancel() override { engine_.Cancel(id_); }

 private:
  std::vector<dialect::form::TokenDetail> Spell(const std::vector<PendingToken>& tokens) const {
    const auto spell = [&](TokenId token, float logprob) {
      return dialect::form::TokenLogprob{.bytes = tokenizer_.TokenBytes(token, true),
                                         .logprob = logprob};
    };
    std::vector<dialect::form::TokenDetail> details;
    details.reserve(tokens.size());
    for (const PendingToken& token : tokens) {
      dialect::form::TokenDetail detail{.token = spell(token.token, token.logprob), .top = {}};
      for (const sample::TokenLogprob& top : token.top) {
        detail.top.push_back(spell(top.token, top.logprob));
      }
      details.push_back(std::move(detail));
    }
    return details;
  }

  dialect::form::FinishEvent Overflow() const {
    return {.error = MakeError(
                ErrorCode::kOverloaded, "provider.local",
                fmt::format("the answer was cancelled: more than {} bytes of it were unread",
                            pending_bytes_max_))};
  }

  dialect::form::FinishEvent ToFinish(engine::FinishEvent event) const {
    dialect::form::FinishEvent finish{.stats = ToStats(event.stats, logits_hash_)};
    finish.stats.segments = segments_;
    finish.stats.num_marked_tokens = usage_.num_marked_tokens;
    if (std::find(caller_stops_.begin(), caller_stops_.end(), event.stop_string) !=
        caller_stops_.end()) {
      finish.stop_string = std::move(event.stop_string);
    }
    switch (event.reason) {
      case engine::FinishReason::kStop:
        finish.reason = dialect::form::FinishReason::kStop;
        break;
      case engine::FinishReason::kLength:
        finish.reason = dialect::form::FinishReason::kLength;
        break;
      case engine::FinishReason::kCancelled:
        finish.error = MakeError(ErrorCode::kCancelled, "provider.local",
                                 "the request was cancelled before its answer was complete");
        break;
      case engine::FinishReason::kError:
        finish.error = event.error.value_or(
            MakeError(ErrorCode::kInternal, "engine", "the engine gave no reason"));
        break;
    }
    return finish;
  }

  const RequestId id_;
  const std::shared_ptr<Buffer> buffer_;
  engine::Engine& engine_;
  const tokenizer::Tokenizer& tokenizer_;
  const bool logits_hash_;
  const std::vector<dialect::form::PromptSegment> segments_;
  dialect::form::PromptUsage usage_;
  const std::vector<std::string> caller_stops_;
  const size_t pending_bytes_max_;
  bool begun_ = false;
  bool finished_ = false;
};

}  // namespace

Result<std::unique_ptr<EventStream>> StartLocalStream(engine::GenerationRequest request,
                                                      LocalStreamOptions options) {
  auto buffer = std::make_shared<Buffer>(options.wake, options.metrics, options.logprobs,
                                         options.pending_bytes_max);
  request.sink = buffer;
  KVGATE_TRY(const RequestId id, options.engine.Submit(std::move(request)));
  return std::make_unique<LocalStream>(id, std::move(buffer), options);
}

}  // namespace kvgate::local
