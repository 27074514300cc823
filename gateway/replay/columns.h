// A Column is one way to send a trace, with simulated providers of its own: unchanged (direct), or
// through the optimizer in one of its modes. The oracle column asks the oracle instead. Replay
// compares the results. Not thread-safe.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "base/result.h"
#include "gateway/ledger/prices.h"
#include "gateway/prompt/optimizer.h"
#include "gateway/replay/cache_model.h"
#include "gateway/replay/oracle.h"
#include "gateway/replay/trace.h"

namespace kvgate::replay {

struct BreakTotals {
  int64_t count = 0;
  int64_t lost_tokens = 0;
  int64_t lost_nanodollars = 0;
};

// The results of one column at one provider.
struct ColumnTotals {
  int64_t num_requests = 0;  // answered and counted
  int64_t num_refused = 0;
  std::string refusal;  // message of the first one
  ledger::reply::TokenUsage usage;
  int64_t nanodollars = 0;
  // Requests whose prices are unknown, but whose factors for cached and written tokens are known.
  // Their cost is counted as if a million uncached tokens cost one dollar.
  int64_t num_relative = 0;
  int64_t num_unpriced = 0;                                // neither prices nor factors are known
  std::map<std::string, BreakTotals, std::less<>> breaks;  // by cause
  std::map<std::string, int64_t, std::less<>> edits;       // by rule
  double hit_rate() const;                                 // share of input tokens; 0 without any
};
using ProviderTotals = std::map<std::string, ColumnTotals, std::less<>>;

// A request as it was sent, and the provider's answer.
struct SentBody {
  std::string_view column;
  size_t request = 0;  // its index in the trace
  std::string_view body;
  const prompt::Prepared& prepared;  // empty for direct
  const SimulatedAnswer& answer;
};
using SentSink = std::function<void(const SentBody&)>;

struct ColumnOptions {
  const ledger::Prices& prices = ledger::Prices::Builtin();
  bool overflows = false;     // see CacheModel::Options
  int num_servers = 1;        // see CacheModel::Options
  std::string provider = {};  // replaces the trace's providers; empty: keeps them
  uint32_t rules_off = 0;     // one bit per prompt::parse::Rule
  SentSink sent = {};         // may be empty
};

class Column {
 public:
  virtual ~Column() = default;
  // Requests must come in time order. Warm-up requests, which only teach, have `counted` = false.
  virtual void Feed(const TraceRequest& request, size_t index, bool counted) = 0;
  // Called when all requests were fed; ends the answers that are still running.
  virtual void End() {}
  const std::string& name() const { return name_; }
  const ProviderTotals& totals() const { return totals_; }

 protected:
  explicit Column(std::string name) : name_(std::move(name)) {}
  ColumnTotals& TotalsOf(std::string_view provider);

 private:
  const std::string name_;
  ProviderTotals totals_;
};

std::unique_ptr<Column> MakeDirectColumn(const ColumnOptions& options);
std::unique_ptr<Column> MakeOracleColumn(const ColumnOptions& options);
std::unique_ptr<Column> MakeModeColumn(prompt::Mode mode, const ColumnOptions& options);

}  // namespace kvgate::replay
