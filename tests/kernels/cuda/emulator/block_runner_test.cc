// The emulator's own guarantees: lanes, barriers, matrix instructions, copies that land late.
#include "kernels/cuda/emulator/block_runner.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "kernels/cuda/device/device.cuh"
#include "kernels/dtype.h"

namespace kvgate::kernels::cuda::emulator {

using device::LaneIndex;
using device::SharedMemory;
using device::WarpIndex;

namespace {

class BlockRunnerTest : public testing::TestWithParam<emulator::Order> {
 protected:
  void SetUp() override { emulator::SetOrder(GetParam()); }
  void TearDown() override { emulator::SetOrder(emulator::Order::kForward); }
};

TEST_P(BlockRunnerTest, EveryThreadOfEveryBlockRunsOnce) {
  std::vector<int> runs(3 * 2 * 2 * 64);
  emulator::RunGrid({3, 2, 2}, 64, 0, [&] {
    EXPECT_EQ(gridDim.x, 3u);
    EXPECT_EQ(blockDim.x, 64u);
    const unsigned int block = blockIdx.x + 3 * (blockIdx.y + 2 * blockIdx.z);
    ++runs[block * 64 + threadIdx.x];
  });
  for (const int count : runs) EXPECT_EQ(count, 1);
}

// Computes the sum over a block by shuffles, shared memory and barriers.
TEST_P(BlockRunnerTest, ShufflesAndBarriersExchangeValues) {
  std::vector<float> sums(2);
  emulator::RunGrid({2, 1, 1}, 128, 4 * sizeof(float), [&] {
    auto value = static_cast<float>(threadIdx.x + 1000 * blockIdx.x);
    for (int mask = 16; mask > 0; mask /= 2) value += device::ShuffleXor(value, mask);
    auto* of_warps = reinterpret_cast<float*>(SharedMemory());
    EXPECT_TRUE(std::isnan(of_warps[WarpIndex()]) || of_warps[WarpIndex()] == value);
    if (LaneIndex() == 0) of_warps[WarpIndex()] = value;
    device::SyncThreads();
    if (threadIdx.x == 0) sums[blockIdx.x] = std::accumulate(of_warps, of_warps + 4, 0.0f);
  });
  EXPECT_EQ(sums[0], 8128.0f);
  EXPECT_EQ(sums[1], 8128.0f + 128000.0f);
}

TEST_P(BlockRunnerTest, WarpSumsAreInEveryLaneAndFetchedAddsCountEveryThreadOnce) {
  std::vector<uint32_t> sums(128);
  std::vector<uint32_t> threads_of(128, 200);
  uint32_t count = 0;
  emulator::RunGrid({1, 1, 1}, 128, 0, [&] {
    sums[threadIdx.x] = device::WarpSum(threadIdx.x);
    threads_of[device::AtomicFetchAdd(&count, 1)] = threadIdx.x;
  });
  for (uint32_t i = 0; i < 128; ++i) EXPECT_EQ(sums[i], 496 + i / 32 * 1024);
  EXPECT_EQ(count, 128u);
  std::sort(threads_of.begin(), threads_of.end());
  for (uint32_t i = 0; i < 128; ++i) EXPECT_EQ(threads_of[i], i);
}

TEST_P(BlockRunnerTest, MmaMultipliesMatricesInTheDocumentedFragments) {
  std::vector<float> result(16 * 8);
  const auto a_at = [](int row, int k) { return static_cast<float>(row - 3 * k); };
  const auto b_at = [](int k, int column) { return static_cast<float>(5 * k + column - 40); };
  emulator::RunGrid({1, 1, 1}, 32, 0, [&] {
    const int g = LaneIndex() / 4;
    const int t = LaneIndex() % 4;
    const auto a_pair = [&](int row, int k) {
      return device::FloatsToHalf2(a_at(row, k), a_at(row, k + 1));
    };
    const auto b_pair = [&](int k) { return device::FloatsToHalf2(b_at(k, g), b_at(k + 1, g)); };
    const uint32_t a[4] = {a_pair(g, 2 * t), a_pair(g + 8, 2 * t), a_pair(g, 2 * t + 8),
                           a_pair(g + 8, 2 * t + 8)};
    const uint32_t b[2] = {b_pair(2 * t), b_pair(2 * t + 8)};
    float c[4] = {1, 1, 1, 1};
    device::MmaHalf(c, a, b);
    for (int i = 0; i < 4; ++i) result[(g + i / 2 * 8) * 8 + 2 * t + i % 2] = c[i];
  });
  for (int row = 0; row < 16; ++row) {
    for (int column = 0; column < 8; ++column) {
      float want = 1;
      for (int k = 0; k < 16; ++k) want += a_at(row, k) * b_at(k, column);
      EXPECT_EQ(result[row * 8 + column], want) << row << " " << column;
    }
  }
}

TEST_P(BlockRunnerTest, LoadMatricesGivesTheFragmentsThatMmaTakes) {
  emulator::RunGrid({1, 1, 1}, 32, 16 * 16 * 2, [&] {
    auto* tile = reinterpret_cast<uint16_t*>(SharedMemory());  // [16][16]
    const int lane = LaneIndex();
    for (int i = lane; i < 256; i += 32) tile[i] = static_cast<uint16_t>(i);
    device::SyncWarp();
    uint32_t to[4];
    device::LoadMatrices4(to, tile + lane % 16 * 16 + lane / 16 * 8);
    const int g = lane / 4;
    const int t = lane % 4;
    for (int i = 0; i < 4; ++i) {
      const uint32_t first = (g + i % 2 * 8) * 16 + 2 * t + i / 2 * 8;
      EXPECT_EQ(to[i], first | (first + 1) << 16);
    }
    device::LoadMatrices4Transposed(to, tile + lane % 16 * 16 + lane / 16 * 8);
    for (int i = 0; i < 4; ++i) {
      const uint32_t first = (2 * t + i % 2 * 8) * 16 + g + i / 2 * 8;
      EXPECT_EQ(to[i], first | (first + 16) << 16);
    }
  });
}

// Multiplies 64 x 16 by 16 x 128, using the middle 16 of b's 64 rows. The result exists only after
// the wait, and b is read until then.
TEST_P(BlockRunnerTest, WarpgroupMmaMultipliesWhenItIsWaitedFor) {
  const auto a_value = [](int row, int k) { return static_cast<float>(row % 7 - k); };
  const auto b_value = [](int k, int column) { return static_cast<float>(column % 5 + 2 * k); };
  std::vector<float> product(64 * 128);
  emulator::RunGrid({1, 1, 1}, 128, 128 * 128, [&] {
    auto* b = reinterpret_cast<uint16_t*>(SharedMemory());
    for (int k = 0; k < 64; ++k) {
      const auto column = static_cast<int>(threadIdx.x);
      b[column * 64 + ((k / 8) ^ (column % 8)) * 8 + k % 8] =
          F32ToF16(k / 16 == 1 ? b_value(k % 16, column) : 100.0f);
    }
    device::SyncThreads();
    const int g = LaneIndex() / 4;
    const int t = LaneIndex() % 4;
    uint32_t a[2][4];
    for (int i = 0; i < 4; ++i) {
      const int row = WarpIndex() * 16 + g + i % 2 * 8;
      const int k = 2 * t + i / 2 * 8;
      a[0][i] = a[1][i] = device::FloatsToHalf2(a_value(row, k), a_value(row, k + 1));
    }
    float d[64];
    for (float& value : d) value = 1.0f;
    device::WarpgroupFence(a);
    device::WarpgroupMma<128>(d, a[0], b, 1, false);
    device::WarpgroupMma<128>(d, a[1], b, 1, true);
    device::WarpgroupCommit();
    EXPECT_EQ(d[0], 1.0f);
    device::WarpgroupWaitAll(d);
    for (int i = 0; i < 64; ++i) {
      const int row = WarpIndex() * 16 + g + i % 4 / 2 * 8;
      product[row * 128 + i / 4 * 8 + 2 * t + i % 2] = d[i];
    }
  });
  for (int row = 0; row < 64; ++row) {
    for (int column = 0; column < 128; ++column) {
      float want = 0;
      for (int k = 0; k < 16; ++k) want += 2 * a_value(row, k) * b_value(k, column);
      ASSERT_EQ(product[row * 128 + column], want) << row << ", " << column;
    }
  }
}

TEST_P(BlockRunnerTest, AnAsynchronousCopyLandsWhenItIsWaitedFor) {
  alignas(16) uint32_t from[8] = {1, 2, 3, 4, 5, 6, 7, 8};
  emulator::RunGrid({1, 1, 1}, 32, 64, [&] {
    if (threadIdx.x != 0) return;
    auto* to = reinterpret_cast<uint32_t*>(SharedMemory());
    device::CopyAsync16(to, from, true);
    device::CopyCommit();
    device::CopyAsync16(to + 4, from + 4, false);
    device::CopyCommit();
    EXPECT_EQ(to[0], 0xffffffffu);
    device::CopyWait<1>();
    EXPECT_EQ(to[3], 4u);
    EXPECT_EQ(to[4], 0xffffffffu);
    device::CopyWait<0>();
    EXPECT_EQ(to[4], 0u);
    EXPECT_EQ(to[7], 0u);
  });
}

TEST(BlockRunnerDeathTest, ABarrierThatSomeThreadsNeverReachEndsTheProcess) {
  EXPECT_DEATH(emulator::RunGrid({1, 1, 1}, 64, 0,
                                 [] {
                                   if (WarpIndex() == 0) {
                                     device::SyncThreads();
                                   } else {
                                     device::ShuffleXor(1.0f, LaneIndex() == 0 ? 1 : 0);
                                     if (LaneIndex() > 0) device::SyncWarp();
                                   }
                                 }),
               "never come");
}

INSTANTIATE_TEST_SUITE_P(Orders, BlockRunnerTest,
                         testing::Values(emulator::Order::kForward, emulator::Order::kReversed,
                                         emulator::Order::kShuffled));

}  // namespace
}  // namespace kvgate::kernels::cuda::emulator
