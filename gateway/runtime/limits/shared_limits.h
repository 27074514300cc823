// SharedLimits makes the budgets of tenants and the limits of keys hold over all gateways that
// share a store: a thread says there, four times a second, what was used here, and takes in what
// was used elsewhere. Requests never wait for it. Where the store does not answer, each gateway
// holds to its own limits and to what the others said last.
//
// Beyond a limit goes what all gateways admit between two exchanges, and what is running then.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "gateway/metrics/registry.h"
#include "gateway/runtime/limits/shared_budgets.h"
#include "gateway/runtime/limits/shared_rates.h"

namespace kvgate::runtime::limits {

class SharedLimits {
 public:
  struct Options {
    std::chrono::milliseconds interval{250};       // between two exchanges
    std::chrono::milliseconds call_time_max{250};  // of one; then it has failed
    size_t budgets_max = 512;                      // tenants in one exchange
    size_t claims_max = 4;                         // reports after one; each is a call
  };
  // The limits that hold now.
  struct Current {
    std::shared_ptr<const access::GatewayKeys> keys = {};
    std::shared_ptr<const access::BudgetTable> budgets = {};
  };
  using GetCurrent = std::function<Current()>;

  // Nothing is exchanged before Start or Exchange. What the parts refer to outlives it.
  SharedLimits(const Options& options, SharedBudgets::Parts parts, GetCurrent current);
  ~SharedLimits();  // as Stop
  SharedLimits(const SharedLimits&) = delete;
  SharedLimits& operator=(const SharedLimits&) = delete;

  void Start();
  // Says once more what was used, for the others, and ends the thread; waits for a few calls.
  void Stop();
  // One exchange. REQUIRES: the thread does not run.
  void Exchange();
  void Collect(metrics::TextWriter& writer) const;

 private:
  using TimePoint = SteadyClock::time_point;
  void Run();
  Result<void> TryExchange();
  void Note(const Result<void>& exchanged);
  void Report();

  const Options options_;
  const SharedBudgets::Parts parts_;
  const GetCurrent current_;
  const std::string process_;  // an id of this process
  SharedBudgets budgets_;
  SharedRates rates_;
  bool is_away_ = false;              // and the log has said so
  std::atomic<TimePoint> shared_at_;  // the last time when all gateways' use was known here
  std::atomic<uint64_t> num_exchanged_{0};
  std::atomic<uint64_t> num_failed_{0};
  std::atomic<uint64_t> num_damaged_{0};  // values of others that could not be read
  std::mutex mutex_;
  std::condition_variable wake_;
  bool is_stopping_ = false;
  std::thread thread_;
};

}  // namespace kvgate::runtime::limits
