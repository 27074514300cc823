// Replay sends a trace through all columns and reports the results as a table, as JSON, and against
// thresholds.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "gateway/replay/columns.h"
#include "gateway/replay/trace.h"

namespace kvgate::replay {

struct ReplayOptions {
  ColumnOptions columns;
  std::vector<prompt::Mode> modes;
  std::string model;      // replaces the model of each body; empty: keeps it
  size_t num_warmup = 0;  // requests at the front that only teach and are not counted
};

struct ReplayResult {
  size_t num_requests = 0;  // replayed
  size_t num_skipped = 0;   // requests to endpoints without a prompt
  struct ColumnResult {
    std::string name;  // "direct", "oracle" or the name of a mode
    ProviderTotals totals;
  };
  std::vector<ColumnResult> columns;
};

// `progress` gets the number of requests done so far, and may be empty. Fails with kInvalidArgument
// if a line of the trace cannot be read, or if its provider does not speak the request's dialect.
Result<ReplayResult> RunReplay(TraceReader& trace, const ReplayOptions& options,
                               const std::function<void(size_t)>& progress);

std::string ReplayText(const ReplayResult& result);
std::string ReplayJson(const ReplayResult& result);

// A value of 0 sets no threshold.
struct Thresholds {
  double hit_rate_min = 0;      // of each mode at each provider
  double cost_ratio_max = 0;    // each mode's cost relative to direct
  double oracle_ratio_min = 0;  // each mode's cached tokens relative to the oracle's
};
// Returns one line for each threshold that is missed; empty if all are met. `observe` is skipped if
// there are other modes. An unknown cost misses every bound.
std::vector<std::string> Misses(const ReplayResult& result, const Thresholds& thresholds);

}  // namespace kvgate::replay
