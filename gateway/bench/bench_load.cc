#include "gateway/bench/bench_load.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <map>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <random>
#include <string_view>
#include <thread>
#include <utility>

#include "gateway/cli/server/http_client.h"

namespace kvgate::bench {
namespace {

using Clock = std::chrono::steady_clock;
using Json = nlohmann::json;
using Random = std::mt19937_64;

constexpr std::chrono::milliseconds kRefusedPause{200};
constexpr std::chrono::milliseconds kWatchInterval{10};
constexpr int64_t kNever = std::numeric_limits<int64_t>::max();

float MillisecondsSince(Clock::time_point from) {
  return std::chrono::duration<float, std::milli>(Clock::now() - from).count();
}

int64_t Ticks(Clock::time_point time) { return time.time_since_epoch().count(); }

double Uniform(Random& random) { return std::uniform_real_distribution<double>(0, 1)(random); }

struct Prompt {
  std::vector<int> tokens;
  int index = -1;  // among the reused prompts; -1: sent once
};

// The prompts of a run; equal options give equal prompts.
class Prompts {
 public:
  explicit Prompts(const BenchLoadOptions& options) : options_(options) {
    Random random(options.seed);
    for (int i = 0; i < options.shared_prefixes; ++i) {
      prefixes_.push_back(Tokens(options.prompt_tokens_max / 2, random));
    }
    for (int i = 0; i < options.prompts; ++i) made_.push_back(Make(i, random));
  }

  Prompt Choose(Random& random) const {
    if (Uniform(random) < options_.fresh_share) {
      return {.tokens = Make(static_cast<int>(random() % 1024), random)};
    }
    const auto index = static_cast<size_t>(random() % made_.size());
    return {.tokens = made_[index], .index = static_cast<int>(index)};
  }

 private:
  std::vector<int> Tokens(int count, Random& random) const {
    std::uniform_int_distribution<int> ids(options_.token_id_min, options_.token_id_max);
    std::vector<int> tokens(static_cast<size_t>(count));
    for (int& token : tokens) token = ids(random);
    return tokens;
  }

  // Every second prompt begins with a shared prefix, or with as much of it as fits.
  std::vector<int> Make(int index, Random& random) const {
    const double low = std::log(options_.prompt_tokens_min);
    const double high = std::log(options_.prompt_tokens_max);
    const int length = static_cast<int>(std::exp(low + Uniform(random) * (high - low)));
    std::vector<int> tokens = Tokens(std::max(length, 1), random);
    if (index % 2 == 0 && !prefixes_.empty()) {
      const auto& prefix = prefixes_[static_cast<size_t>(index / 2) % prefixes_.size()];
      const size_t shared = std::min(prefix.size(), tokens.size() * 3 / 4);
      std::copy_n(prefix.begin(), shared, tokens.begin());
    }
    return tokens;
  }

  const BenchLoadOptions& options_;
  std::vector<std::vector<int>> prefixes_;
  std::vector<std::vector<int>> made_;
};

// Parses the events of one stream as they arrive.
class StreamReader {
 public:
  explicit StreamReader(std::vector<float>& gaps_ms) : gaps_ms_(gaps_ms) {}

  void Push(std::string_view piece) {
    pending_ += piece;
    size_t begin = 0;
    for (size_t end; (end = pending_.find('\n', begin)) != std::string::npos; begin = end + 1) {
      OnLine(std::string_view(pending_).substr(begin, end - begin));
    }
    pending_.erase(0, begin);
  }

  bool done() const { return done_; }
  const std::string& text() const { return text_; }
  const std::string& error() const { return error_; }
  float ttft_ms() const { return ttft_ms_; }
  const Json& usage() const { return usage_; }

 private:
  void OnLine(std::string_view line) {
    constexpr std::string_view kData = "data: ";
    if (!line.starts_with(kData)) return;
    line.remove_prefix(kData.size());
    if (line == "[DONE]") {
      done_ = true;
      return;
    }
    const Json event = Json::parse(line, nullptr, false);
    if (!event.is_object()) {
      error_ = "an event that is no JSON object";
      return;
    }
    if (event.contains("error")) error_ = event["error"].dump();
    if (event.contains("usage") && event["usage"].is_object()) usage_ = event["usage"];
    for (const Json& choice : event.value("choices", Json::array())) {
      const std::string text = choice.value("text", "");
      if (!text.empty()) OnText(text);
    }
  }

  void OnText(const std::string& text) {
    if (text_.empty()) {
      ttft_ms_ = MillisecondsSince(last_);
    } else {
      gaps_ms_.push_back(MillisecondsSince(last_));
    }
    last_ = Clock::now();
    text_ += text;
  }

  std::vector<float>& gaps_ms_;
  Clock::time_point last_ = Clock::now();
  std::string pending_;
  std::string text_;
  std::string error_;
  float ttft_ms_ = 0;
  bool done_ = false;
  Json usage_;
};

// Shared by the clients: the first answer to each reused prompt.
class Answers {
 public:
  // Returns false if an earlier answer to this prompt was different.
  bool Agrees(int index, const std::string& text) {
    const std::lock_guard lock(mutex_);
    return first_.emplace(index, text).first->second == text;
  }

