// Totals: sums over requests, as a whole and by upstream, model and tenant, what a tenant has spent
// today and this month, tokens of prompts by source, and what broke their cached prefixes. They
// count every request, also those whose records are gone, and outlive the process: changed sums are
// handed out as rows to be written beside the records. Not thread-safe.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "gateway/ledger/request_record.h"
#include "gateway/protocol/json_writer.h"
#include "gateway/upstream/exchange_observer.h"

namespace kvgate::ledger {

struct Sum {
  int64_t requests = 0;
  int64_t failed = 0;         // status 400 and above, or cut
  int64_t unknown_usage = 0;  // answered, and the tokens are not known
  int64_t unknown_cost = 0;   // tokens are known, the price is not
  int64_t uncached_tokens = 0;
  int64_t cache_read_tokens = 0;
  int64_t cache_write_tokens = 0;  // of any lifetime
  int64_t output_tokens = 0;
  int64_t nanodollars = 0;
  int64_t uncached_nanodollars = 0;
  // Only of tenants: days since 1970 and months since year 0, and what was spent in them.
  int64_t day = 0;
  int64_t day_nanodollars = 0;
  int64_t month = 0;
  int64_t month_nanodollars = 0;
  bool changed = false;  // since it was last written
  void Add(const RequestRecord& record);
};

// The input of requests whose parts are known.
struct SourceSum {
  int64_t cached_tokens = 0;
  int64_t written_tokens = 0;
  int64_t uncached_tokens = 0;
  int64_t nanodollars = 0;  // known cost
  bool changed = false;
};

// The requests whose cached prefix ended early, by cause.
struct BreakSum {
  int64_t breaks = 0;
  int64_t lost_tokens = 0;
  int64_t lost_nanodollars = 0;
  bool changed = false;
};

class Totals {
 public:
  static constexpr size_t kSeriesMax = 256;  // of each kind; what comes later is "other"
  static constexpr size_t kSourcesMax = 16;
  static constexpr size_t kCausesMax = 32;

  void Add(const RequestRecord& record);
  upstream::Spending Spent(std::string_view tenant, int64_t now_us) const;

  // As an object: {"since", "requests", …, "by_upstream": {NAME: …}, "by_model", "by_tenant",
  // "by_source", "breaks": {CAUSE: {"breaks", "lost_tokens", "lost_nanodollars"}}}.
  void Write(protocol::JsonWriter& json) const;
  // In the same form what one tenant has: the sums, and "by_tenant" with it alone.
  void WriteTenant(std::string_view tenant, protocol::JsonWriter& json) const;
  // Upstream by upstream, for metrics.
  void ForEachUpstream(const std::function<void(const std::string&, const Sum&)>& visit) const;
  void ForEachModel(const std::function<void(const std::string&, const Sum&)>& visit) const;
  template <typename S>
  using SeriesOf = std::map<std::string, S, std::less<>>;
  const SeriesOf<SourceSum>& sources() const { return sources_; }
  const SeriesOf<BreakSum>& breaks() const { return breaks_; }

  // Rows "KIND/NAME" that have changed since the last call.
  std::vector<std::pair<std::string, std::string>> TakeChanged();
  // One such row; false: it is none.
  bool Restore(std::string_view key, std::string_view value);

 private:
  enum Kind : size_t { kAll, kUpstream, kModel, kTenant, kNumKinds };
  using Series = SeriesOf<Sum>;
  Sum& At(Kind kind, std::string_view name);
  void AddPrompt(const RequestRecord& record);

  int64_t since_us_ = 0;
  Series series_[kNumKinds];
  SeriesOf<SourceSum> sources_;
  SeriesOf<BreakSum> breaks_;
};

}  // namespace kvgate::ledger
