#include "gateway/runtime/limits/shared_budgets.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

#include "tests/gateway/runtime/limits/shared_gateway.h"
#include "tests/manual_clock.h"

namespace kvgate::runtime::limits {
namespace {

using ::testing::HasSubstr;
using namespace std::chrono_literals;

constexpr int64_t kDayUs = int64_t{86'400} * 1'000'000;
constexpr int64_t kOctober30 = 20'756 * kDayUs;  // 2026-10-30

class SharedBudgetsTest : public testing::Test {
 protected:
  SharedBudgetsTest() { common_.key.budgets.tokens_per_day = 1000; }

  void ExchangeAll(const std::vector<SharedGateway*>& gateways) {
    for (SharedGateway* const gateway : gateways) gateway->limits.Exchange();
  }
  void Settle(const std::vector<SharedGateway*>& gateways) {
    ExchangeAll(gateways);
    ExchangeAll(gateways);
  }
  static uint64_t NumReported(const SharedGateway& gateway) {
    std::string text;
    metrics::TextWriter writer(text);
    gateway.alerts.Collect(writer);
    const std::string name = R"(passed_total{budget="tokens_per_day"} )";
    return std::stoull(text.substr(text.find(name) + name.size()));
  }

  test::ManualClock clock_{std::chrono::steady_clock::now(), kOctober30 + kDayUs / 2};
  Common common_;
  Directory directories_[3] = {{"a"}, {"b"}, {"c"}};
};

TEST_F(SharedBudgetsTest, WhatIsUsedAtOneCountsAtAllAndTheRefusalSaysTheSum) {
  SharedGateway a(common_, directories_[0]);
  SharedGateway b(common_, directories_[1]);
  SharedGateway c(common_, directories_[2]);
  EXPECT_TRUE(a.Ask(700));
  EXPECT_TRUE(b.Ask(400));
  Settle({&a, &b, &c});
  for (SharedGateway* const gateway : {&a, &b, &c}) {
    EXPECT_EQ(gateway->TokensToday(), 1100);
    const Result<void> refused = gateway->Ask();
    ASSERT_FALSE(refused);
    EXPECT_THAT(refused.error().detail,
                HasSubstr("The key 'alice' has used 1100 of its 1000 tokens a day"));
  }
  EXPECT_EQ(a.ledger.SpentHere("alice", WallClock::NowUs()).tokens_today, 700);
}

TEST_F(SharedBudgetsTest, AllGatewaysTogetherGoBeyondABudgetByWhatOneIntervalAdmits) {
  SharedGateway a(common_, directories_[0]);
  SharedGateway b(common_, directories_[1]);
  SharedGateway c(common_, directories_[2]);
  const std::vector<SharedGateway*> all{&a, &b, &c};
  for (int i = 0; i < 100; ++i) {
    for (SharedGateway* const gateway : all) (void)gateway->Ask(10);
    ExchangeAll(all);
    clock_.Advance(250ms);
  }
  EXPECT_GE(a.TokensToday(), 1000);
  EXPECT_LE(a.TokensToday(), 1000 + 2 * 3 * 10);
  EXPECT_EQ(a.TokensToday(), b.TokensToday());
}

TEST_F(SharedBudgetsTest, ARestartCountsNothingTwiceAndForgetsNothingOfTheOthers) {
  SharedGateway a(common_, directories_[0]);
  std::optional<SharedGateway> b(std::in_place, common_, directories_[1]);
  EXPECT_TRUE(a.Ask(100));
  EXPECT_TRUE(b->Ask(200));
  Settle({&a, &*b});
  b.reset();
  b.emplace(common_, directories_[1]);
  EXPECT_EQ(b->TokensToday(), 200);
  Settle({&*b, &a});
  EXPECT_EQ(b->TokensToday(), 300);
  EXPECT_EQ(a.TokensToday(), 300);
  EXPECT_TRUE(b->Ask(50));
  Settle({&*b, &a});
  EXPECT_EQ(a.TokensToday(), 350);
}

TEST_F(SharedBudgetsTest, ADayAndAMonthBeginAnewForAll) {
  common_.key.budgets.tokens_per_month = 100'000;
  SharedGateway a(common_, directories_[0]);
  SharedGateway b(common_, directories_[1]);
  EXPECT_TRUE(a.Ask(1000));
  Settle({&a, &b});
  EXPECT_FALSE(b.Ask());
  clock_.Advance(12h);  // the 31st
  EXPECT_EQ(b.TokensToday(), 0);
  EXPECT_TRUE(b.Ask(1));
  Settle({&b, &a});
  EXPECT_EQ(a.TokensToday(), 1);
  EXPECT_EQ(a.ledger.Spent("alice").tokens_this_month, 1001);
  EXPECT_EQ(b.ledger.Spent("alice").tokens_this_month, 1001);
  clock_.Advance(24h);  // the 1st of the next month
  Settle({&a, &b});
  EXPECT_EQ(b.ledger.Spent("alice").tokens_this_month, 0);
  EXPECT_TRUE(a.Ask(5));
  Settle({&a, &b});
  EXPECT_EQ(b.ledger.Spent("alice").tokens_this_month, 5);
}

TEST_F(SharedBudgetsTest, WithoutTheStoreWhatTheOthersSaidLastHoldsOn) {
  SharedGateway a(common_, directories_[0]);
  SharedGateway b(common_, directories_[1]);
  EXPECT_TRUE(a.Ask(300));
  Settle({&a, &b});
  a.client.is_down = true;
  b.client.is_down = true;
  EXPECT_TRUE(a.Ask(600));
  EXPECT_TRUE(b.Ask(200));
  ExchangeAll({&a, &b});
  EXPECT_EQ(a.TokensToday(), 900);
  EXPECT_EQ(b.TokensToday(), 500);
  EXPECT_TRUE(b.Ask(0));
  a.client.is_down = false;
  b.client.is_down = false;
  Settle({&a, &b});
  EXPECT_EQ(a.TokensToday(), 1100);
  EXPECT_EQ(b.TokensToday(), 1100);
  EXPECT_FALSE(b.Ask());
}

TEST_F(SharedBudgetsTest, AStoreThatForgetsAllIsToldAgain) {
  SharedGateway a(common_, directories_[0]);
  SharedGateway b(common_, directories_[1]);
  EXPECT_TRUE(a.Ask(300));
  EXPECT_TRUE(b.Ask(10));
  Settle({&a, &b});
  common_.server.Flush();
  ExchangeAll({&a, &b});
  EXPECT_EQ(b.TokensToday(), 310);
  SharedGateway c(common_, directories_[2]);
  Settle({&a, &b, &c});
  EXPECT_EQ(c.TokensToday(), 310);
}

TEST_F(SharedBudgetsTest, WhoHasNoBudgetOrUsesNothingIsSeldomOrNeverExchanged) {
  SharedGateway a(common_, directories_[0]);
  a.limits.Exchange();
  EXPECT_EQ(a.client.said, (std::vector<std::string>{"HGETALL"}));
  a.limits.Exchange();
  EXPECT_EQ(a.client.said.size(), 1u);
  clock_.Advance(1s);
  a.limits.Exchange();
  EXPECT_EQ(a.client.said.size(), 2u);
  EXPECT_TRUE(a.Ask(1));
  a.client.said.clear();
  Settle({&a});
  EXPECT_EQ(a.client.said, (std::vector<std::string>{"HSET", "EXPIRE", "HGETALL", "HGETALL"}));
  clock_.Advance(61min);
  a.limits.Exchange();
  a.client.said.clear();
  a.limits.Exchange();
  EXPECT_TRUE(a.client.said.empty());
  common_.key.budgets = {};
  a.Reload();
  EXPECT_TRUE(a.Ask(1));
  clock_.Advance(60s);
  Settle({&a});
  EXPECT_TRUE(a.client.said.empty());
}

TEST_F(SharedBudgetsTest, AThresholdIsReportedByOneGatewayBeItPassedByNoRequestOfItsOwn) {
  SharedGateway a(common_, directories_[0]);
  SharedGateway b(common_, directories_[1]);
  EXPECT_TRUE(a.Ask(100));
  EXPECT_TRUE(b.Ask(100));
  Settle({&a, &b});
  EXPECT_TRUE(a.Ask(200));
  EXPECT_TRUE(b.Ask(200));  // neither knows of the other's, and 50 % are passed
  Settle({&a, &b});
  EXPECT_EQ(NumReported(a) + NumReported(b), 1u);
  EXPECT_TRUE(a.Ask(250));  // 85 %
  Settle({&a, &b});
  EXPECT_EQ(NumReported(a) + NumReported(b), 2u);
  {
    SharedGateway again(common_, directories_[1]);
    Settle({&again, &a});
    EXPECT_EQ(NumReported(again), 0u);
  }
  // A store that nobody can ask keeps no report back; a gateway that hears of it later may make it
  // once more, this one does not.
  a.client.is_down = true;
  EXPECT_TRUE(a.Ask(200));
  a.limits.Exchange();
  EXPECT_EQ(NumReported(a) + NumReported(b), 3u);
  const uint64_t num_of_a = NumReported(a);
  a.client.is_down = false;
  Settle({&a, &b});
  EXPECT_EQ(NumReported(a), num_of_a);
  EXPECT_LE(NumReported(b), 4 - num_of_a);
}

}  // namespace
}  // namespace kvgate::runtime::limits
