#include "store/remote/breaker.h"

#include <gtest/gtest.h>

namespace kvgate::store::remote {
namespace {

using std::chrono::milliseconds;

const Breaker::TimePoint kStart = Breaker::TimePoint() + std::chrono::hours(1);

TEST(BreakerTest, FailuresInARowStopCallsForAPause) {
  Breaker breaker({.failures_max = 3, .pause = milliseconds(100)});
  breaker.Fail(kStart);
  breaker.Fail(kStart);
  breaker.Succeed();
  breaker.Fail(kStart);
  breaker.Fail(kStart);
  EXPECT_TRUE(breaker.Allow(kStart));
  breaker.Fail(kStart);
  EXPECT_FALSE(breaker.Allow(kStart));
  EXPECT_TRUE(breaker.IsPaused(kStart + milliseconds(99)));
  EXPECT_EQ(breaker.UntilTrial(kStart + milliseconds(40)), milliseconds(60));
  EXPECT_FALSE(breaker.IsPaused(kStart + milliseconds(100)));
}

TEST(BreakerTest, ItSaysOnceThatItTripsAndThatCallsAreMadeAgain) {
  Breaker breaker({.failures_max = 2, .pause = milliseconds(100)});
  EXPECT_FALSE(breaker.Fail(kStart));
  EXPECT_TRUE(breaker.Fail(kStart));
  EXPECT_FALSE(breaker.Fail(kStart + milliseconds(100)));
  EXPECT_TRUE(breaker.Succeed());
  EXPECT_FALSE(breaker.Succeed());
}

TEST(BreakerTest, OneCallIsTheTrialAndItsOutcomeDecides) {
  Breaker breaker({.failures_max = 1, .pause = milliseconds(100)});
  breaker.Fail(kStart);
  const auto second = kStart + milliseconds(100);
  EXPECT_TRUE(breaker.Allow(second));
  EXPECT_FALSE(breaker.Allow(second));
  breaker.Fail(second + milliseconds(10));
  EXPECT_FALSE(breaker.Allow(second + milliseconds(109)));
  EXPECT_TRUE(breaker.Allow(second + milliseconds(110)));
  breaker.Succeed();
  EXPECT_TRUE(breaker.Allow(second + milliseconds(110)));
  EXPECT_EQ(breaker.UntilTrial(second), milliseconds(0));
}

TEST(BreakerTest, ATrialWithoutAnOutcomeIsFollowedByAnother) {
  Breaker breaker({.failures_max = 1, .pause = milliseconds(100)});
  breaker.Fail(kStart);
  EXPECT_TRUE(breaker.Allow(kStart + milliseconds(100)));
  EXPECT_FALSE(breaker.Allow(kStart + milliseconds(199)));
  EXPECT_TRUE(breaker.Allow(kStart + milliseconds(200)));
}

TEST(BreakerTest, ZeroMeansThatCallsAreNeverStopped) {
  Breaker breaker({.failures_max = 0, .pause = milliseconds(100)});
  for (int index = 0; index < 100; ++index) breaker.Fail(kStart);
  EXPECT_TRUE(breaker.Allow(kStart));
  EXPECT_FALSE(breaker.IsPaused(kStart));
}

}  // namespace
}  // namespace kvgate::store::remote
