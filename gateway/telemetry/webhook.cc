#include "gateway/telemetry/webhook.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>
#include <optional>
#include <string_view>
#include <thread>
#include <utility>

#include "base/digest.h"
#include "base/log.h"
#include "base/memory_fence.h"
#include "gateway/upstream/exchange.h"
#include "gateway/upstream/upstream.h"
#include "gateway/upstream/wire/header_rules.h"
#include "gateway/upstream/wire/task.h"

namespace kvgate::telemetry {

using upstream::wire::Task;

namespace {

namespace asio = boost::asio;
using Clock = std::chrono::steady_clock;

constexpr std::string_view kSource = "webhook";
constexpr size_t kAnswerBytesMax = size_t{16} << 10;  // read of an answer
constexpr std::chrono::milliseconds kTick{50};

// The receiver as an upstream: so it has the same name lookup, proxy, TLS and timeouts.
config::UpstreamConfig ReceiverOf(const config::BudgetsConfig& config) {
  config::UpstreamConfig receiver;
  receiver.name = "webhook";
  receiver.base_url = config.webhook;
  receiver.ca_file = config.webhook_ca_file;
  receiver.connect_timeout_ms = 1000 * config.webhook_timeout_seconds;
  receiver.first_byte_timeout_seconds = config.webhook_timeout_seconds;
  receiver.idle_timeout_seconds = config.webhook_timeout_seconds;
  receiver.keep_alive_seconds = 0;  // reports are rare
  receiver.connections = 1;
  receiver.retry = "none";
  receiver.breaker_failures = 0;
  return receiver;
}

Result<std::string> ReadSecret(const std::string& variable,
                               const upstream::wire::Environment& environment) {
  if (variable.empty()) return std::string();
  std::string secret = environment(variable.c_str());
  if (!secret.empty()) return secret;
  return MakeError(ErrorCode::kInvalidArgument, kSource,
                   fmt::format("budgets.webhook_secret_env: {} is not set", variable));
}

class ThreadWebhook final : public Webhook {
 public:
  struct Args {
    WebhookOptions options;
    std::chrono::seconds timeout;
    std::string secret;
    std::unique_ptr<upstream::Upstream> receiver;
    WebhookCounts& counts;
  };
  explicit ThreadWebhook(Args args)
      : args_(std::move(args)), tick_(io_), thread_([this] { Run(); }) {}

  ~ThreadWebhook() override {
    {
      const std::lock_guard lock(mutex_);
      stop_at_ = Clock::now() + args_.options.grace;
    }
    wake_.notify_all();
    thread_.join();
  }

  void Post(std::string json) override {
    {
      const std::lock_guard lock(mutex_);
      if (queue_.size() >= args_.options.queue_max) {
        args_.counts.num_dropped.fetch_add(1, std::memory_order_relaxed);
        return;
      }
      queue_.push_back(std::move(json));
    }
    wake_.notify_all();
  }

 private:
  enum class Fate : uint8_t { kTaken, kRefused, kLater };

  // --- Everything below runs on thread_.

  void Run() {
    while (const std::optional<std::string> json = Take()) {
      const bool is_sent = Deliver(*json);
      (is_sent ? args_.counts.num_sent : args_.counts.num_failed)
          .fetch_add(1, std::memory_order_relaxed);
    }
  }

  // Waits for the next document; nullopt when it is time to end.
  std::optional<std::string> Take() {
    std::unique_lock lock(mutex_);
    wake_.wait(lock, [this] { return stop_at_ || !queue_.empty(); });
    if (queue_.empty() || (stop_at_ && Clock::now() >= *stop_at_)) return std::nullopt;
    std::string json = std::move(queue_.front());
    queue_.pop_front();
    return json;
  }

  bool Deliver(const std::string& json) {
    std::chrono::milliseconds pause = args_.options.pause;
    for (int attempt = 1;; ++attempt) {
      const Fate fate = Attempt(json);
      if (fate == Fate::kTaken) return true;
      const bool is_last = fate == Fate::kRefused || attempt >= args_.options.attempts_max;
      if (is_last || !Pause(pause)) {
        KVGATE_LOG(kWarning, kSource, "a report is given up after {} attempts: {}", attempt,
                   failure_);
        return false;
      }
      pause *= 2;
    }
  }

