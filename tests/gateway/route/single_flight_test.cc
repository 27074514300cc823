#include "gateway/route/single_flight.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

namespace kvgate::route {
namespace {

constexpr prompt::parse::Identity kPrefix{.low = 1, .high = 2};
constexpr SingleFlight::TimePoint kNow{};

TEST(SingleFlightTest, TheFirstLeadsAndTheOthersAreWokenWhenItsAnswerBegins) {
  SingleFlight flights({});
  int woken = 0;
  const auto leader = flights.Join(
      kPrefix, [&] { woken += 100; }, kNow);
  const auto one = flights.Join(
      kPrefix, [&] { ++woken; }, kNow);
  const auto two = flights.Join(
      kPrefix, [&] { ++woken; }, kNow);
  EXPECT_TRUE(leader->leads());
  EXPECT_FALSE(one->leads() || two->leads() || one->completed());
  leader->Complete(kNow);
  leader->Complete(kNow);
  EXPECT_EQ(woken, 2);
  EXPECT_TRUE(one->completed() && two->completed());
  EXPECT_TRUE(flights.Join(kPrefix, {}, kNow)->leads()) << "what comes later is not held up";
}

TEST(SingleFlightTest, ALeaderThatFailsLetsTheOthersGo) {
  SingleFlight flights({});
  bool woken = false;
  auto leader = flights.Join(kPrefix, {}, kNow);
  const auto follower = flights.Join(
      kPrefix, [&] { woken = true; }, kNow);
  leader.reset();
  EXPECT_TRUE(woken && follower->completed());
}

TEST(SingleFlightTest, AFollowerThatLeavesChangesNothingAndPrefixesAreApart) {
  SingleFlight flights({});
  const auto leader = flights.Join(kPrefix, {}, kNow);
  flights.Join(
      kPrefix, [] {}, kNow);
  EXPECT_FALSE(flights
                   .Join(
                       kPrefix, [] {}, kNow)
                   ->leads());
  EXPECT_TRUE(flights.Join({.low = 3, .high = 2}, {}, kNow)->leads());
}

TEST(SingleFlightTest, AWarmPrefixIsWaitedForByNobodyUntilItCools) {
  SingleFlight flights({.warm = std::chrono::seconds(100)});
  flights.Join(kPrefix, {}, kNow)->Complete(kNow);
  const auto one = flights.Join(kPrefix, {}, kNow + std::chrono::seconds(99));
  const auto two = flights.Join(kPrefix, {}, kNow + std::chrono::seconds(99));
  EXPECT_TRUE(one->leads() && two->leads() && two->completed());
  const auto cold = flights.Join(kPrefix, {}, kNow + std::chrono::seconds(100));
  EXPECT_FALSE(flights
                   .Join(
                       kPrefix, [] {}, kNow + std::chrono::seconds(100))
                   ->leads());
}

TEST(SingleFlightTest, AnAnswerThatNeverCameLeavesThePrefixCold) {
  SingleFlight flights({});
  flights.Join(kPrefix, {}, kNow).reset();
  const auto leader = flights.Join(kPrefix, {}, kNow);
  EXPECT_FALSE(flights
                   .Join(
                       kPrefix, [] {}, kNow)
                   ->leads());
}

TEST(SingleFlightTest, ThreadsThatJoinAndLandHaveOneLeaderAtATime) {
  SingleFlight flights({.warm = std::chrono::seconds(0)});
  std::atomic<int> leading{0};
  std::atomic<int> woken{0};
  std::atomic<int> followers{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 2000; ++i) {
        const auto participant = flights.Join(
            kPrefix, [&] { ++woken; }, kNow);
        if (participant->leads()) {
          EXPECT_EQ(++leading, 1);
          --leading;
          participant->Complete(kNow);
        } else {
          ++followers;
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(woken, followers);
}

}  // namespace
}  // namespace kvgate::route
