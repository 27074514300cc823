#include "gateway/upstream/breaker.h"

#include <gtest/gtest.h>

namespace kvgate::upstream {
namespace {

using std::chrono::seconds;

TEST(BreakerTest, OpensAfterFailuresInARowAndLetsOneThroughEachPause) {
  Breaker breaker({.failures = 3, .pause = seconds(5)});
  Breaker::TimePoint now{};
  breaker.Fail(now);
  breaker.Fail(now);
  breaker.Succeed();
  breaker.Fail(now);
  breaker.Fail(now);
  EXPECT_TRUE(breaker.Allow(now));
  breaker.Fail(now);
  EXPECT_FALSE(breaker.Allow(now));
  EXPECT_EQ(breaker.retry_after_seconds(now + seconds(2)), 3);
  EXPECT_FALSE(breaker.Allow(now + seconds(4)));
  EXPECT_TRUE(breaker.Allow(now + seconds(5)));
  EXPECT_FALSE(breaker.Allow(now + seconds(6)));
  EXPECT_TRUE(breaker.Allow(now + seconds(10)));
  breaker.Succeed();
  EXPECT_TRUE(breaker.Allow(now + seconds(10)));
  EXPECT_TRUE(breaker.Allow(now + seconds(10)));
}

TEST(BreakerTest, WithoutALimitItNeverOpens) {
  Breaker breaker({.failures = 0, .pause = seconds(5)});
  for (int i = 0; i < 100; ++i) breaker.Fail({});
  EXPECT_TRUE(breaker.Allow({}));
}

}  // namespace
}  // namespace kvgate::upstream
