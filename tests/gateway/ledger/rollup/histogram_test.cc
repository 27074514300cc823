#include "gateway/ledger/rollup/histogram.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <string>
#include <string_view>
#include <vector>

namespace kvgate::ledger::rollup {
namespace {

TEST(HistogramTest, PercentilesAreWithinABucketOfTheTrueOnes) {
  std::mt19937_64 random(3);
  Histogram histogram;
  std::vector<int64_t> all;
  for (int i = 0; i < 20'000; ++i) {
    const auto value = static_cast<int64_t>(std::exp2(static_cast<double>(random() % 3'000) / 100));
    histogram.Add(value);
    all.push_back(value);
  }
  std::sort(all.begin(), all.end());
  for (const double q : {0.01, 0.5, 0.9, 0.99}) {
    const auto exact = static_cast<double>(all[static_cast<size_t>(q * 20'000) - 1]);
    EXPECT_NEAR(static_cast<double>(histogram.Percentile(q)), exact, exact / 8 + 1) << q;
  }
  EXPECT_EQ(histogram.count(), 20'000);
}

TEST(HistogramTest, MergingIsTheSameAsCountingTogether) {
  std::mt19937_64 random(4);
  Histogram whole;
  std::vector<Histogram> parts(7);
  for (int i = 0; i < 5'000; ++i) {
    const auto value = static_cast<int64_t>(random() >> (random() % 64));
    const int64_t bounded = value < 0 ? 0 : value;
    whole.Add(bounded);
    parts[random() % parts.size()].Add(bounded);
  }
  Histogram merged;
  for (const Histogram& part : parts) merged.Merge(part);
  EXPECT_EQ(merged, whole);
}

TEST(HistogramTest, BytesGiveTheSameBackAndBrokenOnesNothing) {
  std::mt19937_64 random(5);
  Histogram histogram;
  for (int i = 0; i < 300; ++i) histogram.Add(static_cast<int64_t>(random() % 100'000'000));
  std::string bytes;
  histogram.Append(bytes);
  bytes += "rest";
  std::string_view left = bytes;
  Histogram read;
  ASSERT_TRUE(read.Take(left));
  EXPECT_EQ(read, histogram);
  EXPECT_EQ(left, "rest");
  for (size_t size = 0; size + 4 < bytes.size(); ++size) {
    std::string_view cut = std::string_view(bytes).substr(0, size);
    EXPECT_FALSE(read.Take(cut)) << size;
  }
}

TEST(HistogramTest, NothingCountedHasNoPercentile) {
  EXPECT_EQ(Histogram().Percentile(0.5), -1);
  Histogram one;
  one.Add(-5);
  EXPECT_EQ(one.Percentile(0), 0);
}

}  // namespace
}  // namespace kvgate::ledger::rollup
