// A budget is what a tenant may use in a calendar day or month of UTC: dollars or tokens. This file
// says which budgets hold for whom, how much of each is used, when it renews, and refuses what is
// beyond. It counts nothing itself: the ledger's sums are handed in. Pure; any thread may call it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "gateway/config/config.h"
#include "gateway/upstream/exchange_observer.h"

namespace kvgate::access {

enum class BudgetKind : uint8_t {
  kDollarsPerDay,
  kDollarsPerMonth,
  kTokensPerDay,
  kTokensPerMonth
};
inline constexpr size_t kNumBudgetKinds = 4;
std::string_view BudgetName(BudgetKind kind);  // as the configuration spells it

struct Budget {
  BudgetKind kind = BudgetKind::kDollarsPerDay;
  double limit = 0;      // dollars or tokens; above 0
  double used = 0;       // of the same unit
  int64_t begin_us = 0;  // of the day or month, in microseconds since 1970
  int64_t renews_us = 0;

  double share() const { return used / limit; }
  double left() const { return used < limit ? limit - used : 0; }
  bool is_used_up() const { return used >= limit; }
};

// Returns the budgets that the limits set, with what is used of them in the day and month of
// `now_us`. REQUIRES: `spending` is of that day and month.
std::vector<Budget> BudgetsOf(const config::BudgetLimits& limits,
                              const upstream::Spending& spending, int64_t now_us);

// Fails with kRateLimited if a budget is used up. The error says how much was used of it, and when
// it renews; of several, the one that renews last. `who` begins its sentence: "The key 'alice'".
Result<void> CheckBudgets(std::string_view who, std::span<const Budget> budgets, int64_t now_us);

// Returns "2026-11-28T00:00:00Z"; parts of a second are left out.
std::string IsoTime(int64_t time_us);

// The limits of all tenants, from one configuration. Immutable.
class BudgetTable {
 public:
  BudgetTable() = default;
  BudgetTable(const std::vector<config::KeyConfig>& keys, const config::BudgetLimits& tenant,
              std::vector<double> thresholds = {});

  // Returns true if no tenant has a limit.
  bool empty() const { return is_empty_; }
  // A key's own limits, and those of every tenant where it sets none.
  const config::BudgetLimits& LimitsOf(std::string_view tenant) const;
  // Keys by name, with their limits.
  const std::map<std::string, config::BudgetLimits, std::less<>>& keys() const { return keys_; }
  // Shares of a budget that are reported when they are reached.
  const std::vector<double>& thresholds() const { return thresholds_; }

 private:
  bool is_empty_ = true;
  config::BudgetLimits tenant_ = {};
  std::map<std::string, config::BudgetLimits, std::less<>> keys_ = {};
  std::vector<double> thresholds_ = {};
};

}  // namespace kvgate::access
