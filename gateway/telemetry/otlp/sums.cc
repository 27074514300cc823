#include "gateway/telemetry/otlp/sums.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

namespace kvgate::telemetry::otlp {

using dialect::form::JsonWriter;

namespace {

constexpr int kCumulative = 2;
constexpr std::string_view kOther = "other";

// The bounds that the conventions advise.
constexpr double kDurationBounds[] = {0.01, 0.02, 0.04, 0.08,  0.16,  0.32,  0.64,
                                      1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92};
constexpr double kFirstBounds[] = {0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1,
                                   0.25,  0.5,   0.75, 1.0,  2.5,  5.0,  7.5,  10.0};
constexpr double kTokenTimeBounds[] = {0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2,
                                       0.3,  0.4,   0.5,  0.75,  1.0, 2.5};
constexpr double kTokenBounds[] = {1,     4,     16,     64,      256,     1024,     4096,
                                   16384, 65536, 262144, 1048576, 4194304, 16777216, 67108864};

std::string Nanoseconds(int64_t us) { return fmt::format("{}000", us); }

}  // namespace

struct Sums::HistogramName {
  std::string_view name;
  std::string_view unit;
  Histogram Series::*values;
  std::span<const double> bounds;
  std::string_view token_type;  // of the older metric that has both in one
  enum class Who : uint8_t { kAll, kLocal } who;
};

struct Sums::CounterName {
  std::string_view name;
  int64_t Series::*value;
};

// One name stands in one row, or in several that follow each other.
const Sums::HistogramName Sums::kHistograms[] = {
    {"gen_ai.client.operation.duration", "s", &Series::duration, kDurationBounds, "",
     HistogramName::Who::kAll},
    {"gen_ai.client.operation.time_to_first_chunk", "s", &Series::first_chunk, kFirstBounds, "",
     HistogramName::Who::kAll},
    {"gen_ai.client.operation.time_per_output_chunk", "s", &Series::per_token, kTokenTimeBounds, "",
     HistogramName::Who::kAll},
    {"gen_ai.client.token.usage", "{token}", &Series::input, kTokenBounds, "input",
     HistogramName::Who::kAll},
    {"gen_ai.client.token.usage", "{token}", &Series::output, kTokenBounds, "output",
     HistogramName::Who::kAll},
    {"gen_ai.server.request.duration", "s", &Series::duration, kDurationBounds, "",
     HistogramName::Who::kLocal},
    {"gen_ai.server.time_to_first_token", "s", &Series::first_chunk, kFirstBounds, "",
     HistogramName::Who::kLocal},
    {"gen_ai.server.time_per_output_token", "s", &Series::per_token, kTokenTimeBounds, "",
     HistogramName::Who::kLocal},
};

const Sums::CounterName Sums::kCounters[] = {
    {"gen_ai.client.inference.usage.input_tokens", &Series::input_tokens},
    {"gen_ai.client.inference.usage.output_tokens", &Series::output_tokens},
    {"gen_ai.client.inference.usage.cache_read.input_tokens", &Series::cache_read_tokens},
    {"gen_ai.client.inference.usage.cache_write.input_tokens", &Series::cache_write_tokens},
    {"gen_ai.client.inference.usage.reasoning.output_tokens", &Series::reasoning_tokens},
};

void Sums::Histogram::Observe(double value, std::span<const double> bounds) {
  if (counts.empty()) counts.resize(bounds.size() + 1);
  const auto bound = std::lower_bound(bounds.begin(), bounds.end(), value);
  ++counts[static_cast<size_t>(bound - bounds.begin())];
  sum += value;
  ++count;
}

Sums::Series& Sums::At(Key key) {
  if (series_.size() + 1 >= kSeriesMax && !series_.contains(key)) {
    key = {.operation = std::string(kOther),
           .provider = std::string(kOther),
           .model = std::string(kOther),
           .error_type = "",
           .is_local = key.is_local};
  }
  return series_[std::move(key)];
}

void Sums::Add(const Span& span) {
  // A refused request may name any model.
  const bool is_known = span.status < 400 && !span.model.empty();
  Series& series = At({.operation = std::string(span.operation),
                       .provider = span.provider,
                       .model = is_known ? span.model : std::string(kOther),
                       .error_type = span.error_type,
                       .is_local = span.is_local});
  series.duration.Observe(static_cast<double>(span.duration_us) / 1e6, kDurationBounds);
  if (span.error_type.empty() && span.first_chunk_us >= 0) {
    series.first_chunk.Observe(static_cast<double>(span.first_chunk_us) / 1e6, kFirstBounds);
    if (span.tpot_us >= 0) {
      series.per_token.Observe(static_cast<double>(span.tpot_us) / 1e6, kTokenTimeBounds);
    }
  }
  if (!span.usage) return;
  const ledger::reply::TokenUsage& usage = *span.usage;
  series.input.Observe(static_cast<double>(usage.input_tokens()), kTokenBounds);
  series.output.Observe(static_cast<double>(usage.output_tokens), kTokenBounds);
  series.input_tokens += usage.input_tokens();
  series.output_tokens += usage.output_tokens;
  series.cache_read_tokens += usage.cache_read_tokens;
  series.cache_write_tokens += usage.cache_write_tokens + usage.cache_write_1h_tokens;
  series.reasoning_tokens += usage.reasoning_tokens;
}

void Sums::WriteKey(const Key& key, std::string_view token_type, JsonWriter& json) {
  json.Key("attributes").BeginArray();
  WriteAttribute("gen_ai.operation.name", key.operation, json);
  WriteAttribute("gen_ai.provider.name", key.provider, json);
  WriteAttribute("gen_ai.request.model", key.model, json);
  if (!key.error_type.empty()) WriteAttribute("error.type", key.error_type, json);
  if (!token_type.empty()) WriteAttribute("gen_ai.token.type", token_type, json);
  json.EndArray();
}

void Sums::WriteHistogram(const HistogramName& name, int64_t now_us, JsonWriter& json) const {
  for (const auto& [key, series] : series_) {
    const Histogram& values = series.*name.values;
    if (values.count == 0) continue;
    if (name.who == HistogramName::Who::kLocal && !key.is_local) continue;
    json.BeginObject();
    WriteKey(key, name.token_type, json);
    json.Key("startTimeUnixNano").String(Nanoseconds(start_us_));
    json.Key("timeUnixNano").String(Nanoseconds(now_us));
    json.Key("count").String(fmt::format("{}", values.count)).Key("sum").Number(values.sum);
    json.Key("bucketCounts").BeginArray();
    for (const uint64_t count : values.counts) json.String(fmt::format("{}", count));
    json.EndArray().Key("explicitBounds").BeginArray();
    for (const double bound : name.bounds) json.Number(bound);
    json.EndArray().EndObject();
  }
}

void Sums::WriteCounter(const CounterName& name, int64_t now_us, JsonWriter& json) const {
  json.BeginObject().Key("name").String(name.name).Key("unit").String("{token}");
  json.Key("sum").BeginObject().Key("aggregationTemporality").Integer(kCumulative);
  json.Key("isMonotonic").Bool(true).Key("dataPoints").BeginArray();
  for (const auto& [key, series] : series_) {
    json.BeginObject().Key("attributes").BeginArray();
    WriteAttribute("gen_ai.operation.name", key.operation, json);
    WriteAttribute("gen_ai.provider.name", key.provider, json);
    WriteAttribute("gen_ai.request.model", key.model, json);
    if (!key.error_type.empty()) WriteAttribute("error.type", key.error_type, json);
    WriteAttribute("gen_ai.token.modality", "text", json);
    json.EndArray().Key("startTimeUnixNano").String(Nanoseconds(start_us_));
    json.Key("timeUnixNano").String(Nanoseconds(now_us));
    json.Key("asInt").String(fmt::format("{}", series.*name.value)).EndObject();
  }
  json.EndArray().EndObject().EndObject();
}

void Sums::Write(int64_t now_us, JsonWriter& json) const {
  for (const CounterName& counter : kCounters) WriteCounter(counter, now_us, json);
  std::string_view before;
  for (const HistogramName& histogram : kHistograms) {
    if (histogram.name != before) {
      if (!before.empty()) json.EndArray().EndObject().EndObject();
      before = histogram.name;
      json.BeginObject().Key("name").String(histogram.name).Key("unit").String(histogram.unit);
      json.Key("histogram").BeginObject().Key("aggregationTemporality").Integer(kCumulative);
      json.Key("dataPoints").BeginArray();
    }
    WriteHistogram(histogram, now_us, json);
  }
  json.EndArray().EndObject().EndObject();
}

}  // namespace kvgate::telemetry::otlp