  // Returns false if it is time to end instead.
  bool Pause(std::chrono::milliseconds time) {
    std::unique_lock lock(mutex_);
    wake_.wait_for(lock, time, [this] { return stop_at_.has_value(); });
    return !stop_at_ || Clock::now() < *stop_at_;
  }

  Fate Attempt(const std::string& json) {
    fate_ = Fate::kLater;
    failure_ = "it could not be sent";
    bool has_ended = false;
    io_.restart();
    asio::co_spawn(io_, Send(json), [&](std::exception_ptr failure) {
      if (failure) {
        (void)kvgate::Attempt(kSource, "sending", [&] { std::rethrow_exception(failure); });
      }
      exchange_ = nullptr;
      has_ended = true;
      tick_.cancel();
      io_.stop();
    });
    StartTick();
    while (!has_ended) {
      try {
        io_.run();
      } catch (const std::exception& failure) {
        LogFailure(kSource, "a handler threw", "", failure);
      }
    }
    return fate_;
  }

  void StartTick() {
    tick_.expires_after(kTick);
    tick_.async_wait([this](const boost::system::error_code& code) {
      if (code || exchange_ == nullptr) return;
      const Clock::time_point now = Clock::now();
      exchange_->Tick(now);
      if (MustEnd(now)) exchange_->Abort();
      StartTick();
    });
  }

  bool MustEnd(Clock::time_point now) {
    const std::lock_guard lock(mutex_);
    return stop_at_ && now >= *stop_at_;
  }

  Task<void> Send(std::string json) {
    const std::string head = HeadFor(json);
    upstream::Exchange exchange(*args_.receiver, io_.get_executor());
    exchange.BoundBy(SteadyClock::now() + args_.timeout);
    exchange_ = &exchange;
    const Result<std::string> answer =
        co_await upstream::Fetch(exchange, {.head = head, .body = json}, kAnswerBytesMax);
    exchange_ = nullptr;
    fate_ = answer ? Judge(exchange.status()) : Fate::kLater;
    if (!answer) failure_ = answer.error().detail;
  }

  Fate Judge(int status) {
    if (status >= 200 && status < 300) return Fate::kTaken;
    failure_ = fmt::format("the receiver answers {}", status);
    return status == 408 || status == 429 || status >= 500 ? Fate::kLater : Fate::kRefused;
  }

  std::string HeadFor(const std::string& json) const {
    const upstream::wire::HeaderFields fields = {
        {.name = "Content-Type", .value = "application/json"},
        {.name = "User-Agent", .value = "kvgate"}};
    const std::string& path = args_.receiver->url().path;
    std::string head = upstream::wire::RequestHead({.method = "POST",
                                                    .target = path.empty() ? "/" : path,
                                                    .host = args_.receiver->host(),
                                                    .fields = fields,
                                                    .body_bytes = json.size()});
    if (args_.secret.empty()) return head;
    // RequestHead leaves out a client's fields of such names, so this one is put in afterwards, in
    // front of the empty line.
    const std::string signature = ToHex(HmacSha256(args_.secret, json).bytes);
    head.insert(head.size() - 2, fmt::format("X-Kvgate-Signature: sha256={}\r\n", signature));
    return head;
  }

  asio::io_context io_{1};  // channels of the receiver must be destroyed before it
  const Args args_;
  asio::steady_timer tick_;
  upstream::Exchange* exchange_ = nullptr;  // under way
  Fate fate_ = Fate::kLater;                // of the last attempt
  std::string failure_;                     // why it failed
  std::mutex mutex_;                        // guards what follows
  std::condition_variable wake_;
  std::deque<std::string> queue_;
  std::optional<Clock::time_point> stop_at_;  // set: it ends by then
  std::thread thread_;                        // last member: it starts when all others exist
};

}  // namespace

Result<std::unique_ptr<Webhook>> Webhook::Open(const config::BudgetsConfig& config,
                                               WebhookCounts& counts, const WebhookOptions& options,
                                               const upstream::wire::Environment& environment) {
  KVGATE_TRY(std::string secret, ReadSecret(config.webhook_secret_env, environment));
  KVGATE_TRY(auto receiver, upstream::Upstream::Open(ReceiverOf(config), environment));
  return std::make_unique<ThreadWebhook>(
      ThreadWebhook::Args{.options = options,
                          .timeout = std::chrono::seconds(config.webhook_timeout_seconds),
                          .secret = std::move(secret),
                          .receiver = std::move(receiver),
                          .counts = counts});
}

}  // namespace kvgate::telemetry
