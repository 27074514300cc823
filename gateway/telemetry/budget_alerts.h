// BudgetAlerts reports when a tenant's use of a budget passes one of the configured thresholds: in
// the log, and to a webhook if there is one.
//
// A threshold is passed by the one request whose use lies across it, so it is reported once in its
// day or month without anything to remember, also over a restart, which keeps the sums. The bounds:
// a process that is killed forgets the requests of its last second, and may report what they passed
// again; what a change of the configuration alone passes is not reported.
//
// Where gateways share what tenants have used, several may see a threshold passed, by a request
// here or by what another gateway says. Then reports wait until it is known that no other gateway
// has made them. Thread-safe.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/lru_map.h"
#include "base/result.h"
#include "gateway/access/budget.h"
#include "gateway/config/config.h"
#include "gateway/ledger/ledger.h"
#include "gateway/metrics/registry.h"
#include "gateway/telemetry/webhook.h"
#include "gateway/upstream/wire/proxy_env.h"

namespace kvgate::telemetry {

class BudgetAlerts {
 public:
  struct Options {
    WebhookOptions webhook = {};
    upstream::wire::Environment environment = upstream::wire::ProcessEnvironment;
    bool waits = false;  // for ReportWaiting
  };
  BudgetAlerts() = default;
  explicit BudgetAlerts(Options options) : options_(std::move(options)) {}

  // What a configuration says of budgets, ready to be taken.
  struct Settings {
    access::BudgetTable table = {};
    config::BudgetsConfig config = {};
    bool has_new_webhook = false;
    std::unique_ptr<Webhook> webhook = nullptr;  // null: the log alone, or the one of before
  };
  // Fails as Webhook::Open does.
  Result<Settings> Read(const std::vector<config::KeyConfig>& keys,
                        const config::BudgetsConfig& budgets);
  // A webhook whose configuration is the same goes on with what it has to send; another one is
  // given up after its grace, for which this waits. One thread at a time reads and takes.
  void Take(Settings settings);

  // Reports the thresholds between both amounts. It never waits for the webhook.
  void OnUse(std::string_view tenant, const ledger::Ledger::Use& use);

  // Returns true if this gateway is to make a report, which `what` names at all gateways; it is of
  // no use after the time.
  using Claim = std::function<bool(const std::string& what, int64_t until_us)>;
  // Makes the reports that wait, or so many of them. `claim` may be slow.
  void ReportWaiting(const Claim& claim, size_t num_max);

  // Writes how many thresholds were passed, and what became of their reports.
  void Collect(metrics::TextWriter& writer) const;

 private:
  static constexpr size_t kWaitingMax = 1024;  // further reports are made at once
  static constexpr size_t kMadeMax = 8192;
  struct Passed {
    std::string tenant = {};
    access::Budget budget = {};
    double threshold = 0;
  };
  void Pass(std::string_view tenant, const access::Budget& budget, double threshold);
  void Report(std::string_view tenant, const access::Budget& budget, double threshold);

  const Options options_ = {};
  WebhookCounts counts_;
  std::array<std::atomic<uint64_t>, access::kNumBudgetKinds> num_passed_{};
  std::mutex mutex_;  // guards what follows
  access::BudgetTable table_;
  config::BudgetsConfig config_;
  std::unique_ptr<Webhook> webhook_;  // null: the log alone
  std::vector<Passed> waiting_;
  LruMap<std::string, bool> made_{kMadeMax};  // or left to another gateway, by name
};

}  // namespace kvgate::telemetry
