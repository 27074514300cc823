#include "kernels/cpu/top_k.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

namespace kvgate::kernels::cpu {
namespace {

// Extends the conformance suite: in a rising row the buffer of candidates is emptied again and
// again, and the lower columns among equal values must survive that.
TEST(TopKTest, ARisingRowOfTiesKeepsTheLowestColumnsOfTheGreatest) {
  constexpr int64_t kColumns = 1000;
  std::vector<float> x(2 * kColumns, 0.0f);  // the first row is not read
  for (int64_t i = 0; i < kColumns; ++i) x[kColumns + i] = static_cast<float>(i / 10);
  const std::vector<float> scales{1.0f, 2.0f};
  std::vector<TokenId> ids(2 * 15, -7);
  std::vector<float> values(2 * 15);
  std::vector<float> sums(2);
  std::vector<float> scaled(2);
  TopOfRow({.x = x.data(), .num_rows = 2, .columns = kColumns, .count = 15, .scales = scales}, 1,
           {.ids = ids.data(),
            .values = values.data(),
            .exp_sums = sums.data(),
            .scaled_exp_sums = scaled.data()});
  for (int i = 0; i < 15; ++i) {
    EXPECT_EQ(ids[15 + i], i < 10 ? 990 + i : 980 + i - 10);
    EXPECT_EQ(values[15 + i], i < 10 ? 99.0f : 98.0f);
    EXPECT_EQ(ids[i], -7);
  }
  EXPECT_NEAR(sums[1], 10 / (1 - std::exp(-1.0)), 1e-4);
  EXPECT_NEAR(scaled[1], 10 / (1 - std::exp(-2.0)), 1e-4);
}

}  // namespace
}  // namespace kvgate::kernels::cpu