 private:
  std::mutex mutex_;
  std::map<int, std::string> first_;
};

class Client {
 public:
  Client(const BenchLoadOptions& options, const Prompts& prompts, Answers& answers, uint64_t seed)
      : options_(options), prompts_(prompts), answers_(answers), random_(seed) {}

  void Run(Clock::time_point deadline) {
    while (Clock::now() < deadline) RunOne();
    done_.store(true);
  }

  // Called often from one other thread; cancels the request when its time has come.
  void Watch() {
    if (Ticks(Clock::now()) >= cancel_at_.load()) stop_.store(true);
  }
  bool done() const { return done_.load(); }
  BenchLoadReport& report() { return report_; }

 private:
  void RunOne() {
    const Prompt prompt = prompts_.Choose(random_);
    Json body{{"model", options_.model},
              {"prompt", prompt.tokens},
              {"max_tokens", options_.output_tokens},
              {"temperature", 0},
              {"ignore_eos", true},
              {"stream", true},
              {"stream_options", {{"include_usage", true}}}};
    stop_.store(false);
    // The duration of an answer is unknown, so the times vary: some cancel early, some late, some
    // after the end.
    if (Uniform(random_) < options_.cancel_share) {
      const std::chrono::duration<double> patience(std::exp(-5 + 6 * Uniform(random_)));
      cancel_at_.store(Ticks(Clock::now() + std::chrono::duration_cast<Clock::duration>(patience)));
    }
    StreamReader reader(report_.itl_ms);
    const Clock::time_point sent = Clock::now();
    const Result<cli::server::HttpReply> reply = cli::server::FetchHttp(
        {.method = "POST",
         .url = options_.url + "/v1/completions",
         .body = body.dump(),
         .authorization = options_.authorization,
         .on_data = [&reader](std::string_view piece) { reader.Push(piece); },
         .stop = &stop_});
    cancel_at_.store(kNever);
    Count(prompt, reply, reader, sent);
  }

  void Count(const Prompt& prompt, const Result<cli::server::HttpReply>& reply,
             const StreamReader& reader, Clock::time_point sent) {
    if (!reply && reply.error().code == ErrorCode::kCancelled) {
      ++report_.num_cancelled;
      return;
    }
    if (!reply) return Fail(reply.error().detail);
    if (reply->status == 429 || reply->status == 503) {
      ++report_.num_refused;
      std::this_thread::sleep_for(kRefusedPause);
      return;
    }
    if (reply->status != 200) return Fail(fmt::format("{}: {}", reply->status, reply->body));
    if (!reader.error().empty()) return Fail(reader.error());
    if (!reader.done() || !reader.usage().is_object()) return Fail("a stream without its end");
    ++report_.num_complete;
    report_.total_ms.push_back(MillisecondsSince(sent));
    if (!reader.text().empty()) report_.ttft_ms.push_back(reader.ttft_ms());
    const Json& usage = reader.usage();
    report_.num_prompt_tokens += usage.value("prompt_tokens", uint64_t{0});
    report_.num_output_tokens += usage.value("completion_tokens", uint64_t{0});
    report_.num_cached_tokens +=
        usage.value("prompt_tokens_details", Json::object()).value("cached_tokens", uint64_t{0});
    if (prompt.index >= 0 && !answers_.Agrees(prompt.index, reader.text())) {
      ++report_.num_different;
      if (report_.first_error.empty()) {
        report_.first_error = fmt::format("prompt {} got two different answers", prompt.index);
      }
    }
  }

  void Fail(std::string what) {
    ++report_.num_errors;
    if (report_.first_error.empty()) report_.first_error = std::move(what);
    std::this_thread::sleep_for(kRefusedPause);
  }

