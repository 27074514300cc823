// `kvgate stats --by` and `kvgate stats export`: sums by name over a span of time, and the records
// themselves, from the server that holds the data directory or from the directory itself.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"
#include "gateway/cli/options.h"
#include "gateway/cli/server/server_target.h"

namespace kvgate::cli {

struct StatsByArgs {
  const ConfigFlags& config;
  const server::TargetFlags& target;
  std::string by = {};     // "source", "model", … or "day"
  std::string since = {};  // "7d", "36h", "90m"; empty: 30 days
  bool json = false;
};
Result<int> StatsBy(const StatsByArgs& args);

struct ExportArgs {
  const ConfigFlags& config;
  const server::TargetFlags& target;
  std::string since = {};  // as above; empty: all records
  bool csv = false;        // else a line of JSON for each
};
// Writes records to stdout, newest first, with memory for some of them only.
Result<int> ExportRecords(const ExportArgs& args);

// Returns microseconds of "7d", "36h", "90m" or "45s". Fails with kInvalidArgument, which says what
// is understood.
Result<int64_t> ParseSpan(std::string_view text);

}  // namespace kvgate::cli
