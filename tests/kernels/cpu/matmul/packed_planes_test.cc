#include "kernels/cpu/matmul/packed_planes.h"

#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <vector>

#include "kernels/weight_format.h"

namespace kvgate::kernels::cpu::matmul {
namespace {

constexpr int64_t kRows = 37;  // one whole panel and one of five rows
constexpr int64_t kColumns = 512;

// Reads one panel back a number at a time, following the description in packed_planes.h.
class PanelReader {
 public:
  PanelReader(DType dtype, const std::byte* panel) : shape_(PlaneShapeOf(dtype)), panel_(panel) {}

  uint16_t Scale(int64_t block, int row) const {
    return shape_.layout.scale == QuantScale::kF16 ? Half(Head(block) + row * 2)
                                                   : Byte(Head(block) + row);
  }
  uint16_t Min(int64_t block, int row) const {
    return Half(Head(block) + kPanelRows * shape_.scale_bytes() + static_cast<size_t>(row) * 2);
  }
  int GroupByte(int64_t block, int unit, int group, int row) const {
    return Byte(UnitAt(block, unit) + group * kPanelRows + row);
  }
  int Code(int64_t block, int i, int row) const {
    const std::byte* planes = UnitAt(block, i / kUnitColumns) + shape_.group_bytes();
    const int column = i % kUnitColumns;
    const int low = Plane(planes, shape_.low_bits(), column, row);
    if (shape_.high_bits() == 0) return low;
    planes += static_cast<size_t>(kPanelRows) * shape_.low_bits() * 4;
    return low | Plane(planes, shape_.high_bits(), column, row) << shape_.low_bits();
  }

 private:
  static int Byte(const std::byte* at) { return std::to_integer<int>(*at); }
  static uint16_t Half(const std::byte* at) {
    return static_cast<uint16_t>(Byte(at) | Byte(at + 1) << 8);
  }
  static int Plane(const std::byte* plane, int bits, int column, int row) {
    const int pairs = 16 / bits;
    const int pair = column / 2;
    uint32_t word = 0;
    std::memcpy(&word, plane + ((pair / pairs) * kPanelRows + row) * 4, sizeof(word));
    const int shift = pair % pairs * bits + column % 2 * 16;
    return static_cast<int>(word >> shift & ((1u << bits) - 1));
  }
  const std::byte* Head(int64_t block) const {
    return panel_ + static_cast<size_t>(block) * shape_.block_bytes();
  }
  const std::byte* UnitAt(int64_t block, int unit) const {
    return Head(block) + shape_.head_bytes() + static_cast<size_t>(unit) * shape_.unit_bytes();
  }

  PlaneShape shape_;
  const std::byte* panel_;
};

class PackedPlanesTest : public testing::TestWithParam<DType> {};

TEST_P(PackedPlanesTest, EveryNumberOfTheFileIsWhereItBelongsAndPaddingIsZero) {
  const QuantLayout layout = QuantLayoutOf(GetParam());
  const size_t block_bytes = WeightFormatOf(GetParam()).bytes;
  std::mt19937 random(3);
  std::vector<std::byte> file(DTypeBytes(GetParam(), kRows * kColumns));
  for (std::byte& byte : file) byte = static_cast<std::byte>(random());
  machine::ThreadPool pool(2);
  const auto weight = PackedWeight::Pack(
      {.dtype = GetParam(), .data = file.data(), .rows = kRows, .columns = kColumns}, pool);
  ASSERT_TRUE(weight.has_value());
  const int64_t num_blocks = kColumns / layout.elements;
  for (int64_t row = 0; row < 2 * kPanelRows; ++row) {
    const PanelReader panel(GetParam(), (*weight)->panel(row / kPanelRows));
    const int lane = static_cast<int>(row % kPanelRows);
    for (int64_t block = 0; block < num_blocks; ++block) {
      QuantParts parts;
      if (row < kRows) {
        const auto at = static_cast<size_t>(row * num_blocks + block);
        UnpackBlock(GetParam(), file.data() + at * block_bytes, &parts);
      }
      ASSERT_EQ(panel.Scale(block, lane), parts.scale) << row;
      if (layout.min != QuantMin::kNone) {
        ASSERT_EQ(panel.Min(block, lane), parts.min) << row;
      }
      for (int i = 0; i < layout.elements; ++i) {
        ASSERT_EQ(panel.Code(block, i, lane), parts.codes[i]) << "row " << row << " element " << i;
      }
      const int groups = kUnitColumns / layout.group;
      for (int g = 0; g < layout.num_groups() && layout.has_group_scales(); ++g) {
        const int byte = panel.GroupByte(block, g / groups, g % groups, lane);
        const bool is_shared = GetParam() == DType::kQ2_K;
        ASSERT_EQ(static_cast<int8_t>(is_shared ? byte & 15 : byte), parts.group_scales[g]);
        if (layout.min != QuantMin::kOfGroups) continue;
        const int min =
            is_shared ? byte >> 4 : panel.GroupByte(block, g / groups, groups + g % groups, lane);
        ASSERT_EQ(min, parts.group_mins[g]);
      }
    }
  }
}

// A model may take at most 1.15 times the memory of its file.
TEST_P(PackedPlanesTest, APanelTakesHardlyMoreThanTheFile) {
  const size_t file_bytes = kPanelRows * DTypeBytes(GetParam(), 1024);
  EXPECT_GE(PlanePanelBytes(GetParam(), 1024), file_bytes);
  EXPECT_LE(static_cast<double>(PlanePanelBytes(GetParam(), 1024)),
            1.04 * static_cast<double>(file_bytes));
}

INSTANTIATE_TEST_SUITE_P(All, PackedPlanesTest,
                         testing::Values(DType::kQ4_0, DType::kQ4_1, DType::kQ5_0, DType::kQ5_1,
                                         DType::kQ2_K, DType::kQ3_K, DType::kQ4_K, DType::kQ5_K,
                                         DType::kQ6_K, DType::kIQ4_NL, DType::kIQ4_XS,
                                         DType::kMXFP4),
                         [](const auto& test) { return std::string(DTypeName(test.param)); });

}  // namespace
}  // namespace kvgate::kernels::cpu::matmul