  const BenchLoadOptions& options_;
  const Prompts& prompts_;
  Answers& answers_;
  Random random_;
  std::atomic<bool> stop_{false};
  std::atomic<int64_t> cancel_at_{kNever};  // in ticks of the clock
  std::atomic<bool> done_{false};
  BenchLoadReport report_;
};

void Merge(BenchLoadReport& from, BenchLoadReport& into) {
  into.num_complete += from.num_complete;
  into.num_cancelled += from.num_cancelled;
  into.num_refused += from.num_refused;
  into.num_errors += from.num_errors;
  into.num_different += from.num_different;
  into.num_prompt_tokens += from.num_prompt_tokens;
  into.num_cached_tokens += from.num_cached_tokens;
  into.num_output_tokens += from.num_output_tokens;
  if (into.first_error.empty()) into.first_error = std::move(from.first_error);
  into.ttft_ms.insert(into.ttft_ms.end(), from.ttft_ms.begin(), from.ttft_ms.end());
  into.itl_ms.insert(into.itl_ms.end(), from.itl_ms.begin(), from.itl_ms.end());
  into.total_ms.insert(into.total_ms.end(), from.total_ms.begin(), from.total_ms.end());
}

Result<void> Check(const BenchLoadOptions& options) {
  const bool sensible = options.clients > 0 && options.prompts > 0 &&
                        options.shared_prefixes >= 0 && options.prompt_tokens_min > 0 &&
                        options.prompt_tokens_min <= options.prompt_tokens_max &&
                        options.token_id_min >= 0 && options.token_id_min <= options.token_id_max;
  if (!sensible) {
    return MakeError(ErrorCode::kInvalidArgument, "cli",
                     "bench serve: counts must be positive and ranges LOW:HIGH with LOW <= HIGH");
  }
  KVGATE_TRY(const std::string ready, cli::server::FetchOk({.url = options.url + "/ready"}));
  return {};
}

}  // namespace

Result<BenchLoadReport> RunBenchLoad(const BenchLoadOptions& options) {
  KVGATE_TRY_VOID(Check(options));
  const Prompts prompts(options);
  Answers answers;
  std::vector<std::unique_ptr<Client>> clients;
  for (int i = 0; i < options.clients; ++i) {
    clients.push_back(std::make_unique<Client>(
        options, prompts, answers, options.seed * 1'000'003 + static_cast<uint64_t>(i)));
  }
  const Clock::time_point begin = Clock::now();
  const Clock::time_point deadline = begin + std::chrono::duration_cast<Clock::duration>(
                                                 std::chrono::duration<double>(options.seconds));
  std::vector<std::thread> threads;
  for (const auto& client : clients) {
    threads.emplace_back([&client = *client, deadline] { client.Run(deadline); });
  }
  const auto running = [](const auto& client) { return !client->done(); };
  while (std::any_of(clients.begin(), clients.end(), running)) {
    for (const auto& client : clients) client->Watch();
    std::this_thread::sleep_for(kWatchInterval);
  }
  BenchLoadReport report;
  report.seconds = std::chrono::duration<double>(Clock::now() - begin).count();
  for (std::thread& thread : threads) thread.join();
  for (const auto& client : clients) Merge(client->report(), report);
  for (auto* list : {&report.ttft_ms, &report.itl_ms, &report.total_ms}) {
    std::sort(list->begin(), list->end());
  }
  return report;
}

float Percentile(const std::vector<float>& sorted, double share) {
  if (sorted.empty()) return 0;
  const double rank = std::ceil(share * static_cast<double>(sorted.size()));
  return sorted[static_cast<size_t>(std::clamp(rank - 1, 0.0, sorted.size() - 1.0))];
}

std::string ReportText(const BenchLoadReport& report) {
  const auto row = [](std::string_view name, const std::vector<float>& ms) {
    return fmt::format("{:<6} p50 {:>9.2f}  p95 {:>9.2f}  p99 {:>9.2f}  max {:>9.2f}  ms\n", name,
                       Percentile(ms, 0.5), Percentile(ms, 0.95), Percentile(ms, 0.99),
                       Percentile(ms, 1));
  };
  const double seconds = std::max(report.seconds, 1e-9);
  std::string text = fmt::format(
      "{} answers in {:.1f} s ({:.2f} a second), {} cancelled, {} refused, {} errors\n",
      report.num_complete, report.seconds, static_cast<double>(report.num_complete) / seconds,
      report.num_cancelled, report.num_refused, report.num_errors + report.num_different);
  text += fmt::format("prompt {} tokens, {} cached; output {} tokens, {:.1f} a second\n",
                      report.num_prompt_tokens, report.num_cached_tokens, report.num_output_tokens,
                      static_cast<double>(report.num_output_tokens) / seconds);
  text += row("TTFT", report.ttft_ms) + row("ITL", report.itl_ms) + row("total", report.total_ms);
  if (!report.first_error.empty()) text += fmt::format("first error: {}\n", report.first_error);
  return text;
}

std::string ReportJson(const BenchLoadReport& report) {
  const auto spread = [](const std::vector<float>& ms) {
    return Json{{"count", ms.size()},
                {"p50", Percentile(ms, 0.5)},
                {"p95", Percentile(ms, 0.95)},
                {"p99", Percentile(ms, 0.99)},
                {"max", Percentile(ms, 1)}};
  };
  const Json json{{"complete", report.num_complete},
                  {"cancelled", report.num_cancelled},
                  {"refused", report.num_refused},
                  {"errors", report.num_errors},
                  {"different", report.num_different},
                  {"first_error", report.first_error},
                  {"prompt_tokens", report.num_prompt_tokens},
                  {"cached_tokens", report.num_cached_tokens},
                  {"output_tokens", report.num_output_tokens},
                  {"seconds", report.seconds},
                  {"ttft_ms", spread(report.ttft_ms)},
                  {"itl_ms", spread(report.itl_ms)},
                  {"total_ms", spread(report.total_ms)}};
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace kvgate::bench
