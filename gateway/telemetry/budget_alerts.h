// BudgetAlerts reports when a tenant's use of a budget passes one of the configured thresholds: in
// the log, and to a webhook if there is one.
//
// A threshold is passed by the one request whose use lies across it, so it is reported once in its
// day or month without anything to remember, also over a restart, which keeps the sums. The bounds:
// a process that is killed forgets the requests of its last second, and may report what they passed
// again; what a change of the configuration alone passes is not reported. Thread-safe.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string_view>
#include <utility>
#include <vector>

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

  // Writes how many thresholds were passed, and what became of their reports.
  void Collect(metrics::TextWriter& writer) const;

 private:
  void Report(std::string_view tenant, const access::Budget& budget, double threshold);

  const Options options_ = {};
  WebhookCounts counts_;
  std::array<std::atomic<uint64_t>, access::kNumBudgetKinds> num_passed_{};
  std::mutex mutex_;  // guards what follows
  access::BudgetTable table_;
  config::BudgetsConfig config_;
  std::unique_ptr<Webhook> webhook_;  // null: the log alone
};

}  // namespace kvgate::telemetry
