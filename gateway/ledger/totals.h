// Totals holds sums over requests: in total and by upstream, model, tenant and version of the
// gateway's prompts, each tenant's
// use of today and this month, prompt tokens by source, and causes of broken prefixes. The
// sums count every request, including those whose records are gone, and outlive the process:
// changed sums are handed out as rows to be written beside the records. Not thread-safe.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "gateway/dialect/form/json_writer.h"
#include "gateway/ledger/request_record.h"
#include "gateway/upstream/exchange_observer.h"

namespace kvgate::ledger {

struct Sum {
  int64_t requests = 0;
  int64_t failed = 0;         // status 400 and above, or cut
  int64_t unknown_usage = 0;  // answered, but the tokens are unknown
  int64_t unknown_cost = 0;   // the tokens are known, but not the price
  int64_t uncached_tokens = 0;
  int64_t cache_read_tokens = 0;
  int64_t cache_write_tokens = 0;  // of any lifetime
  int64_t output_tokens = 0;
  int64_t nanodollars = 0;
  int64_t uncached_nanodollars = 0;
  int64_t direct_nanodollars = 0;
  // Set for budgets only: days since 1970 and months since year 0, and what was used in them.
  int64_t day = 0;
  int64_t day_nanodollars = 0;
  int64_t month = 0;
  int64_t month_nanodollars = 0;
  int64_t day_tokens = 0;  // of prompts, cached ones included, and of answers
  int64_t month_tokens = 0;
  bool changed = false;  // since the last write
  void Add(const RequestRecord& record);
};

// Input of the requests whose sources are known.
struct SourceSum {
  int64_t cached_tokens = 0;
  int64_t written_tokens = 0;
  int64_t uncached_tokens = 0;
  int64_t nanodollars = 0;  // known cost
  bool changed = false;
};

// Requests whose cached prefix ended early, by cause.
struct BreakSum {
  int64_t breaks = 0;
  int64_t lost_tokens = 0;
  int64_t lost_nanodollars = 0;
  bool changed = false;
};

class Totals {
 public:
  static constexpr size_t kSeriesMax = 256;  // per kind; further names count as "other"
  static constexpr size_t kSourcesMax = 16;
  static constexpr size_t kCausesMax = 32;

  void Add(const RequestRecord& record);
  // Returns what the tenant has used in the day and the month of `now_us`. Tenants beyond those
  // that are kept apart are held to their common sums, so that a flood of names escapes no budget.
  upstream::Spending Spent(std::string_view tenant, int64_t now_us) const;

  // Writes an object: {"since_us", "requests", …, "by_upstream": {NAME: …}, "by_model",
  // "by_tenant", "by_prompt_version" (where there are any), "by_source", "breaks": {CAUSE:
  // {"breaks", "lost_tokens", "lost_nanodollars"}}}.
  void Write(dialect::form::JsonWriter& json) const;
  // Writes one tenant's sums in the same form, with only that tenant in "by_tenant".
  void WriteTenant(std::string_view tenant, dialect::form::JsonWriter& json) const;
  // Calls `visit` for each upstream or model, for metrics.
  void ForEachUpstream(const std::function<void(const std::string&, const Sum&)>& visit) const;
  void ForEachModel(const std::function<void(const std::string&, const Sum&)>& visit) const;
  // The same for each "NAME@VERSION" of the gateway's prompts.
  void ForEachPrompt(const std::function<void(const std::string&, const Sum&)>& visit) const;
  // Calls `visit` for each tenant that has used anything in the month of `now_us`.
  void ForEachSpending(
      int64_t now_us,
      const std::function<void(const std::string&, const upstream::Spending&)>& visit) const;
  // Over all requests.
  Sum all() const;
  template <typename S>
  using SeriesOf = std::map<std::string, S, std::less<>>;
  const SeriesOf<SourceSum>& sources() const { return sources_; }
  const SeriesOf<BreakSum>& breaks() const { return breaks_; }

  // Returns rows "KIND/NAME" and their values that have changed since the last call.
  std::vector<std::pair<std::string, std::string>> TakeChanged();
  // Restores one such row; returns false if it cannot be read.
  bool Restore(std::string_view key, std::string_view value);

 private:
  enum Kind : size_t { kAll, kUpstream, kModel, kTenant, kPrompt, kNumKinds };
  using Series = SeriesOf<Sum>;
  Sum& At(Kind kind, std::string_view name);
  void AddPrompt(const RequestRecord& record);

  int64_t since_us_ = 0;
  Series series_[kNumKinds];
  SeriesOf<SourceSum> sources_;
  SeriesOf<BreakSum> breaks_;
};

}  // namespace kvgate::ledger
