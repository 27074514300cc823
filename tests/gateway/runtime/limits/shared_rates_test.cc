#include "gateway/runtime/limits/shared_rates.h"

#include <gtest/gtest.h>

#include <vector>

#include "tests/gateway/runtime/limits/shared_gateway.h"
#include "tests/manual_clock.h"

namespace kvgate::runtime::limits {
namespace {

using namespace std::chrono_literals;

class SharedRatesTest : public testing::Test {
 protected:
  SharedRatesTest() { common_.key.requests_per_minute = 60; }

  void ExchangeAll(const std::vector<SharedGateway*>& gateways) {
    for (SharedGateway* const gateway : gateways) gateway->limits.Exchange();
  }
  // Each gateway says what it has counted, and then all know it.
  void Settle(const std::vector<SharedGateway*>& gateways) {
    ExchangeAll(gateways);
    ExchangeAll(gateways);
  }

  test::ManualClock clock_;
  Common common_;
  Directory directories_[3] = {{"a"}, {"b"}, {"c"}};
};

TEST_F(SharedRatesTest, AllGatewaysTogetherAdmitTheLimitAndWhatOneIntervalAdmits) {
  SharedGateway a(common_, directories_[0]);
  SharedGateway b(common_, directories_[1]);
  SharedGateway c(common_, directories_[2]);
  const std::vector<SharedGateway*> all{&a, &b, &c};
  int num_admitted = 0;
  constexpr int kSeconds = 120;
  for (int i = 0; i < 4 * kSeconds; ++i) {
    for (SharedGateway* const gateway : all) num_admitted += gateway->AskOften(2);
    ExchangeAll(all);
    clock_.Advance(250ms);
  }
  // A full bucket, what drains, and of each interval in the worst case what three gateways asked.
  EXPECT_GE(num_admitted, 60 + kSeconds - 1);
  EXPECT_LE(num_admitted, 60 + kSeconds + 3 * 2 * 2);
}

TEST_F(SharedRatesTest, WhoComesInLaterFindsTheBucketsAsFullAsTheyAre) {
  SharedGateway a(common_, directories_[0]);
  SharedGateway b(common_, directories_[1]);
  EXPECT_EQ(a.AskOften(100), 60);
  ExchangeAll({&a});
  EXPECT_EQ(b.AskOften(1), 1);
  Settle({&b, &a});
  EXPECT_EQ(b.RequestLevel(), 61);
  EXPECT_EQ(a.RequestLevel(), 61);
  EXPECT_EQ(b.AskOften(10), 0);
  clock_.Advance(10s);
  Settle({&a, &b});
  EXPECT_EQ(a.AskOften(5) + b.AskOften(4), 9);
  Settle({&a, &b});
  EXPECT_EQ(a.AskOften(5) + b.AskOften(5), 0);
}

TEST_F(SharedRatesTest, WhoComesInHearsWhatSeveralOthersHaveUsedTogether) {
  SharedGateway a(common_, directories_[0]);
  SharedGateway b(common_, directories_[1]);
  SharedGateway c(common_, directories_[2]);
  EXPECT_EQ(a.AskOften(1) + b.AskOften(1), 2);
  Settle({&a, &b});
  EXPECT_EQ(a.AskOften(25) + b.AskOften(25), 50);
  Settle({&a, &b});
  ExchangeAll({&a, &b});
  EXPECT_EQ(c.AskOften(1), 1);
  ExchangeAll({&c});
  EXPECT_EQ(c.RequestLevel(), 53);
}

TEST_F(SharedRatesTest, TokensOfAnswersAreSharedToo) {
  common_.key.requests_per_minute = 0;
  common_.key.tokens_per_minute = 1000;
  SharedGateway a(common_, directories_[0]);
  SharedGateway b(common_, directories_[1]);
  EXPECT_TRUE(a.Ask(600));
  EXPECT_TRUE(b.Ask(500));
  Settle({&a, &b});
  const Result<void> refused = b.Ask();
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kRateLimited);
  EXPECT_EQ(refused.error().detail, "The key 'alice' has used its 1000 tokens per minute.");
  EXPECT_EQ(refused.error().retry_after_seconds, 6);
  EXPECT_FALSE(a.Ask());
}

TEST_F(SharedRatesTest, AnAnswerThatEndsLongAfterItsRequestCountsEverywhere) {
  common_.key.tokens_per_minute = 1000;
  SharedGateway a(common_, directories_[0]);
  SharedGateway b(common_, directories_[1]);
  EXPECT_EQ(a.AskOften(1) + b.AskOften(1), 2);
  Settle({&a, &b});
  for (int i = 0; i < 40; ++i) {
    clock_.Advance(5s);
    EXPECT_EQ(b.AskOften(1), 1);
    ExchangeAll({&a, &b});
  }
  a.key().Spend(2000, SteadyClock::now());
  Settle({&a, &b});
  EXPECT_FALSE(b.Ask());
}

TEST_F(SharedRatesTest, WithoutTheStoreEachHoldsToItsOwnLimitAndNothingJumpsWhenItIsBack) {
  SharedGateway a(common_, directories_[0]);
  SharedGateway b(common_, directories_[1]);
  EXPECT_EQ(a.AskOften(1) + b.AskOften(1), 2);
  Settle({&a, &b});
  a.client.is_down = true;
  b.client.is_down = true;
  int of_a = 0;
  int of_b = 0;
  for (int i = 0; i < 600 * 4; ++i) {
    of_a += a.AskOften(1);
    of_b += b.AskOften(1);
    ExchangeAll({&a, &b});
    clock_.Advance(250ms);
  }
  EXPECT_NEAR(of_a, 660, 4);  // its bucket, and ten minutes
  EXPECT_NEAR(of_b, 660, 4);
  clock_.Advance(1min);
  EXPECT_EQ(a.AskOften(100) + b.AskOften(100), 120);
  ExchangeAll({&a, &b});
  a.client.is_down = false;
  Settle({&a});
  b.client.is_down = false;
  Settle({&b, &a, &b});
  EXPECT_LE(a.RequestLevel(), 61);
  EXPECT_LE(b.RequestLevel(), 61);
  EXPECT_GE(b.RequestLevel(), 55);
  // From now on they share it.
  clock_.Advance(10s);
  ExchangeAll({&a, &b});
  EXPECT_NEAR(a.AskOften(20), 10, 1);
  Settle({&a, &b});
  EXPECT_LE(b.AskOften(20), 1);
}

TEST_F(SharedRatesTest, AStoreThatOnlyOneHasLostIsNoUseOfTheOthers) {
  SharedGateway a(common_, directories_[0]);
  SharedGateway b(common_, directories_[1]);
  EXPECT_EQ(a.AskOften(1) + b.AskOften(1), 2);
  Settle({&a, &b});
  b.client.is_down = true;
  for (int i = 0; i < 300; ++i) {
    clock_.Advance(1s);
    EXPECT_EQ(a.AskOften(1), i < 1000 ? 1 : 0);
    b.AskOften(1);
    ExchangeAll({&a, &b});
  }
  b.client.is_down = false;
  Settle({&b, &a});
  // 300 requests of five minutes are not those of this one.
  EXPECT_LE(a.RequestLevel(), 10);
}

TEST_F(SharedRatesTest, ARestartBeginsWithTheBucketsOfTheOthersAndCountsNothingTwice) {
  SharedGateway a(common_, directories_[0]);
  {
    SharedGateway b(common_, directories_[1]);
    EXPECT_EQ(b.AskOften(30), 30);
    EXPECT_EQ(a.AskOften(1), 1);
    Settle({&b, &a});
    EXPECT_EQ(a.RequestLevel(), 31);
  }
  SharedGateway b(common_, directories_[1]);
  EXPECT_EQ(b.AskOften(1), 1);
  Settle({&b, &a});
  EXPECT_EQ(a.RequestLevel(), 32);
  EXPECT_EQ(b.RequestLevel(), 32);
}

TEST_F(SharedRatesTest, AStoreThatForgetsAllChangesNothing) {
  SharedGateway a(common_, directories_[0]);
  SharedGateway b(common_, directories_[1]);
  EXPECT_EQ(a.AskOften(10) + b.AskOften(10), 20);
  Settle({&a, &b});
  common_.server.Flush();
  Settle({&a, &b});
  EXPECT_EQ(a.RequestLevel(), 20);
  EXPECT_EQ(a.AskOften(5) + b.AskOften(5), 10);
  Settle({&a, &b});
  EXPECT_EQ(a.RequestLevel(), 30);
  EXPECT_EQ(b.RequestLevel(), 30);
}

TEST_F(SharedRatesTest, FieldsOfProcessesThatHaveEndedAreRemoved) {
  SharedGateway a(common_, directories_[0]);
  {
    SharedGateway b(common_, directories_[1]);
    EXPECT_EQ(b.AskOften(1), 1);
    ExchangeAll({&b});
  }
  EXPECT_EQ(a.AskOften(1), 1);
  ExchangeAll({&a});
  EXPECT_EQ(common_.server.hashes.begin()->second.size(), 2u);
  clock_.Advance(61min);
  EXPECT_EQ(a.AskOften(1), 1);
  Settle({&a});
  // The old fields of both are gone.
  EXPECT_EQ(common_.server.hashes.begin()->second.size(), 1u);
}

TEST_F(SharedRatesTest, KeysThatNobodyUsesAndKeysWithoutALimitAreNotExchanged) {
  SharedGateway a(common_, directories_[0]);
  a.limits.Exchange();
  EXPECT_TRUE(a.client.said.empty());
  EXPECT_EQ(a.AskOften(1), 1);
  a.limits.Exchange();
  EXPECT_FALSE(a.client.said.empty());
  clock_.Advance(1min);
  a.limits.Exchange();
  a.limits.Exchange();
  clock_.Advance(2min);
  a.limits.Exchange();
  a.client.said.clear();
  a.limits.Exchange();
  EXPECT_TRUE(a.client.said.empty());
  common_.key.requests_per_minute = 0;
  a.Reload();
  EXPECT_EQ(a.AskOften(100), 100);
  a.limits.Exchange();
  EXPECT_TRUE(a.client.said.empty());
}

TEST_F(SharedRatesTest, AKeyThatAReloadChangesGoesOnWithItsNewLimit) {
  SharedGateway a(common_, directories_[0]);
  SharedGateway b(common_, directories_[1]);
  EXPECT_EQ(a.AskOften(40) + b.AskOften(1), 41);
  Settle({&a, &b});
  common_.key.requests_per_minute = 50;
  b.Reload();  // a new bucket, as without others
  EXPECT_EQ(b.AskOften(1), 1);
  Settle({&a, &b});
  EXPECT_EQ(a.RequestLevel(), 42);
  EXPECT_EQ(a.AskOften(5), 5);
  Settle({&a, &b});
  EXPECT_EQ(b.RequestLevel(), 6);
}

}  // namespace
}  // namespace kvgate::runtime::limits
