#include "gateway/cli/terminal/budget_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <functional>
#include <vector>

#include "gateway/cli/terminal/figures.h"
#include "gateway/cli/terminal/json_field.h"

namespace kvgate::cli::terminal {
namespace {

using Json = nlohmann::json;

double NumberOf(const Json& object, const char* name) {
  const Json field = FieldOf(object, name);
  return field.is_number() ? field.get<double>() : 0;
}

struct Row {
  std::string tenant;
  std::string budget;  // "dollars a day"
  bool is_money = false;
  double used = 0;
  double limit = 0;
  double share = 0;
  std::string renews_at;
};

std::vector<Row> RowsOf(const Json& answer) {
  std::vector<Row> rows;
  for (const Json& tenant : FieldOf(answer, "data")) {
    for (const Json& budget : FieldOf(tenant, "budgets")) {
      const std::string name = TextOf(budget, "budget");
      const size_t per = name.find("_per_");
      rows.push_back({.tenant = TextOf(tenant, "tenant"),
                      .budget = per == std::string::npos
                                    ? name
                                    : name.substr(0, per) + " a " + name.substr(per + 5),
                      .is_money = name.starts_with("dollars"),
                      .used = NumberOf(budget, "used"),
                      .limit = NumberOf(budget, "limit"),
                      .share = NumberOf(budget, "share"),
                      .renews_at = TextOf(budget, "renews_at")});
    }
  }
  std::ranges::stable_sort(rows, std::greater<>(), &Row::share);
  return rows;
}

std::string Amount(const Row& row, double amount) {
  return row.is_money ? Dollars(std::llround(amount * 1e9)) : Tokens(std::llround(amount));
}

// Returns the time of "2026-11-28T00:00:00Z" in microseconds since 1970, or -1.
int64_t TimeOf(const std::string& iso) {
  int year = 0;
  unsigned month = 0;
  unsigned day = 0;
  int hour = 0;
  if (std::sscanf(iso.c_str(), "%d-%u-%uT%d:", &year, &month, &day, &hour) != 4) return -1;
  const std::chrono::year_month_day date{std::chrono::year(year), std::chrono::month(month),
                                         std::chrono::day(day)};
  if (!date.ok()) return -1;
  const auto time = std::chrono::sys_days(date) + std::chrono::hours(hour);
  return std::chrono::duration_cast<std::chrono::microseconds>(time.time_since_epoch()).count();
}

// "used up", or the highest threshold that is passed.
std::string MarkOf(const Row& row, const Json& thresholds) {
  if (row.share >= 1) return "used up";
  double passed = 0;
  for (const Json& threshold : thresholds) {
    if (threshold.is_number() && row.share >= threshold.get<double>()) {
      passed = std::max(passed, threshold.get<double>());
    }
  }
  return passed > 0 ? fmt::format(">{:.0f} %", 100 * passed) : "";
}

}  // namespace

std::string BudgetTable(const Json& answer, int64_t now_us) {
  const std::vector<Row> rows = RowsOf(answer);
  if (rows.empty()) {
    return "no budgets: [budgets] sets those of every tenant, a [[key]] its own\n";
  }
  constexpr size_t kTenantSize = 16;
  std::string text = fmt::format("{} {:<15} {:>9} {:>9} {:>6}  {}\n", Padded("TENANT", kTenantSize),
                                 "BUDGET", "USED", "LIMIT", "SHARE", "RENEWS");
  const Json thresholds = FieldOf(answer, "thresholds");
  for (const Row& row : rows) {
    const int64_t renews = TimeOf(row.renews_at);
    const std::string when =
        renews < 0 ? "-" : "in " + Duration(std::max<int64_t>(0, renews - now_us));
    std::string line =
        fmt::format("{} {} {:>9} {:>9} {:>6}  {:<9}  {}", Padded(row.tenant, kTenantSize),
                    Padded(row.budget, 15), Amount(row, row.used), Amount(row, row.limit),
                    Percent(row.share, 1), when, MarkOf(row, thresholds));
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  }
  return text;
}

}  // namespace kvgate::cli::terminal
