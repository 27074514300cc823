#include "kernels/cpu/matmul/matmul.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "kernels/cpu/machine/simd_target.h"

namespace kvgate::kernels::cpu::matmul {
namespace {

TEST(CutRowsTest, TilesCoverTheRowsInOrderWithoutNeedlesslySmallOnes) {
  for (const int max_rows : {6, 12}) {
    for (int num_rows = 1; num_rows <= 300; ++num_rows) {
      int next = 0;
      for (const RowTile& tile : CutRows(num_rows, max_rows)) {
        ASSERT_EQ(tile.first, next);
        ASSERT_TRUE((tile.rows >= 1 && tile.rows <= 6) || tile.rows == max_rows);
        ASSERT_TRUE(tile.rows >= 3 || num_rows < 3) << num_rows << " rows by " << max_rows;
        next += tile.rows;
      }
      ASSERT_EQ(next, num_rows);
    }
  }
}

// The weight is an identity matrix, so y is x after the quantization of its row.
class QuantizedRowTest : public testing::TestWithParam<int64_t> {
 protected:
  std::vector<float> Multiply(const std::vector<float>& x, int num_rows) {
    const int64_t columns = static_cast<int64_t>(x.size()) / num_rows;
    std::vector<QuantBlockQ8_0> blocks(columns * columns / QuantBlockQ8_0::kElements);
    const int64_t per_row = columns / QuantBlockQ8_0::kElements;
    for (int64_t row = 0; row < columns; ++row) {
      QuantBlockQ8_0& block = blocks[row * per_row + row / QuantBlockQ8_0::kElements];
      block.scale = F32ToF16(1.0f);
      block.quants[row % QuantBlockQ8_0::kElements] = 1;
    }
    auto weight = PackedWeight::Pack({.dtype = DType::kQ8_0,
                                      .data = reinterpret_cast<const std::byte*>(blocks.data()),
                                      .rows = columns,
                                      .columns = columns},
                                     pool_);
    EXPECT_TRUE(weight.has_value());
    std::vector<float> y(x.size());
    const MatMulTask task{.weight = weight->get(), .y = y.data()};
    ParallelMatMul(GetParam(), pool_).Run(x.data(), num_rows, {&task, 1});
    return y;
  }

  machine::ThreadPool pool_{2};
};

TEST_P(QuantizedRowTest, AnOutlierCostsOnlyItsOwnBlockAndAtMostHalfAStep) {
  std::vector<float> x(64);
  for (int i = 0; i < 64; ++i) x[i] = std::sin(static_cast<float>(i));
  x[5] = 1000.0f;
  const std::vector<float> y = Multiply(x, 1);
  for (int i = 0; i < 64; ++i) {
    const float largest = i < 32 ? 1000.0f : 1.0f;
    EXPECT_NEAR(y[i], x[i], largest / 32767.0f * 0.51f) << i;
  }
}

TEST_P(QuantizedRowTest, ANanInARowShowsInItsBlockAndInNoOtherRow) {
  std::vector<float> x(2 * 64, 0.5f);
  x[64 + 3] = std::numeric_limits<float>::quiet_NaN();
  const std::vector<float> y = Multiply(x, 2);
  for (int i = 0; i < 64; ++i) EXPECT_EQ(y[i], 0.5f);
  EXPECT_TRUE(std::isnan(y[64 + 3]));
}

TEST_P(QuantizedRowTest, ZerosAndVanishingValuesGiveZero) {
  std::vector<float> x(64, 0.0f);
  for (int i = 32; i < 64; ++i) x[i] = std::numeric_limits<float>::denorm_min();
  for (const float value : Multiply(x, 1)) EXPECT_EQ(value, 0.0f);
}

TEST_P(QuantizedRowTest, TheLargestMagnitudesNeitherOverflowNorChangeSign) {
  std::vector<float> x(64, 3e38f);
  for (int i = 0; i < 64; i += 2) x[i] = -3e38f;
  const std::vector<float> y = Multiply(x, 1);
  for (int i = 0; i < 64; ++i) EXPECT_NEAR(y[i] / x[i], 1.0f, 1e-6f);
}

INSTANTIATE_TEST_SUITE_P(On, QuantizedRowTest, testing::ValuesIn(machine::SupportedTargets()),
                         [](const auto& test_case) {
                           return machine::TargetName(test_case.param);
                         });

}  // namespace
}  // namespace kvgate::kernels::cpu::matmul
