#include "gateway/telemetry/otlp/exporter.h"

#include <algorithm>
#include <atomic>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <deque>
#include <exception>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/clock.h"
#include "base/log.h"
#include "base/memory_fence.h"
#include "gateway/dialect/form/json_writer.h"
#include "gateway/telemetry/otlp/span.h"
#include "gateway/telemetry/otlp/sums.h"
#include "gateway/upstream/exchange.h"
#include "gateway/upstream/upstream.h"
#include "gateway/upstream/wire/header_rules.h"
#include "gateway/upstream/wire/task.h"

namespace kvgate::telemetry::otlp {

using dialect::form::JsonWriter;
using upstream::wire::kAwait;
using upstream::wire::Task;

namespace {

namespace asio = boost::asio;
using Clock = std::chrono::steady_clock;

constexpr std::string_view kSource = "telemetry";
constexpr size_t kBatchSpansMax = 512;                // in one request
constexpr size_t kAnswerBytesMax = size_t{64} << 10;  // read of an answer
constexpr std::chrono::milliseconds kTick{50};
constexpr std::chrono::seconds kFlushGrace{2};
// The pause after a failure, doubled with each further one.
constexpr std::chrono::seconds kPauseMin{1};
constexpr std::chrono::seconds kPauseMax{60};

using OwnHeaders = std::vector<std::pair<std::string, std::string>>;

std::string_view Trim(std::string_view text) {
  while (text.starts_with(' ')) text.remove_prefix(1);
  while (text.ends_with(' ')) text.remove_suffix(1);
  return text;
}

bool IsHeaderText(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return c >= ' ' && c != 127; });
}

// Reads "NAME=VALUE,NAME=VALUE"; the error shows no value.
Result<OwnHeaders> ReadHeaders(const std::string& variable,
                               const upstream::wire::Environment& environment) {
  OwnHeaders headers;
  if (variable.empty()) return headers;
  const std::string text = environment(variable.c_str());
  const auto fail = [&](std::string_view why) {
    return MakeError(ErrorCode::kInvalidArgument, kSource,
                     fmt::format("telemetry.headers_env: {} {}", variable, why));
  };
  if (text.empty()) return fail("is not set");
  std::string_view rest = text;
  while (!rest.empty()) {
    const std::string_view pair = rest.substr(0, rest.find(','));
    rest.remove_prefix(std::min(rest.size(), pair.size() + 1));
    const size_t equals = pair.find('=');
    const std::string_view name = Trim(pair.substr(0, equals));
    if (equals == std::string_view::npos || name.empty() || !IsHeaderText(pair)) {
      return fail("must be NAME=VALUE,NAME=VALUE");
    }
    headers.emplace_back(name, Trim(pair.substr(equals + 1)));
  }
  return headers;
}

// The collector as an upstream: so it has the same name lookup, proxy, TLS and timeouts.
config::UpstreamConfig CollectorOf(const config::TelemetryConfig& config) {
  config::UpstreamConfig collector;
  collector.name = "telemetry";
  collector.base_url = config.endpoint;
  collector.ca_file = config.ca_file;
  collector.connect_timeout_ms = 1000 * config.timeout_seconds;
  collector.first_byte_timeout_seconds = config.timeout_seconds;
  collector.idle_timeout_seconds = config.timeout_seconds;
  collector.connections = 1;
  collector.retry = "none";
  collector.breaker_failures = 0;
  return collector;
}

class ThreadExporter final : public Exporter {
 public:
  ThreadExporter(const config::TelemetryConfig& config,
                 std::unique_ptr<upstream::Upstream> collector, OwnHeaders headers)
      : config_(config),
        collector_(std::move(collector)),
        headers_(std::move(headers)),
        sums_(WallClock::NowUs()),
        alarm_(io_),
        tick_(io_),
        thread_([this] { RunThread(); }) {}

  ~ThreadExporter() override {
    asio::post(io_, [this] {
      is_stopping_ = true;
      stop_at_ = Clock::now() + kFlushGrace;
      alarm_.cancel();
    });
    thread_.join();
  }

  void Add(const ledger::RequestRecord& record) override {
    std::optional<Span> span = SpanOf(record);
    if (!span) return;
    bool wakes = false;
    {
      const std::lock_guard lock(mutex_);
      if (queue_.size() >= static_cast<size_t>(config_.queue)) {
        num_dropped_.fetch_add(1, std::memory_order_relaxed);
        return;
      }
      queue_.push_back(*std::move(span));
      wakes = queue_.size() == batch_spans_;
    }
    if (wakes) asio::post(io_, [this] { alarm_.cancel(); });
  }

