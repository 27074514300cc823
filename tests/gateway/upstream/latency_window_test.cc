#include "gateway/upstream/latency_window.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

namespace kvgate::upstream {
namespace {

using namespace std::chrono_literals;
using std::chrono::microseconds;

const LatencyWindow::TimePoint kBegin{1000h};

TEST(LatencyWindowTest, PercentilesAreThoseOfTheSortedTimesWithinABucket) {
  std::mt19937_64 random(7);
  LatencyWindow window;
  std::vector<int64_t> sorted;
  for (int i = 0; i < 5000; ++i) {
    const auto us = std::llround(std::exp2(1.0 + static_cast<double>(random() % 2900) / 100));
    sorted.push_back(us);
    window.Add(microseconds(us), kBegin);
  }
  std::sort(sorted.begin(), sorted.end());
  const auto found = window.At(kBegin).value();
  const auto expect = [&](int64_t value, double share) {
    const auto rank = static_cast<size_t>(std::ceil(share * 5000)) - 1;
    const auto exact = static_cast<double>(sorted[rank]);
    EXPECT_NEAR(static_cast<double>(value), exact, 0.1 * exact + 1);
  };
  expect(found.p50_us, 0.5);
  expect(found.p90_us, 0.9);
  expect(found.p99_us, 0.99);
}

TEST(LatencyWindowTest, TimesOfMoreThanAnHourAgoAreForgotten) {
  LatencyWindow window;
  EXPECT_FALSE(window.At(kBegin));
  window.Add(1s, kBegin);
  EXPECT_TRUE(window.At(kBegin + 55min));
  EXPECT_FALSE(window.At(kBegin + 61min));
  window.Add(1ms, kBegin + 50min);
  EXPECT_LT(window.At(kBegin + 70min)->p99_us, 2000);
  // The slot of the first time is used again, and holds nothing of it.
  window.Add(1ms, kBegin + 60min);
  EXPECT_LT(window.At(kBegin + 60min)->p99_us, 2000);
}

TEST(LatencyWindowTest, NoTimeIsTooShortOrTooLong) {
  LatencyWindow window;
  window.Add(0us, kBegin);
  EXPECT_LE(window.At(kBegin)->p50_us, 1);
  for (int i = 0; i < 9; ++i) window.Add(1000h, kBegin);
  EXPECT_GT(window.At(kBegin)->p90_us, microseconds(1h).count());
}

}  // namespace
}  // namespace kvgate::upstream
