// SharedBudgets says what tenants have used here of their budgets, and takes in what they have used
// at other gateways, for the ledger's sums of this day and month.
//
// A gateway's values are all that its ledger has counted, in a field that stays with that ledger: a
// restart says them again. What a gateway has said stays in force until the month ends, even where
// the store forgets it. One thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "base/clock.h"
#include "gateway/access/budget.h"
#include "gateway/ledger/ledger.h"
#include "gateway/ledger/spending_elsewhere.h"
#include "gateway/telemetry/budget_alerts.h"
#include "store/shared/shared_sums.h"

namespace kvgate::runtime::limits {

class SharedBudgets {
 public:
  static constexpr size_t kTenantsMax = ledger::SpendingElsewhere::kTenantsMax;
  static constexpr size_t kGatewaysMax = 1024;  // of one tenant; further ones are left out

  struct Parts {
    const store::shared::SharedSums& sums;
    ledger::Ledger& ledger;  // with that `elsewhere`
    ledger::SpendingElsewhere& elsewhere;
    telemetry::BudgetAlerts* alerts = nullptr;  // hears what others have used; null: nobody does
    std::string gateway = {};                   // an id that stays with the ledger
  };
  explicit SharedBudgets(Parts parts);

  // Appends what is to be said and read now, at most `names_max`: tenants that were asked about in
  // the last hour each time, others with a budget once a second, or in turn where they are many.
  // What is appended refers to this until the next call.
  void Collect(const access::BudgetTable& table, size_t names_max,
               std::vector<store::shared::SharedSums::Own>& own);
  // Takes the answers to what the last Collect has appended.
  void Take(std::span<const store::shared::SharedSums::Others> said);

 private:
  using TimePoint = SteadyClock::time_point;
  struct Tenant {
    TimePoint asked_at = {};   // a request came; zero: none has
    TimePoint looked_at = {};  // the last exchange; zero: none was
    TimePoint said_at = {};
    std::vector<double> said = {};
    std::map<std::string, std::vector<double>> others = {};  // by field
    int64_t month = 0;                                       // of `others`
    upstream::Spending known = {};  // here and elsewhere, at the last exchange
    int64_t known_us = 0;           // when that was; zero: never
  };
  using Tenants = std::map<std::string, Tenant, std::less<>>;

  void TakeAsked(const access::BudgetTable& table);
  void Refresh(const access::BudgetTable& table);
  void Add(const std::string& name, const access::BudgetTable& table);
  std::vector<Tenants::value_type*> Due(size_t names_max);
  bool IsActive(const Tenant& tenant) const;
  void TakeOf(const std::string& name, Tenant& tenant,
              const store::shared::SharedSums::Others& others);
  void Tell(const std::string& name, Tenant& tenant, const upstream::Spending& elsewhere);

  const Parts parts_;
  const std::string field_;
  Tenants tenants_;
  TimePoint refreshed_at_ = {};  // zero: never
  // Of the last Collect:
  TimePoint now_ = {};
  int64_t now_us_ = 0;
  std::string kind_;
  struct Exchanged {
    Tenants::value_type* entry = nullptr;
    std::vector<double> values = {};
    bool is_said = false;
  };
  std::vector<Exchanged> exchanged_;
};

}  // namespace kvgate::runtime::limits
