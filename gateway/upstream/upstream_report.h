// UpstreamReport: how all upstreams are, for the statistics and the metrics.
#pragma once

#include <functional>
#include <string_view>

#include "gateway/dialect/form/json_writer.h"
#include "gateway/upstream/upstreams.h"

namespace kvgate::upstream {

// Writes an array, in the order of the configuration: [{"name", "provider", "dialect", "mode",
// "models", "breaker": "closed" | "open" | "half_open", "retry_us", "requests_active", "requests",
// "failed", "ttft_us": {"p50", "p90", "p99"}, "tpot_us": {…}}]. "retry_us" is the time, since 1970,
// at which an upstream whose breaker is open is tried again; 0: it is closed. Percentiles are of
// the streams of the last hour; null: there were none.
void WriteUpstreams(const Upstreams& upstreams, dialect::form::JsonWriter& json);

// The state of an upstream's breaker: "closed", "open" or "half_open".
std::string_view BreakerStateName(Breaker::State state);

}  // namespace kvgate::upstream
