#include "kernels/cuda/rows/top_k.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "kernels/cuda/memory/device_memory.h"
#include "tests/kernels/test_tensors.h"

namespace kvgate::kernels::cuda::rows {

using memory::DeviceMemory;

namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

// Puts x into device memory, `offset` floats past an aligned address; results are in pinned memory.
class TopKTest : public testing::Test {
 protected:
  void SetUp() override { stream_ = std::move(*device::CommandStream::Open({})); }

  void Run(const std::vector<float>& x, int64_t columns, int count,
           const std::vector<float>& scales, size_t offset = 0) {
    const int num_rows = static_cast<int>(scales.size());
    columns_ = columns;
    count_ = count;
    x_ = x;
    scales_ = scales;
    const auto size = static_cast<size_t>(num_rows * count);
    device_ = std::move(*DeviceMemory::Allocate((x.size() + offset) * sizeof(float), "x"));
    device_.CopyIn(std::as_bytes(std::span(x)), offset * sizeof(float));
    scratch_ = std::move(*DeviceMemory::Allocate(TopKScratchBytes(num_rows, columns), "tops"));
    pinned_ = std::move(*memory::PinnedMemory::Allocate((size + scales.size()) * 8, "results"));
    auto* floats = reinterpret_cast<float*>(pinned_.data());
    to_ = {.ids = reinterpret_cast<TokenId*>(floats + size + 2 * scales.size()),
           .values = floats + 2 * scales.size(),
           .exp_sums = floats,
           .scaled_exp_sums = floats + scales.size()};
    Note(offset);
    stream_->Synchronize();
  }
  void Note(size_t offset) {
    TopK(*stream_,
         {.x = reinterpret_cast<const float*>(device_.data()) + offset,
          .num_rows = static_cast<int>(scales_.size()),
          .columns = columns_,
          .count = count_,
          .scales = scales_},
         scratch_.data(), to_);
  }

  void ExpectRight() {
    for (size_t row = 0; row < scales_.size(); ++row) {
      SCOPED_TRACE(testing::Message() << "row " << row);
      ExpectRowRight(row);
    }
  }
  void ExpectRowRight(size_t row) {
    const auto columns = static_cast<size_t>(columns_);
    const auto count = static_cast<size_t>(count_);
    std::vector<float> values(columns);
    for (size_t i = 0; i < columns; ++i) {
      const float value = x_[row * columns + i];
      values[i] = std::isnan(value) ? -kInfinity : value;
    }
    std::vector<TokenId> order(columns);
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(),
                     [&](TokenId a, TokenId b) { return values[a] > values[b]; });
    double sum = 0;
    double scaled = 0;
    const double greatest = values[order[0]];
    for (const float value : values) {
      if (value == -kInfinity) continue;
      sum += std::exp(value - greatest);
      scaled += std::exp((value - greatest) * scales_[row]);
    }
    for (size_t i = 0; i < count; ++i) {
      ASSERT_EQ(to_.ids[row * count + i], i < columns ? order[i] : -1) << i;
      ASSERT_EQ(to_.values[row * count + i], i < columns ? values[order[i]] : -kInfinity) << i;
    }
    ASSERT_NEAR(to_.exp_sums[row], sum, sum * 2e-6);
    ASSERT_NEAR(to_.scaled_exp_sums[row], scaled, scaled * 4e-6);
  }

  std::unique_ptr<device::CommandStream> stream_;
  DeviceMemory device_;
  DeviceMemory scratch_;
  memory::PinnedMemory pinned_;
  TopKResult to_;
  std::vector<float> x_;
  std::vector<float> scales_;
  int64_t columns_ = 0;
  int count_ = 0;
};

TEST_F(TopKTest, EveryCutOfARowAndEveryAlignment) {
  for (const int64_t columns : {1, 1023, 1024, 1025, 4100, 65537, 131080, 300000, 524288}) {
    for (const size_t offset : {0, 3}) {
      SCOPED_TRACE(testing::Message() << columns << " columns, offset " << offset);
      const int num_rows = columns < 10000 ? 3 : 1;
      Run(NormalValues(static_cast<size_t>(columns * num_rows), 7, 4.0f), columns, 256,
          std::vector<float>(static_cast<size_t>(num_rows), 1.3f), offset);
      ExpectRight();
    }
  }
}

// In this case every group that reaches the threshold is full of entries that do, the maximum
// possible.
TEST_F(TopKTest, TheGreatestSideBySide) {
  constexpr int64_t kColumns = 140000;
  std::vector<float> x(kColumns, -3.0f);
  // These columns are 256 groups of the second slice.
  for (int64_t i = 0; i < 4096; ++i) x[4096 + i] = static_cast<float>(i % 1777);
  for (const int count : {1, 255, 256}) {
    Run(x, kColumns, count, {1.0f});
    ExpectRight();
  }
}

TEST_F(TopKTest, SlicesWithNothingInThemAddNothing) {
  constexpr int64_t kColumns = 9000;
  std::vector<float> x(3 * kColumns, -kInfinity);
  std::fill(x.begin() + 2 * kColumns, x.end(), kNan);
  x[5000] = -1e4f;
  x[8999] = -1e4f - 1;
  x[kColumns] = 3e38f;
  x[kColumns + 7777] = -3e38f;
  Run(x, kColumns, 3, {1.0f, 0.5f, 2.0f});
  EXPECT_EQ(to_.ids[0], 5000);
  EXPECT_EQ(to_.ids[1], 8999);
  EXPECT_EQ(to_.ids[2], 0);
  EXPECT_FLOAT_EQ(to_.exp_sums[0], 1 + std::exp(-1.0f));
  EXPECT_EQ(to_.ids[4], 7777);
  EXPECT_EQ(to_.exp_sums[1], 1.0f);
  EXPECT_EQ(to_.ids[6], 0);
  EXPECT_EQ(to_.values[6], -kInfinity);
  EXPECT_EQ(to_.exp_sums[2], 0.0f);
  EXPECT_EQ(to_.scaled_exp_sums[2], 0.0f);
}

TEST_F(TopKTest, StepsOfAboutAsManyRowsAreOneGraph) {
  Run(NormalValues(8 * 2000, 3, 2.0f), 2000, 20, std::vector<float>(8, 1.0f));
  for (int num_rows = 5; num_rows <= 8; ++num_rows) {
    scales_.assign(static_cast<size_t>(num_rows), 0.7f);
    Note(0);
    stream_->Synchronize();
    ExpectRight();
  }
  EXPECT_GE(stream_->num_graph_launches(), 2u);
}

}  // namespace
}  // namespace kvgate::kernels::cuda::rows
