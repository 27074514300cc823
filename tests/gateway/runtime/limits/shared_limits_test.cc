#include "gateway/runtime/limits/shared_limits.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/gateway/runtime/limits/shared_gateway.h"
#include "tests/manual_clock.h"
#include "tests/wait_until.h"

namespace kvgate::runtime::limits {
namespace {

using ::testing::HasSubstr;
using namespace std::chrono_literals;

std::string Metrics(const SharedLimits& limits) {
  std::string text;
  metrics::TextWriter writer(text);
  limits.Collect(writer);
  return text;
}

TEST(SharedLimitsTest, TheThreadExchangesAndSaysItsLastAtTheEnd) {
  Common common;
  common.key.budgets.tokens_per_day = 1000;
  Directory first{"a"};
  Directory second{"b"};
  SharedGateway a(common, first);
  SharedGateway b(common, second);
  a.limits.Start();
  b.limits.Start();
  EXPECT_TRUE(a.Ask(600));
  EXPECT_TRUE(b.Ask(500));
  EXPECT_TRUE(test::WaitUntil([&] { return !a.Ask() && !b.Ask(); }, "both know the sum"));
  a.Count(7);
  a.limits.Stop();
  EXPECT_TRUE(test::WaitUntil([&] { return b.TokensToday() == 1107; }, "the last was said"));
  EXPECT_THAT(Metrics(b.limits), HasSubstr(R"(exchanges_total{result="failed"} 0)"));
  EXPECT_THAT(Metrics(b.limits), HasSubstr("kvgate_shared_limit_damaged_total 0"));
}

TEST(SharedLimitsTest, TheAgeSaysForHowLongTheOthersWereNotHeard) {
  test::ManualClock clock;
  Common common;
  common.key.budgets.tokens_per_day = 1000;
  Directory directory{"a"};
  SharedGateway a(common, directory);
  EXPECT_TRUE(a.Ask(1));
  a.limits.Exchange();
  clock.Advance(2s);
  EXPECT_THAT(Metrics(a.limits), HasSubstr("kvgate_shared_limit_age_seconds 2\n"));
  EXPECT_THAT(Metrics(a.limits), HasSubstr(R"(exchanges_total{result="ok"} 1)"));
  a.client.is_down = true;
  a.limits.Exchange();
  EXPECT_THAT(Metrics(a.limits), HasSubstr("kvgate_shared_limit_age_seconds 2\n"));
  EXPECT_THAT(Metrics(a.limits), HasSubstr(R"(exchanges_total{result="failed"} 1)"));
  a.client.is_down = false;
  a.limits.Exchange();
  EXPECT_THAT(Metrics(a.limits), HasSubstr("kvgate_shared_limit_age_seconds 0\n"));
}

TEST(SharedLimitsTest, ValuesThatAreDamagedAreCountedAndHurtNobody) {
  Common common;
  common.key.budgets.tokens_per_day = 1000;
  common.key.requests_per_minute = 60;
  Directory first{"a"};
  Directory second{"b"};
  SharedGateway a(common, first);
  SharedGateway b(common, second);
  EXPECT_TRUE(a.Ask(600));
  a.limits.Exchange();
  for (auto& [key, hash] : common.server.hashes) {
    for (auto& [field, value] : hash) value = "forged";
  }
  EXPECT_TRUE(b.Ask(1));
  b.limits.Exchange();
  EXPECT_EQ(b.TokensToday(), 1);
  EXPECT_THAT(Metrics(b.limits), HasSubstr("kvgate_shared_limit_damaged_total 2"));
}

}  // namespace
}  // namespace kvgate::runtime::limits
