#include "gateway/runtime/limits/shared_budgets.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <set>
#include <utility>

namespace kvgate::runtime::limits {
namespace {

using store::shared::SharedSums;
using upstream::Spending;

constexpr std::chrono::hours kActive{1};       // a tenant is exchanged each time
constexpr std::chrono::seconds kIdle{1};       // and else so often, where they are few:
constexpr size_t kIdleMax = 64;                // of them in one exchange
constexpr std::chrono::seconds kRefresh{60};   // until it is looked again who they are
constexpr std::chrono::hours kKept{40 * 24};   // a month's values, in the store
constexpr std::chrono::seconds kSayAgain{60};  // what has not changed, so that it is kept

// The day, dollars and tokens of it, dollars and tokens of the month.
constexpr size_t kNumValues = 5;

std::vector<double> ValuesOf(const Spending& spending, int64_t now_us) {
  return {static_cast<double>(ledger::DayOf(now_us)), spending.dollars_today,
          static_cast<double>(spending.tokens_today), spending.dollars_this_month,
          static_cast<double>(spending.tokens_this_month)};
}

// Adds what another gateway said. REQUIRES: it is of this month.
void Add(const std::vector<double>& values, int64_t now_us, Spending& spending) {
  if (static_cast<int64_t>(values[0]) == ledger::DayOf(now_us)) {
    spending.dollars_today += values[1];
    spending.tokens_today += static_cast<int64_t>(values[2]);
  }
  spending.dollars_this_month += values[3];
  spending.tokens_this_month += static_cast<int64_t>(values[4]);
}

Spending Sum(Spending a, const Spending& b) {
  a.dollars_today += b.dollars_today;
  a.tokens_today += b.tokens_today;
  a.dollars_this_month += b.dollars_this_month;
  a.tokens_this_month += b.tokens_this_month;
  return a;
}

bool IsNone(const Spending& spending) {
  return spending.dollars_this_month <= 0 && spending.tokens_this_month <= 0;
}

}  // namespace

SharedBudgets::SharedBudgets(Parts parts)
    : parts_(std::move(parts)), field_(parts_.sums.FieldOf(parts_.gateway)) {}

void SharedBudgets::Add(const std::string& name, const access::BudgetTable& table) {
  if (tenants_.size() >= kTenantsMax || table.LimitsOf(name) == config::BudgetLimits()) return;
  tenants_.try_emplace(name);
}

void SharedBudgets::TakeAsked(const access::BudgetTable& table) {
  for (const ledger::SpendingElsewhere::Asked& asked : parts_.elsewhere.TakeAsked()) {
    Add(asked.tenant, table);
    const auto found = tenants_.find(asked.tenant);
    if (found != tenants_.end()) found->second.asked_at = asked.at;
  }
}

// Finds those with a budget who are exchanged though nobody asks, and drops the rest.
void SharedBudgets::Refresh(const access::BudgetTable& table) {
  std::set<std::string, std::less<>> names;
  for (const auto& [key, limits] : table.keys()) names.insert(key);
  for (const auto& [tenant, spending] : parts_.ledger.AllSpent()) names.insert(tenant);
  std::erase_if(tenants_, [&](const auto& entry) {
    return table.LimitsOf(entry.first) == config::BudgetLimits() ||
           (!IsActive(entry.second) && !names.contains(entry.first));
  });
  for (const std::string& name : names) Add(name, table);
  refreshed_at_ = now_;
}

bool SharedBudgets::IsActive(const Tenant& tenant) const {
  return tenant.asked_at != TimePoint() && now_ - tenant.asked_at < kActive;
}

std::vector<SharedBudgets::Tenants::value_type*> SharedBudgets::Due(size_t names_max) {
  std::vector<Tenants::value_type*> active;
  std::vector<Tenants::value_type*> idle;
  for (auto& entry : tenants_) {
    const TimePoint looked_at = entry.second.looked_at;
    if (IsActive(entry.second)) {
      active.push_back(&entry);
    } else if (looked_at == TimePoint() || now_ - looked_at >= kIdle) {
      idle.push_back(&entry);
    }
  }
  // Whoever has waited longest is first.
  const auto cut = [](std::vector<Tenants::value_type*>& entries, size_t max) {
    std::ranges::stable_sort(entries, {},
                             [](const auto* entry) { return entry->second.looked_at; });
    if (entries.size() > max) entries.resize(max);
  };
  cut(active, names_max);
  cut(idle, std::min(kIdleMax, names_max - active.size()));
  active.insert(active.end(), idle.begin(), idle.end());
  return active;
}

void SharedBudgets::Collect(const access::BudgetTable& table, size_t names_max,
                            std::vector<SharedSums::Own>& own) {
  now_ = SteadyClock::now();
  now_us_ = WallClock::NowUs();
  TakeAsked(table);
  if (refreshed_at_ == TimePoint() || now_ - refreshed_at_ >= kRefresh) Refresh(table);
  const int64_t month = ledger::MonthOf(now_us_);
  kind_ = fmt::format("month {}", month);
  exchanged_.clear();
  for (Tenants::value_type* const entry : Due(names_max)) {
    auto& [name, tenant] = *entry;
    if (tenant.month != month) tenant.others.clear();
    tenant.month = month;
    const Spending here = parts_.ledger.SpentHere(name, now_us_);
    const std::vector<double> values = ValuesOf(here, now_us_);
    const bool is_due = values != tenant.said || now_ - tenant.said_at >= kSayAgain;
    const bool is_said = is_due && !IsNone(here);
    own.push_back({.kind = kind_,
                   .tenant = name,
                   .field = field_,
                   .values = values,
                   .is_said = is_said,
                   .time_to_live = kKept});
    exchanged_.push_back({.entry = entry, .values = values, .is_said = is_said});
  }
}

void SharedBudgets::Take(std::span<const SharedSums::Others> said) {
  for (size_t i = 0; i < exchanged_.size() && i < said.size(); ++i) {
    auto& [name, tenant] = *exchanged_[i].entry;
    if (exchanged_[i].is_said) {
      tenant.said = exchanged_[i].values;
      tenant.said_at = now_;
    }
    if (!said[i].has_own) tenant.said.clear();  // a store that has forgotten it is told again
    tenant.looked_at = now_;
    TakeOf(name, tenant, said[i]);
  }
  exchanged_.clear();
}

void SharedBudgets::TakeOf(const std::string& name, Tenant& tenant,
                           const SharedSums::Others& others) {
  for (const SharedSums::Other& other : others.others) {
    if (other.values.size() != kNumValues) continue;
    const bool is_known = tenant.others.contains(other.field);
    if (is_known || tenant.others.size() < kGatewaysMax) tenant.others[other.field] = other.values;
  }
  Spending elsewhere;
  for (const auto& [field, values] : tenant.others) limits::Add(values, now_us_, elsewhere);
  // Whoever has used nothing elsewhere takes no room there.
  if (!tenant.others.empty()) parts_.elsewhere.Set(name, elsewhere, now_us_);
  Tell(name, tenant, elsewhere);
}

// From one exchange to the next nothing is left out, whoever has used it: a threshold that lies
// between is passed, though no request here has passed it.
void SharedBudgets::Tell(const std::string& name, Tenant& tenant, const Spending& elsewhere) {
  if (parts_.alerts == nullptr) return;
  const Spending here = parts_.ledger.SpentHere(name, now_us_);
  Spending before = tenant.known_us == 0 ? here : tenant.known;
  if (tenant.known_us != 0 && ledger::DayOf(tenant.known_us) != ledger::DayOf(now_us_)) {
    before.dollars_today = 0;
    before.tokens_today = 0;
  }
  if (tenant.known_us != 0 && ledger::MonthOf(tenant.known_us) != ledger::MonthOf(now_us_)) {
    before = {};
  }
  tenant.known = Sum(here, elsewhere);
  tenant.known_us = now_us_;
  parts_.alerts->OnUse(name, {.before = before, .after = tenant.known, .now_us = now_us_});
}

}  // namespace kvgate::runtime::limits
