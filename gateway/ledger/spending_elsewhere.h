// SpendingElsewhere holds what tenants have used at other gateways, as those last said, and which
// tenants' budgets were asked about here. What was said counts in the day and the month in which it
// was said. Thread-safe; no lock is held while anything else is called but `visit`.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "gateway/upstream/exchange_observer.h"

namespace kvgate::ledger {

class SpendingElsewhere {
 public:
  static constexpr size_t kTenantsMax = 4096;  // further ones are held to what is used here

  // Takes the place of what was said of the tenant before. REQUIRES: `spending` is of the day and
  // the month of `now_us`.
  void Set(std::string_view tenant, const upstream::Spending& spending, int64_t now_us);
  // Adds what the tenant has used elsewhere in the day and the month of `now_us`.
  void AddTo(std::string_view tenant, int64_t now_us, upstream::Spending& spending) const;
  // Calls `visit` for each tenant that has used anything elsewhere in the month of `now_us`.
  void ForEach(
      int64_t now_us,
      const std::function<void(const std::string&, const upstream::Spending&)>& visit) const;

  // Notes that a request of the tenant is about to be measured against its budgets.
  void NoteAsked(std::string_view tenant);
  struct Asked {
    std::string tenant = {};
    SteadyClock::time_point at = {};
  };
  // Returns who was noted since the last call, each once, with the last time.
  std::vector<Asked> TakeAsked();

 private:
  struct Said {
    upstream::Spending spending = {};
    int64_t day = 0;
    int64_t month = 0;
  };
  void Add(const Said& said, int64_t now_us, upstream::Spending& spending) const;

  mutable std::mutex mutex_;
  std::map<std::string, Said, std::less<>> tenants_;
  std::map<std::string, SteadyClock::time_point, std::less<>> asked_;
};

// Days since 1970, and months since year 0, of UTC: what budgets are of.
int64_t DayOf(int64_t time_us);
int64_t MonthOf(int64_t time_us);

}  // namespace kvgate::ledger