  void Collect(metrics::TextWriter& writer) const override {
    const auto write = [&](std::string_view name, std::string_view help, uint64_t value) {
      writer.Family(name, "counter", help);
      writer.Sample(name, {}, value);
    };
    write("kvgate_telemetry_spans_sent_total", "Spans that the collector has taken.",
          num_sent_.load(std::memory_order_relaxed));
    write("kvgate_telemetry_dropped_total",
          "Spans that were dropped: the collector took too few, or refused them.",
          num_dropped_.load(std::memory_order_relaxed));
    write("kvgate_telemetry_failures_total", "Requests to the collector that failed.",
          num_failures_.load(std::memory_order_relaxed));
  }

 private:
  enum class Fate : uint8_t { kTaken, kRefused, kLater };

  // --- Everything below runs on thread_.

  void RunThread() {
    do {
      io_.restart();
      asio::co_spawn(io_, Run(), [this](std::exception_ptr failure) {
        if (!failure) return;
        (void)Attempt(kSource, "sending", [&] { std::rethrow_exception(failure); });
        exchange_ = nullptr;
        has_ended_ = is_stopping_;
        io_.stop();  // and begin anew
      });
      StartTick();
      try {
        io_.run();
      } catch (const std::exception& failure) {
        LogFailure(kSource, "a handler threw", "", failure);
      }
    } while (!has_ended_);
  }

  void StartTick() {
    tick_.expires_after(kTick);
    tick_.async_wait([this](const boost::system::error_code& code) {
      if (code || has_ended_) return;
      const Clock::time_point now = Clock::now();
      if (exchange_ != nullptr) {
        exchange_->Tick(now);
        if (is_stopping_ && now >= stop_at_) exchange_->Abort();
      }
      StartTick();
    });
  }

  Task<void> Run() {
    const std::chrono::seconds interval(config_.interval_seconds);
    Clock::time_point metrics_at = Clock::now() + interval;
    bool is_last = false;
    while (!is_last) {
      co_await Sleep(metrics_at);
      is_last = is_stopping_;
      TakeQueue();
      const Clock::time_point now = Clock::now();
      const bool is_due = now >= metrics_at || is_last;
      if (is_due) metrics_at = now + interval;
      if (now < retry_at_ && !is_last) continue;
      const bool goes_on = co_await SendSpans(/*all=*/is_due);
      if (goes_on && is_due && config_.metrics) co_await SendMetrics();
    }
    has_ended_ = true;
    tick_.cancel();
  }

  Task<void> Sleep(Clock::time_point until) {
    if (is_stopping_) co_return;
    {
      const std::lock_guard lock(mutex_);
      if (queue_.size() >= batch_spans_ && Clock::now() >= retry_at_) co_return;
    }
    alarm_.expires_at(until);
    co_await alarm_.async_wait(kAwait);
  }

  // Takes what has come into the sums and among the spans that wait; the oldest of those give way.
  void TakeQueue() {
    std::vector<Span> taken;
    {
      const std::lock_guard lock(mutex_);
      taken.swap(queue_);
    }
    for (Span& span : taken) {
      if (config_.metrics) sums_.Add(span);
      if (!config_.spans || !span.context.is_sampled()) continue;
      if (spans_.size() >= static_cast<size_t>(config_.queue)) {
        spans_.pop_front();
        num_dropped_.fetch_add(1, std::memory_order_relaxed);
      }
      spans_.push_back(std::move(span));
    }
  }

  // Sends whole batches, or all spans. Returns false if the collector is not there.
  Task<bool> SendSpans(bool all) {
    while (spans_.size() >= (all ? 1 : batch_spans_)) {
      const size_t count = std::min(spans_.size(), kBatchSpansMax);
      std::string body = SpansJson(count);
      const Fate fate = co_await Post("/v1/traces", std::move(body));
      if (fate == Fate::kLater) co_return false;
      const uint64_t num_refused = fate == Fate::kRefused ? count : std::min(num_rejected_, count);
      num_dropped_.fetch_add(num_refused, std::memory_order_relaxed);
      num_sent_.fetch_add(count - num_refused, std::memory_order_relaxed);
      spans_.erase(spans_.begin(), spans_.begin() + static_cast<std::ptrdiff_t>(count));
    }
    co_return true;
  }

  Task<void> SendMetrics() {
    if (sums_.empty()) co_return;
    std::string body;
    JsonWriter json(body);
    json.BeginObject().Key("resourceMetrics").BeginArray().BeginObject();
    WriteResource(config_.service_name, json);
    json.Key("scopeMetrics").BeginArray().BeginObject();
    WriteScope(json);
    json.Key("metrics").BeginArray();
    sums_.Write(WallClock::NowUs(), json);
    json.EndArray().EndObject().EndArray().EndObject().EndArray().EndObject();
    co_await Post("/v1/metrics", std::move(body));
  }

  std::string SpansJson(size_t count) const {
    std::string body;
    JsonWriter json(body);
    json.BeginObject().Key("resourceSpans").BeginArray().BeginObject();
    WriteResource(config_.service_name, json);
    json.Key("scopeSpans").BeginArray().BeginObject();
    WriteScope(json);
    json.Key("spans").BeginArray();
    for (size_t i = 0; i < count; ++i) WriteSpan(spans_[i], json);
    json.EndArray().EndObject().EndArray().EndObject().EndArray().EndObject();
    return body;
  }

