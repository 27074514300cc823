// Columns: ways in which a trace can be sent, each with providers of its own to answer it: as it
// came (direct), or through the optimizer in one of its modes; and the oracle, which is asked
// instead. What they come to is compared by Replay. Not thread-safe.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include <kvgate/result.h>

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

// Of one column at one provider.
struct ColumnTotals {
  int64_t num_requests = 0;  // answered and counted
  int64_t num_refused = 0;
  std::string refusal;  // of the first one
  ledger::TokenUsage usage;
  int64_t nanodollars = 0;
  // Their prices are not known, but the factors of cached and written tokens: what they cost is
  // counted as if a million uncached tokens were one dollar.
  int64_t num_relative = 0;
  int64_t num_unpriced = 0;                                // not even these are
  std::map<std::string, BreakTotals, std::less<>> breaks;  // by cause
  std::map<std::string, int64_t, std::less<>> edits;       // by rule
  double hit_rate() const;                                 // of input tokens; 0 without any
};
using ProviderTotals = std::map<std::string, ColumnTotals, std::less<>>;

// What has been sent of a request, and what its provider said.
struct SentBody {
  std::string_view column;
  size_t request = 0;  // its index in the trace
  std::string_view body;
  const prompt::Prepared& prepared;  // of direct an empty one
  const SimulatedAnswer& answer;
};
using SentSink = std::function<void(const SentBody&)>;

struct ColumnOptions {
  const ledger::Prices& prices = ledger::Prices::Builtin();
  bool overflows = false;     // as CacheModel's
  int num_servers = 1;        // as CacheModel's
  std::string provider = {};  // whose rules count instead of the trace's own; empty: those
  uint32_t rules_off = 0;     // bit by prompt::Rule
  SentSink sent = {};         // may be empty
};

class Column {
 public:
  virtual ~Column() = default;
  // Requests come in the order of their times. Counted are those behind the ones that only teach.
  virtual void Feed(const TraceRequest& request, size_t index, bool counted) = 0;
  // All answers have ended.
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
