#include "gateway/telemetry/budget_alerts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/gateway/telemetry/webhook_receiver.h"
#include "tests/wait_until.h"

namespace kvgate::telemetry {
namespace {

using Json = nlohmann::json;
using ledger::Ledger;
using test::WaitUntil;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using namespace std::chrono_literals;

constexpr int64_t kNowUs = 20'784 * int64_t{86'400} * 1'000'000;  // 2026-11-27

std::string NoVariable(const char*) { return ""; }

config::KeyConfig Alice() {
  config::KeyConfig key;
  key.name = "alice";
  key.budgets.dollars_per_day = 10;
  return key;
}

Ledger::Use Dollars(double before, double after) {
  return {.before = {.dollars_today = before}, .after = {.dollars_today = after}, .now_us = kNowUs};
}

struct Alerts {
  explicit Alerts(const std::string& webhook = "") {
    config.webhook = webhook;
    Configure();
  }
  void Configure() {
    auto settings = alerts.Read(keys, config);
    ASSERT_TRUE(settings) << settings.error().detail;
    alerts.Take(std::move(*settings));
  }
  std::string Metrics() const {
    std::string text;
    metrics::TextWriter writer(text);
    alerts.Collect(writer);
    return text;
  }
  std::vector<config::KeyConfig> keys = {Alice()};
  config::BudgetsConfig config;
  BudgetAlerts alerts{{.webhook = {.pause = 1ms}, .environment = NoVariable}};
};

std::vector<double> ThresholdsOf(const WebhookReceiver& receiver) {
  std::vector<double> thresholds;
  for (const auto& request : receiver.requests()) {
    thresholds.push_back(Json::parse(request.body)["threshold"]);
  }
  return thresholds;
}

TEST(BudgetAlertsTest, AReportSaysWhoseBudgetItIsAndWhatIsUsed) {
  const WebhookReceiver receiver({200});
  Alerts alerts(receiver.url());
  alerts.alerts.OnUse("alice", Dollars(4.5, 5.5));
  ASSERT_TRUE(WaitUntil([&] { return receiver.requests().size() == 1; }, "the reports arrive"));
  Json report = Json::parse(receiver.requests()[0].body);
  EXPECT_EQ(report["id"].get<std::string>().size(), 24u);
  report.erase("id");
  EXPECT_EQ(report, Json::parse(R"({"type": "budget", "tenant": "alice", "key": "alice",
      "budget": "dollars_per_day", "limit": 10.0, "used": 5.5, "share": 0.55, "threshold": 0.5,
      "period_start": "2026-11-27T00:00:00Z", "renews_at": "2026-11-28T00:00:00Z"})"));
}

TEST(BudgetAlertsTest, EachThresholdIsReportedByTheRequestThatPassesIt) {
  const WebhookReceiver receiver({200});
  Alerts alerts(receiver.url());
  alerts.alerts.OnUse("alice", Dollars(0, 4.9));
  alerts.alerts.OnUse("alice", Dollars(4.9, 5));  // 0.5
  alerts.alerts.OnUse("alice", Dollars(5, 7.9));
  alerts.alerts.OnUse("alice", Dollars(7.9, 12));  // 0.8 and 1
  alerts.alerts.OnUse("alice", Dollars(12, 20));
  ASSERT_TRUE(WaitUntil([&] { return receiver.requests().size() == 3; }, "the reports arrive"));
  EXPECT_THAT(ThresholdsOf(receiver), ElementsAre(0.5, 0.8, 1));
  EXPECT_THAT(alerts.Metrics(), HasSubstr("kvgate_budget_thresholds_passed_total{budget=\"dollars_"
                                          "per_day\"} 3"));
  ASSERT_TRUE(WaitUntil(
      [&] {
        return alerts.Metrics().find("kvgate_budget_webhooks_total{result=\"sent\"} 3") !=
               std::string::npos;
      },
      "its count"));
}

TEST(BudgetAlertsTest, WhoHasNoBudgetIsNotReported) {
  Alerts alerts;
  alerts.alerts.OnUse("bob", Dollars(0, 100));
  EXPECT_THAT(alerts.Metrics(),
              HasSubstr("kvgate_budget_thresholds_passed_total{budget=\"dollars_per_day\"} 0"));
}

TEST(BudgetAlertsTest, ATenantWithoutAKeyIsHeldToTheCommonBudget) {
  const WebhookReceiver receiver({200});
  Alerts alerts;
  alerts.config.webhook = receiver.url();
  alerts.config.tenant.tokens_per_month = 100;
  alerts.config.thresholds = {1};
  alerts.Configure();
  alerts.alerts.OnUse(
      "0123abcd",
      {.before = {.tokens_this_month = 99}, .after = {.tokens_this_month = 101}, .now_us = kNowUs});
  ASSERT_TRUE(WaitUntil([&] { return receiver.requests().size() == 1; }, "the reports arrive"));
  const Json report = Json::parse(receiver.requests()[0].body);
  EXPECT_EQ(report["tenant"], "0123abcd");
  EXPECT_FALSE(report.contains("key"));
  EXPECT_EQ(report["budget"], "tokens_per_month");
  EXPECT_EQ(report["renews_at"], "2026-12-01T00:00:00Z");
}

TEST(BudgetAlertsTest, AChangedConfigurationHoldsFromTheNextRequestOn) {
  const WebhookReceiver first({200});
  const WebhookReceiver second({200});
  Alerts alerts(first.url());
  alerts.alerts.OnUse("alice", Dollars(4, 6));
  ASSERT_TRUE(WaitUntil([&] { return first.requests().size() == 1; }, "the reports arrive"));
  alerts.config.webhook = second.url();
  alerts.keys[0].budgets.dollars_per_day = 20;
  alerts.Configure();
  alerts.alerts.OnUse("alice", Dollars(6, 9));
  alerts.alerts.OnUse("alice", Dollars(9, 11));
  ASSERT_TRUE(WaitUntil([&] { return second.requests().size() == 1; }, "the reports arrive"));
  EXPECT_EQ(Json::parse(second.requests()[0].body)["limit"], 20);
  EXPECT_EQ(first.requests().size(), 1u);
}

TEST(BudgetAlertsTest, ASecretThatIsMissingChangesNothing) {
  const WebhookReceiver receiver({200});
  Alerts alerts(receiver.url());
  config::BudgetsConfig wrong = alerts.config;
  wrong.webhook_secret_env = "UNSET";
  EXPECT_FALSE(alerts.alerts.Read(alerts.keys, wrong));
  alerts.alerts.OnUse("alice", Dollars(4, 6));
  EXPECT_TRUE(WaitUntil([&] { return receiver.requests().size() == 1; }, "the reports arrive"));
}

TEST(BudgetAlertsTest, WhereGatewaysShareBudgetsOneOfThemMakesAReport) {
  BudgetAlerts alerts{{.environment = NoVariable, .waits = true}};
  alerts.Take(std::move(*alerts.Read({Alice()}, {})));
  std::vector<std::string> asked;
  bool is_first = true;
  const BudgetAlerts::Claim claim = [&](const std::string& what, int64_t until_us) {
    EXPECT_EQ(until_us, kNowUs + 86'400 * int64_t{1'000'000});
    asked.push_back(what);
    return is_first;
  };
  const auto passed = [&] {
    std::string text;
    metrics::TextWriter writer(text);
    alerts.Collect(writer);
    return text;
  };
  alerts.OnUse("alice", Dollars(4, 5.5));
  EXPECT_THAT(passed(), HasSubstr(R"(passed_total{budget="dollars_per_day"} 0)"));
  alerts.ReportWaiting(claim, 16);
  EXPECT_THAT(passed(), HasSubstr(R"(passed_total{budget="dollars_per_day"} 1)"));
  // What others say may move a tenant over a threshold that its own request has passed before.
  alerts.OnUse("alice", Dollars(4, 7));
  alerts.ReportWaiting(claim, 16);
  EXPECT_EQ(asked.size(), 1u);
  is_first = false;
  alerts.OnUse("alice", Dollars(7, 9));
  alerts.ReportWaiting(claim, 16);
  EXPECT_EQ(asked.size(), 2u);
  EXPECT_NE(asked[0], asked[1]);
  EXPECT_THAT(passed(), HasSubstr(R"(passed_total{budget="dollars_per_day"} 1)"));
}

}  // namespace
}  // namespace kvgate::telemetry