  std::string HeadFor(std::string_view path, const std::string& body) const {
    upstream::wire::HeaderFields fields = {{.name = "Content-Type", .value = "application/json"},
                                           {.name = "User-Agent", .value = "kvgate"}};
    for (const auto& [name, value] : headers_) fields.push_back({.name = name, .value = value});
    std::string target = collector_->url().path;
    while (target.ends_with('/')) target.pop_back();
    target += path;
    return upstream::wire::RequestHead({.method = "POST",
                                        .target = target,
                                        .host = collector_->host(),
                                        .fields = fields,
                                        .body_bytes = body.size()});
  }

  Task<Fate> Post(std::string_view path, std::string body) {
    const std::string head = HeadFor(path, body);
    upstream::Exchange exchange(*collector_, io_.get_executor());
    exchange.BoundBy(SteadyClock::now() + std::chrono::seconds(config_.timeout_seconds));
    exchange_ = &exchange;
    const Result<std::string> answer =
        co_await upstream::Fetch(exchange, {.head = head, .body = body}, kAnswerBytesMax);
    exchange_ = nullptr;
    co_return answer ? Judge(exchange.status(), "", *answer) : Judge(0, answer.error().detail, "");
  }

  // What may succeed later is said in OTLP's protocol: no answer, 429, 502, 503 and 504.
  Fate Judge(int status, const std::string& failure, const std::string& answer) {
    num_rejected_ = 0;
    if (status >= 200 && status < 300) {
      if (num_failures_in_row_ > 0) {
        KVGATE_LOG(kInfo, kSource, "the collector takes spans and metrics again");
      }
      num_failures_in_row_ = 0;
      num_rejected_ = RejectedOf(answer);
      return Fate::kTaken;
    }
    num_failures_.fetch_add(1, std::memory_order_relaxed);
    // A line for each failure would flood the log while a collector is down.
    if (num_failures_in_row_++ == 0) {
      KVGATE_LOG(kWarning, kSource, "spans and metrics are not sent: {}",
                 failure.empty() ? fmt::format("the collector answers {}", status) : failure);
    }
    const bool is_later =
        status == 0 || status == 429 || status == 502 || status == 503 || status == 504;
    if (!is_later) return Fate::kRefused;
    const int doublings = std::min(num_failures_in_row_ - 1, 6);
    retry_at_ = Clock::now() + std::min(kPauseMax, kPauseMin * (1 << doublings));
    return Fate::kLater;
  }

  // Spans of the batch that the collector says it has rejected.
  static size_t RejectedOf(const std::string& answer) {
    const auto json = nlohmann::json::parse(answer, nullptr, /*allow_exceptions=*/false);
    if (!json.is_object() || !json.contains("partialSuccess")) return 0;
    const auto& partial = json["partialSuccess"];
    if (!partial.is_object() || !partial.contains("rejectedSpans")) return 0;
    const auto& count = partial["rejectedSpans"];
    if (count.is_number_unsigned()) return count.get<size_t>();
    if (!count.is_string()) return 0;
    return static_cast<size_t>(std::strtoull(count.get<std::string>().c_str(), nullptr, 10));
  }

  const config::TelemetryConfig config_;
  // So many are sent at once, before the queue is full.
  const size_t batch_spans_ =
      std::clamp<size_t>(static_cast<size_t>(config_.queue) / 2, 1, kBatchSpansMax);
  std::atomic<uint64_t> num_sent_{0};
  std::atomic<uint64_t> num_dropped_{0};
  std::atomic<uint64_t> num_failures_{0};
  std::mutex mutex_;  // guards queue_
  std::vector<Span> queue_;

  // The collector's kept connections must be destroyed before the context.
  asio::io_context io_{1};
  const std::unique_ptr<upstream::Upstream> collector_;
  const OwnHeaders headers_;
  std::deque<Span> spans_;  // that wait for the collector
  Sums sums_;
  asio::steady_timer alarm_;
  asio::steady_timer tick_;
  upstream::Exchange* exchange_ = nullptr;  // under way
  size_t num_rejected_ = 0;                 // of the last batch
  int num_failures_in_row_ = 0;
  Clock::time_point retry_at_{};
  Clock::time_point stop_at_{};
  bool is_stopping_ = false;
  bool has_ended_ = false;
  std::thread thread_;  // last member: it starts when all others exist
};

}  // namespace

Result<std::unique_ptr<Exporter>> Exporter::Open(const config::TelemetryConfig& config,
                                                 const upstream::wire::Environment& environment) {
  KVGATE_TRY(OwnHeaders headers, ReadHeaders(config.headers_env, environment));
  KVGATE_TRY(auto collector, upstream::Upstream::Open(CollectorOf(config), environment));
  return std::make_unique<ThreadExporter>(config, std::move(collector), std::move(headers));
}

}  // namespace kvgate::telemetry::otlp
