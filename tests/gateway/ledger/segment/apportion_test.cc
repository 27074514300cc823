#include "gateway/ledger/segment/apportion.h"

#include <gtest/gtest.h>

#include <numeric>
#include <random>
#include <vector>

namespace kvgate::ledger::segment {
namespace {

std::vector<int64_t> Shared(std::vector<int64_t> weights, int64_t total) {
  std::vector<int64_t> shares(weights.size(), -1);
  Apportion(weights, total, shares);
  return shares;
}

TEST(ApportionTest, TheLargestRemaindersGetWhatIsLeft) {
  EXPECT_EQ(Shared({1, 1, 1}, 10), (std::vector<int64_t>{4, 3, 3}));
  EXPECT_EQ(Shared({47, 16, 158, 12}, 100), (std::vector<int64_t>{20, 7, 68, 5}));
  EXPECT_EQ(Shared({0, 5}, 7), (std::vector<int64_t>{0, 7}));
  EXPECT_EQ(Shared({0, 0}, 3), (std::vector<int64_t>{2, 1})) << "no weight at all: equal ones";
  EXPECT_EQ(Shared({}, 0), std::vector<int64_t>{});
}

TEST(ApportionTest, SharesSumExactlyAndAreWithinOneOfTheirPart) {
  std::mt19937_64 random(11);
  for (int i = 0; i < 20'000; ++i) {
    std::vector<int64_t> weights(1 + random() % 12);
    for (int64_t& weight : weights) weight = static_cast<int64_t>(random() >> (random() % 50 + 12));
    const auto total = static_cast<int64_t>(random() >> (random() % 50 + 12));
    const std::vector<int64_t> shares = Shared(weights, total);
    EXPECT_EQ(std::accumulate(shares.begin(), shares.end(), int64_t{0}), total);
    const auto sum = std::accumulate(weights.begin(), weights.end(), 0.0L);
    for (size_t k = 0; sum > 0 && k < weights.size(); ++k) {
      const long double exact = static_cast<long double>(total) * weights[k] / sum;
      EXPECT_LT(std::abs(static_cast<long double>(shares[k]) - exact), 1.001L);
    }
  }
}

}  // namespace
}  // namespace kvgate::ledger::segment
