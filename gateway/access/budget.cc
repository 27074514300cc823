#include "gateway/access/budget.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <utility>

namespace kvgate::access {
namespace {

using std::chrono::days;
using std::chrono::microseconds;
using std::chrono::sys_days;
using std::chrono::year_month_day;

constexpr int64_t kSecondUs = 1'000'000;

struct Period {
  int64_t begin_us = 0;
  int64_t end_us = 0;
};

int64_t ToUs(sys_days day) { return microseconds(day.time_since_epoch()).count(); }

sys_days DayOf(int64_t time_us) {
  return std::chrono::floor<days>(std::chrono::sys_time<microseconds>(microseconds(time_us)));
}

Period DayAround(int64_t now_us) {
  const sys_days day = DayOf(now_us);
  return {.begin_us = ToUs(day), .end_us = ToUs(day + days(1))};
}

Period MonthAround(int64_t now_us) {
  const year_month_day date(DayOf(now_us));
  const auto month = date.year() / date.month();
  return {.begin_us = ToUs(sys_days(month / std::chrono::day(1))),
          .end_us = ToUs(sys_days((month + std::chrono::months(1)) / std::chrono::day(1)))};
}

bool IsDollars(BudgetKind kind) {
  return kind == BudgetKind::kDollarsPerDay || kind == BudgetKind::kDollarsPerMonth;
}

std::string_view PeriodName(BudgetKind kind) {
  const bool is_day = kind == BudgetKind::kDollarsPerDay || kind == BudgetKind::kTokensPerDay;
  return is_day ? "day" : "month";
}

// Writes "10.02 of its 10.00 dollars"; small limits have as many decimals as three of their digits
// take.
std::string Amounts(const Budget& budget) {
  if (!IsDollars(budget.kind)) {
    return fmt::format("{:.0f} of its {:.0f} tokens", budget.used, budget.limit);
  }
  const int magnitude = static_cast<int>(std::floor(std::log10(budget.limit)));
  const int decimals = std::clamp(2 - magnitude, 2, 9);
  return fmt::format("{:.{}f} of its {:.{}f} dollars", budget.used, decimals, budget.limit,
                     decimals);
}

// Writes "5 h 12 min": the two largest units.
std::string Duration(int64_t seconds) {
  if (seconds < 60) return fmt::format("{} s", seconds);
  const int64_t minutes = seconds / 60;
  if (minutes < 60) return fmt::format("{} min", minutes);
  const int64_t hours = minutes / 60;
  if (hours < 24) return fmt::format("{} h {} min", hours, minutes % 60);
  return fmt::format("{} d {} h", hours / 24, hours % 24);
}

}  // namespace

std::string_view BudgetName(BudgetKind kind) {
  static constexpr std::string_view kNames[] = {"dollars_per_day", "dollars_per_month",
                                                "tokens_per_day", "tokens_per_month"};
  return kNames[static_cast<size_t>(kind)];
}

std::vector<Budget> BudgetsOf(const config::BudgetLimits& limits,
                              const upstream::Spending& spending, int64_t now_us) {
  std::vector<Budget> budgets;
  if (limits == config::BudgetLimits()) return budgets;
  budgets.reserve(kNumBudgetKinds);
  const auto add = [&](BudgetKind kind, double limit, double used, const Period& period) {
    if (!(limit > 0)) return;
    budgets.push_back({.kind = kind,
                       .limit = limit,
                       .used = used,
                       .begin_us = period.begin_us,
                       .renews_us = period.end_us});
  };
  const Period day = DayAround(now_us);
  const Period month = MonthAround(now_us);
  add(BudgetKind::kDollarsPerDay, limits.dollars_per_day, spending.dollars_today, day);
  add(BudgetKind::kDollarsPerMonth, limits.dollars_per_month, spending.dollars_this_month, month);
  add(BudgetKind::kTokensPerDay, static_cast<double>(limits.tokens_per_day),
      static_cast<double>(spending.tokens_today), day);
  add(BudgetKind::kTokensPerMonth, static_cast<double>(limits.tokens_per_month),
      static_cast<double>(spending.tokens_this_month), month);
  return budgets;
}

Result<void> CheckBudgets(std::string_view who, std::span<const Budget> budgets, int64_t now_us) {
  const Budget* last = nullptr;
  for (const Budget& budget : budgets) {
    if (!budget.is_used_up()) continue;
    if (last == nullptr || budget.renews_us > last->renews_us) last = &budget;
  }
  if (last == nullptr) return {};
  const int64_t seconds = (last->renews_us - now_us + kSecondUs - 1) / kSecondUs;
  Error error = MakeError(
      ErrorCode::kRateLimited, "keys",
      fmt::format("{} has used {} a {}; the budget renews at {} (in {}).", who, Amounts(*last),
                  PeriodName(last->kind), IsoTime(last->renews_us), Duration(seconds)));
  error.retry_after_seconds = static_cast<int>(std::max<int64_t>(1, seconds));
  return error;
}

std::string IsoTime(int64_t time_us) {
  const sys_days day = DayOf(time_us);
  const year_month_day date(day);
  const int64_t second = (time_us - ToUs(day)) / kSecondUs;
  return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}Z", static_cast<int>(date.year()),
                     static_cast<unsigned>(date.month()), static_cast<unsigned>(date.day()),
                     second / 3600, second / 60 % 60, second % 60);
}

BudgetTable::BudgetTable(const std::vector<config::KeyConfig>& keys,
                         const config::BudgetLimits& tenant, std::vector<double> thresholds)
    : is_empty_(tenant == config::BudgetLimits()),
      tenant_(tenant),
      thresholds_(std::move(thresholds)) {
  for (const config::KeyConfig& key : keys) {
    config::BudgetLimits limits = key.budgets;
    const auto inherit = [&](auto member) {
      if (!(limits.*member > 0)) limits.*member = tenant.*member;
    };
    inherit(&config::BudgetLimits::dollars_per_day);
    inherit(&config::BudgetLimits::dollars_per_month);
    inherit(&config::BudgetLimits::tokens_per_day);
    inherit(&config::BudgetLimits::tokens_per_month);
    is_empty_ = is_empty_ && limits == config::BudgetLimits();
    keys_.insert_or_assign(key.name, limits);
  }
}

const config::BudgetLimits& BudgetTable::LimitsOf(std::string_view tenant) const {
  const auto key = keys_.find(tenant);
  return key == keys_.end() ? tenant_ : key->second;
}

}  // namespace kvgate::access
