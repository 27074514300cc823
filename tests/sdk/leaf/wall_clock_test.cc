#include <kvgate/wall_clock.h>

#include <gtest/gtest.h>

#include <chrono>
#include <thread>

namespace kvgate {
namespace {

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

}  // namespace
}  // namespace kvgate
