#include "gateway/upstream/upstream_report.h"

#include <chrono>
#include <memory>
#include <optional>
#include <string>

#include "base/clock.h"

namespace kvgate::upstream {
namespace {

using dialect::form::JsonWriter;

void WritePercentiles(std::string_view key,
                      const std::optional<LatencyWindow::Percentiles>& percentiles,
                      JsonWriter& json) {
  json.Key(key).BeginObject();
  const auto write = [&](std::string_view name, int64_t LatencyWindow::Percentiles::*value) {
    json.Key(name);
    if (percentiles) {
      json.Integer(*percentiles.*value);
    } else {
      json.Null();
    }
  };
  write("p50", &LatencyWindow::Percentiles::p50_us);
  write("p90", &LatencyWindow::Percentiles::p90_us);
  write("p99", &LatencyWindow::Percentiles::p99_us);
  json.EndObject();
}

void WriteUpstream(Upstream& upstream, JsonWriter& json) {
  const SteadyClock::time_point now = SteadyClock::now();
  const Breaker::State state = upstream.breaker().state(now);
  const std::chrono::microseconds pause = upstream.breaker().until_trial(now);
  const UpstreamMeter::Numbers numbers = upstream.meter()->numbers();
  const config::UpstreamConfig& config = upstream.config();
  json.BeginObject().Key("name").String(upstream.name());
  json.Key("provider").String(upstream.provider()).Key("dialect").String(config.dialect);
  json.Key("mode").String(config.mode).Key("models").BeginArray();
  for (const std::string& model : config.models) json.String(model);
  json.EndArray().Key("breaker").String(BreakerStateName(state));
  json.Key("retry_us");
  json.Integer(state == Breaker::State::kClosed ? 0 : WallClock::NowUs() + pause.count());
  json.Key("requests_active").Integer(numbers.active);
  json.Key("requests").Unsigned(numbers.requests).Key("failed").Unsigned(numbers.failed);
  WritePercentiles("ttft_us", numbers.ttft, json);
  WritePercentiles("tpot_us", numbers.tpot, json);
  json.EndObject();
}

}  // namespace

std::string_view BreakerStateName(Breaker::State state) {
  switch (state) {
    case Breaker::State::kClosed:
      return "closed";
    case Breaker::State::kOpen:
      return "open";
    case Breaker::State::kHalfOpen:
      break;
  }
  return "half_open";
}

void WriteUpstreams(const Upstreams& upstreams, JsonWriter& json) {
  json.BeginArray();
  for (const std::shared_ptr<Upstream>& upstream : upstreams.all()) WriteUpstream(*upstream, json);
  json.EndArray();
}

}  // namespace kvgate::upstream
