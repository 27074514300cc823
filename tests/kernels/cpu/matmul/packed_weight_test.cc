#include "kernels/cpu/matmul/packed_weight.h"

#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <vector>

#include "tests/base/mapped_pages.h"

namespace kvgate::kernels::cpu::matmul {
namespace {

constexpr int64_t kRows = 70;  // two whole panels and one of six rows
constexpr int64_t kColumns = 96;

std::vector<std::byte> RandomBytes(size_t count) {
  std::mt19937 random(7);
  std::vector<std::byte> bytes(count);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random() & 0xff);
  return bytes;
}

TEST(PackedWeightTest, OutputsLieInTheLanesAndPaddingIsZero) {
  machine::ThreadPool pool(2);
  const auto bytes = RandomBytes(DTypeBytes(DType::kF16, kRows * kColumns) + 1);
  const std::byte* data = bytes.data() + 1;  // tensors in a file may be unaligned
  auto weight = PackedWeight::Pack(
      {.dtype = DType::kF16, .data = data, .rows = kRows, .columns = kColumns}, pool);
  ASSERT_TRUE(weight.has_value());
  ASSERT_EQ((*weight)->num_panels(), 3);
  for (int64_t row = 0; row < 3 * kPanelRows; ++row) {
    const std::byte* panel = (*weight)->panel(row / kPanelRows);
    for (int64_t column = 0; column < kColumns; ++column) {
      uint16_t want = 0;
      uint16_t got = 0;
      if (row < kRows) std::memcpy(&want, data + (row * kColumns + column) * 2, 2);
      std::memcpy(&got, panel + (column * kPanelRows + row % kPanelRows) * 2, 2);
      ASSERT_EQ(got, want) << "row " << row << " column " << column;
    }
  }
}

TEST(PackedWeightTest, QuantsOfAPairOfColumnsLieSideBySide) {
  machine::ThreadPool pool(2);
  const auto bytes = RandomBytes(DTypeBytes(DType::kQ8_0, kRows * kColumns));
  auto weight = PackedWeight::Pack(
      {.dtype = DType::kQ8_0, .data = bytes.data(), .rows = kRows, .columns = kColumns}, pool);
  ASSERT_TRUE(weight.has_value());
  EXPECT_EQ((*weight)->bytes(), 3 * kPanelRows * DTypeBytes(DType::kQ8_0, kColumns));
  const int64_t num_blocks = kColumns / QuantBlockQ8_0::kElements;
  for (int64_t row = 0; row < 3 * kPanelRows; ++row) {
    const auto* panel =
        reinterpret_cast<const PackedQuantBlock*>((*weight)->panel(row / kPanelRows));
    const int64_t lane = row % kPanelRows;
    for (int64_t index = 0; index < num_blocks; ++index) {
      QuantBlockQ8_0 want{};
      if (row < kRows) {
        std::memcpy(&want, bytes.data() + (row * num_blocks + index) * sizeof(want), sizeof(want));
      }
      ASSERT_EQ(panel[index].scales[lane], want.scale);
      for (int i = 0; i < QuantBlockQ8_0::kElements; ++i) {
        ASSERT_EQ(panel[index].quants[i / 2][lane][i % 2], want.quants[i]);
      }
    }
  }
}

// The matrix has more than one run of 16 MiB and ends inside a panel.
TEST(PackedWeightTest, PagesOfAFileMappingAreLetGoAndTheBytesAreTheSame) {
  constexpr int64_t kManyRows = 4099;
  constexpr int64_t kManyColumns = 4096;
  machine::ThreadPool pool(2);
  const auto bytes = RandomBytes(DTypeBytes(DType::kQ8_0, kManyRows * kManyColumns));
  const MappedPages file(bytes);
  WeightView view{
      .dtype = DType::kQ8_0, .data = bytes.data(), .rows = kManyRows, .columns = kManyColumns};
  const auto want = PackedWeight::Pack(view, pool);
  view.data = file.bytes().data();
  const auto held = PackedWeight::Pack(view, pool);
  EXPECT_EQ(file.NumHeld(), file.num_pages());
  view.is_file_mapping = true;
  const auto got = PackedWeight::Pack(view, pool);
  EXPECT_EQ(file.NumHeld(), 0u);
  ASSERT_TRUE(want.has_value() && got.has_value());
  EXPECT_EQ(std::memcmp((*want)->panel(0), (*got)->panel(0), (*want)->bytes()), 0);
}

}  // namespace
}  // namespace kvgate::kernels::cpu::matmul
