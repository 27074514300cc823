// A gateway of tests of shared limits: its keys, ledger and alerts, over a store in memory that
// several of them share.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/seal.h"
#include "gateway/access/budget.h"
#include "gateway/access/gateway_keys.h"
#include "gateway/ledger/ledger.h"
#include "gateway/runtime/limits/shared_limits.h"
#include "gateway/telemetry/budget_alerts.h"
#include "tests/store/memory_meta_store.h"
#include "tests/store/shared/memory_client.h"

namespace kvgate::runtime::limits {

// What all gateways of a test have in common.
struct Common {
  Common() {
    key.name = "alice";
    key.key_env = "ALICE";
  }
  store::shared::MemoryServer server;
  const std::unique_ptr<Keyring> ring = Keyring::Generate();
  config::KeyConfig key;
};

// What stays with a gateway over a restart.
struct Directory {
  std::string id;
  store::MemoryMetaStore meta = {};
};

class SharedGateway {
 public:
  SharedGateway(Common& common, Directory& directory)
      : common_(common), directory_(directory), client(common.server) {
    Reload();
  }

  // Takes the common configuration as it is now.
  void Reload() {
    const auto environment = [](const char* name) { return std::string(name) + "'s key"; };
    auto opened = access::GatewayKeys::Open({common_.key}, environment, keys_.get());
    EXPECT_TRUE(opened);
    keys_ = std::move(*opened);
    budgets_ =
        std::make_shared<access::BudgetTable>(std::vector{common_.key}, config::BudgetLimits());
    auto settings = alerts.Read({common_.key}, {});
    EXPECT_TRUE(settings);
    alerts.Take(std::move(*settings));
  }

  // Asks as a request does, and answers with so many tokens if it is admitted.
  Result<void> Ask(int64_t tokens = 0) {
    const int64_t now_us = WallClock::NowUs();
    const std::vector<access::Budget> budgets =
        access::BudgetsOf(budgets_->LimitsOf("alice"), ledger.Spent("alice"), now_us);
    KVGATE_TRY_VOID(key().Admit(
        {.model = "m", .budgets = budgets, .now = SteadyClock::now(), .now_us = now_us}));
    key().Spend(static_cast<uint64_t>(tokens), SteadyClock::now());
    Count(tokens);
    return {};
  }
  void Count(int64_t tokens) {
    ledger::RequestRecord record;
    record.id = ledger::MakeRequestId();
    record.time_us = WallClock::NowUs();
    record.endpoint = dialect::form::Endpoint::kMessages;
    record.tenant = "alice";
    record.status = 200;
    record.usage = ledger::reply::TokenUsage{.uncached_tokens = tokens};
    ledger.Add(std::move(record));
  }
  // How many of so many requests at once are admitted.
  int AskOften(int times) {
    int num_admitted = 0;
    for (int i = 0; i < times; ++i) num_admitted += Ask() ? 1 : 0;
    return num_admitted;
  }
  int64_t TokensToday() { return ledger.Spent("alice").tokens_today; }
  access::GatewayKeys::Key& key() { return *keys_->all()[0]; }
  double RequestLevel() { return key().Levels(SteadyClock::now()).requests; }

 private:
  Common& common_;
  Directory& directory_;
  std::shared_ptr<access::GatewayKeys> keys_;
  std::shared_ptr<access::BudgetTable> budgets_;

 public:
  store::shared::MemoryClient client;
  store::shared::SharedSums sums{client, *common_.ring};
  telemetry::BudgetAlerts alerts{{.waits = true}};
  ledger::SpendingElsewhere elsewhere;
  ledger::Ledger ledger{
      {.meta = &directory_.meta,
       .elsewhere = &elsewhere,
       .on_use = [this](auto tenant, const auto& use) { alerts.OnUse(tenant, use); }}};
  SharedLimits limits{{},
                      {.sums = sums,
                       .ledger = ledger,
                       .elsewhere = elsewhere,
                       .alerts = &alerts,
                       .gateway = directory_.id},
                      [this] {
                        return SharedLimits::Current{keys_, budgets_};
                      }};
};

}  // namespace kvgate::runtime::limits
