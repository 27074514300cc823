#include "gateway/ledger/spending_elsewhere.h"

#include <chrono>
#include <utility>

namespace kvgate::ledger {
namespace {

constexpr int64_t kDayUs = int64_t{86'400} * 1'000'000;

}  // namespace

int64_t DayOf(int64_t time_us) { return time_us / kDayUs; }

int64_t MonthOf(int64_t time_us) {
  const std::chrono::year_month_day date{std::chrono::sys_days{std::chrono::days{DayOf(time_us)}}};
  return int64_t{12} * static_cast<int>(date.year()) + static_cast<unsigned>(date.month());
}

void SpendingElsewhere::Set(std::string_view tenant, const upstream::Spending& spending,
                            int64_t now_us) {
  const std::lock_guard lock(mutex_);
  auto found = tenants_.find(tenant);
  if (found == tenants_.end()) {
    if (tenants_.size() >= kTenantsMax) {
      std::erase_if(tenants_,
                    [&](const auto& entry) { return entry.second.month != MonthOf(now_us); });
    }
    if (tenants_.size() >= kTenantsMax) return;
    found = tenants_.try_emplace(std::string(tenant)).first;
  }
  found->second = {.spending = spending, .day = DayOf(now_us), .month = MonthOf(now_us)};
}

void SpendingElsewhere::Add(const Said& said, int64_t now_us, upstream::Spending& spending) const {
  if (said.day == DayOf(now_us)) {
    spending.dollars_today += said.spending.dollars_today;
    spending.tokens_today += said.spending.tokens_today;
  }
  if (said.month == MonthOf(now_us)) {
    spending.dollars_this_month += said.spending.dollars_this_month;
    spending.tokens_this_month += said.spending.tokens_this_month;
  }
}

void SpendingElsewhere::AddTo(std::string_view tenant, int64_t now_us,
                              upstream::Spending& spending) const {
  const std::lock_guard lock(mutex_);
  const auto found = tenants_.find(tenant);
  if (found != tenants_.end()) Add(found->second, now_us, spending);
}

void SpendingElsewhere::ForEach(
    int64_t now_us,
    const std::function<void(const std::string&, const upstream::Spending&)>& visit) const {
  const std::lock_guard lock(mutex_);
  for (const auto& [tenant, said] : tenants_) {
    upstream::Spending spending;
    Add(said, now_us, spending);
    if (spending.dollars_this_month > 0 || spending.tokens_this_month > 0) visit(tenant, spending);
  }
}

void SpendingElsewhere::NoteAsked(std::string_view tenant) {
  const std::lock_guard lock(mutex_);
  const auto found = asked_.find(tenant);
  if (found != asked_.end()) {
    found->second = SteadyClock::now();
  } else if (asked_.size() < kTenantsMax) {
    asked_.emplace(tenant, SteadyClock::now());
  }
}

std::vector<SpendingElsewhere::Asked> SpendingElsewhere::TakeAsked() {
  std::map<std::string, SteadyClock::time_point, std::less<>> taken;
  {
    const std::lock_guard lock(mutex_);
    taken.swap(asked_);
  }
  std::vector<Asked> asked;
  asked.reserve(taken.size());
  for (const auto& [tenant, at] : taken) asked.push_back({.tenant = tenant, .at = at});
  return asked;
}

}  // namespace kvgate::ledger
