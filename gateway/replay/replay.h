// Replay: a trace through all columns, and what they came to: as a table, as JSON, and against
// thresholds.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <kvgate/result.h>

#include "gateway/replay/columns.h"
#include "gateway/replay/trace.h"

namespace kvgate::replay {

struct ReplayOptions {
  ColumnOptions columns;
  std::vector<prompt::Mode> modes;
  std::string model;      // in place of each body's own; empty: those
  size_t num_warmup = 0;  // requests at the front that teach and are not counted
};

struct ReplayResult {
  size_t num_requests = 0;  // replayed
  size_t num_skipped = 0;   // not of an endpoint that has a prompt
  struct ColumnResult {
    std::string name;  // "direct", a mode's, "oracle"
    ProviderTotals totals;
  };
  std::vector<ColumnResult> columns;
};

// `progress` gets the requests done so far, and may be empty. kInvalidArgument: a line of the trace
// that cannot be read, or that its provider does not speak.
Result<ReplayResult> RunReplay(TraceReader& trace, const ReplayOptions& options,
                               const std::function<void(size_t)>& progress);

std::string ReplayText(const ReplayResult& result);
std::string ReplayJson(const ReplayResult& result);

// 0: not asked for.
struct Thresholds {
  double hit_rate_min = 0;      // of each mode at each provider
  double cost_ratio_max = 0;    // of each mode to direct
  double oracle_ratio_min = 0;  // of each mode's cached tokens to the oracle's
};
// What is not met, a line each, `observe` left out where there are other modes; empty: all is.
// A cost that is not known meets no bound.
std::vector<std::string> Misses(const ReplayResult& result, const Thresholds& thresholds);

}  // namespace kvgate::replay
