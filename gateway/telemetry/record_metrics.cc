#include "gateway/telemetry/record_metrics.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace kvgate::telemetry {

using ledger::RequestRecord;
using ledger::reply::TokenUsage;
using metrics::TokenMetrics;
using metrics::TokenState;
using metrics::TokenTier;

namespace {

constexpr std::string_view kEviction = "provider_miss";  // the cause of a break

bool IsLocal(const RequestRecord& record) {
  return record.upstream == metrics::AnswerMetrics::kLocal;
}

double Seconds(int64_t us) { return static_cast<double>(us) / 1e6; }

using States = std::array<int64_t, metrics::kNumTokenStates>;

States StatesOf(const TokenUsage& usage) {
  return {usage.cache_read_tokens, usage.cache_write_tokens + usage.cache_write_1h_tokens,
          usage.uncached_tokens};
}

// Adds the tokens of each source, and what no source is known for as the user's, so that the sum is
// that of the usage.
void CountSources(const RequestRecord& record, TokenMetrics& tokens) {
  States rest = StatesOf(*record.usage);
  for (const ledger::SourceTokens& source : record.attribution) {
    const States part = {source.cached, source.written, source.uncached};
    for (size_t i = 0; i < part.size(); ++i) {
      const int64_t counted = std::clamp<int64_t>(part[i], 0, rest[i]);
      tokens.AddPrompt(source.source, static_cast<TokenState>(i), counted);
      rest[i] -= counted;
    }
  }
  for (size_t i = 0; i < rest.size(); ++i) {
    tokens.AddPrompt("user", static_cast<TokenState>(i), rest[i]);
  }
}

void CountTiers(const RequestRecord& record, TokenMetrics& tokens) {
  int64_t rest = record.usage->input_tokens();
  const auto add = [&](TokenTier tier, int64_t num_tokens) {
    const int64_t counted = std::clamp<int64_t>(num_tokens, 0, rest);
    tokens.AddTier(tier, counted);
    rest -= counted;
  };
  if (!IsLocal(record)) {
    add(TokenTier::kUpstream, record.usage->cache_read_tokens);
  } else if (record.tiers) {
    add(TokenTier::kGpu, record.tiers->device);
    add(TokenTier::kRam, record.tiers->host);
    add(TokenTier::kDisk, record.tiers->disk);
    add(TokenTier::kShared, record.tiers->shared);
  }
  add(TokenTier::kCompute, rest);
}

void ObserveTimes(const RequestRecord& record, metrics::AnswerTimes& times) {
  const ledger::RequestTimings& timings = record.timings;
  times.request_seconds.Observe(Seconds(timings.total_us));
  if (timings.queue_us >= 0) times.queue_seconds.Observe(Seconds(timings.queue_us));
  if (record.usage) {
    times.prompt_tokens.Observe(static_cast<double>(record.usage->input_tokens()));
  }
  // The first byte of an answer that comes as a whole says nothing of its first token.
  if (!record.stream || timings.ttft_us < 0) return;
  times.ttft_seconds.Observe(Seconds(timings.ttft_us));
  const int64_t waited_us = std::max<int64_t>(0, timings.queue_us);
  times.prefill_seconds.Observe(Seconds(std::max<int64_t>(0, timings.ttft_us - waited_us)));
  if (timings.decode_us >= 0) times.decode_seconds.Observe(Seconds(timings.decode_us));
  if (timings.tpot_us >= 0) times.tpot_seconds.Observe(Seconds(timings.tpot_us));
}

}  // namespace

bool IsAnswered(const RequestRecord& record) {
  return dialect::form::IsGeneration(record.endpoint) && record.status >= 200 &&
         record.status < 300 && record.outcome == "complete" && record.timings.total_us >= 0;
}

void CountRecord(const RequestRecord& record, metrics::GatewayMetrics& metrics) {
  if (record.usage) {
    CountSources(record, metrics.tokens);
    CountTiers(record, metrics.tokens);
    metrics.tokens.generated.Add(static_cast<uint64_t>(record.usage->output_tokens));
  }
  if (record.upstream.empty()) return;
  // Adding nothing makes the series, so that a query finds it before the first eviction.
  const bool is_evicted = record.prefix_break && record.prefix_break->cause == kEviction;
  metrics.tokens.upstream_evictions.With({record.upstream}).Add(is_evicted ? 1 : 0);
  if (!IsLocal(record) && IsAnswered(record)) {
    ObserveTimes(record, metrics.answers.Of(record.upstream));
  }
}

}  // namespace kvgate::telemetry
