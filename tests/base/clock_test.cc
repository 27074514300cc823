#include "base/clock.h"

#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "tests/manual_clock.h"

namespace kvgate {
namespace {

using std::chrono::milliseconds;

TEST(WallClockTest, IsTheSystemsTime) {
  using std::chrono::system_clock;
  const auto before = system_clock::now();
  const std::chrono::microseconds now(WallClock::NowUs());
  EXPECT_GE(now, std::chrono::floor<std::chrono::microseconds>(before.time_since_epoch()));
  EXPECT_LE(now, system_clock::now().time_since_epoch());
}

TEST(WallClockTest, AThreadMaySimulateItForItselfAlone) {
  const int64_t simulated = 1'234'567'890;
  WallClock::Simulate(&simulated);
  EXPECT_EQ(WallClock::NowUs(), simulated);
  EXPECT_EQ(WallClock::NowUnix(), 1234);
  int64_t others = 0;
  std::thread([&] { others = WallClock::NowUs(); }).join();
  EXPECT_GT(others, int64_t{1'600'000'000'000'000});
  WallClock::Simulate(nullptr);
  EXPECT_GT(WallClock::NowUs(), int64_t{1'600'000'000'000'000});
}

TEST(SteadyClockTest, IsTheSystemsSteadyClockAndAThreadMaySimulateItForItselfAlone) {
  const auto before = std::chrono::steady_clock::now();
  EXPECT_GE(SteadyClock::now(), before);
  const SteadyClock::time_point simulated = before - std::chrono::hours(1);
  SteadyClock::Simulate(&simulated);
  EXPECT_EQ(SteadyClock::now(), simulated);
  SteadyClock::time_point others;
  std::thread([&] { others = SteadyClock::now(); }).join();
  EXPECT_GE(others, before);
  SteadyClock::Simulate(nullptr);
  EXPECT_GE(SteadyClock::now(), before);
}

TEST(ManualClockTest, TimePassesOnAllThreadsWhenATestSaysSoAndOtherwiseNot) {
  const int64_t real_us = WallClock::NowUs();
  {
    const test::ManualClock clock;
    const SteadyClock::time_point begin = SteadyClock::now();
    const int64_t begin_us = WallClock::NowUs();
    EXPECT_GE(begin_us, real_us);
    std::thread([] { test::ManualClock::Advance(milliseconds(1500)); }).join();
    EXPECT_EQ(SteadyClock::now() - begin, milliseconds(1500));
    EXPECT_EQ(WallClock::NowUs() - begin_us, 1'500'000);
    SteadyClock::time_point others;
    std::thread([&] { others = SteadyClock::now(); }).join();
    EXPECT_EQ(others, SteadyClock::now());
    test::ManualClock::Advance(std::chrono::hours(24));
    EXPECT_GT(WallClock::NowUs() - real_us, int64_t{86'400'000'000});
  }
  EXPECT_LT(WallClock::NowUs() - real_us, int64_t{86'400'000'000});
}

}  // namespace
}  // namespace kvgate
