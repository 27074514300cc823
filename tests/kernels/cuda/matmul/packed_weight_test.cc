#include "kernels/cuda/matmul/packed_weight.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <vector>

#include "kernels/cuda/device/runtime.h"
#include "kernels/cuda/matmul/packed_units.cuh"
#include "tests/kernels/test_tensors.h"

namespace kvgate::kernels::cuda::matmul {
namespace {

// Returns the values of a tile as a matrix instruction gets them, by column: [16][padded columns].
template <PackedKind kKind>
std::vector<float> ReadTile(const std::byte* tile, int num_units, int offset) {
  using Units = PackedUnits<kKind>;
  const int columns = num_units * Units::kShape.unit_columns();
  std::vector<float> values(static_cast<size_t>(kTileRows * columns));
  const uint32_t pair = 0x6400u + static_cast<uint32_t>(offset);
  for (int unit = 0; unit < num_units; ++unit) {
    for (int lane = 0; lane < device::kWarpLanes; ++lane) {
      device::Vector16 pieces[Units::kPieces];
      for (int i = 0; i < Units::kPieces; ++i) {
        std::memcpy(&pieces[i], tile + Units::OffsetInTile(num_units, unit, i, lane), 16);
      }
      for (int part = 0; part < Units::kParts; ++part) {
        uint32_t a[2][4];
        Units::MakeFragments(Units::PartOf(pieces, part), pair | pair << 16, a);
        for (int i = 0; i < 16; ++i) {
          const int word = i / 2 % 4;
          const int row = lane / 4 + word % 2 * 8;
          const int column =
              (unit * Units::kParts + part) * 32 + lane % 4 * 8 + i / 8 * 4 + word / 2 * 2 + i % 2;
          values[static_cast<size_t>(row * columns + column)] =
              F16ToF32(static_cast<uint16_t>(a[i / 8][word] >> 16 * (i % 2)));
        }
      }
    }
  }
  return values;
}

std::vector<float> ReadTile(PackedKind kind, const std::byte* tile, int num_units, int offset) {
  switch (kind) {
    case PackedKind::kHalves:
      return ReadTile<PackedKind::kHalves>(tile, num_units, offset);
    case PackedKind::kPlainHalves:
      return ReadTile<PackedKind::kPlainHalves>(tile, num_units, offset);
    case PackedKind::kCodes4:
      return ReadTile<PackedKind::kCodes4>(tile, num_units, offset);
    case PackedKind::kCodes4Mins:
      return ReadTile<PackedKind::kCodes4Mins>(tile, num_units, offset);
    case PackedKind::kCodes4Of16:
      return ReadTile<PackedKind::kCodes4Of16>(tile, num_units, offset);
    case PackedKind::kCodes6Mins:
      return ReadTile<PackedKind::kCodes6Mins>(tile, num_units, offset);
    case PackedKind::kCodes6Of16:
      return ReadTile<PackedKind::kCodes6Of16>(tile, num_units, offset);
    default:
      return ReadTile<PackedKind::kCodes8>(tile, num_units, offset);
  }
}

// Checks every value of the weight, and zeros behind its rows and columns.
void ExpectValues(DType dtype, PackedKind kind) {
  const int64_t columns = DTypeElements(dtype) == 1 ? 100 : DTypeElements(dtype) * 3;
  const TestWeight file_weight(dtype, 21, columns, 3);
  const WeightView view = file_weight.view();
  auto packed = WeightPacker().Pack(view, kind);
  ASSERT_TRUE(packed.has_value());
  const PackedWeight& weight = **packed;
  ASSERT_EQ(weight.num_tiles(), 2);
  const int padded = weight.num_units() * ShapeOf(kind).unit_columns();
  for (int row = 0; row < 32; ++row) {
    const size_t tile_bytes = PackedTileBytes(kind, columns);
    const std::vector<float> tile =
        ReadTile(kind, weight.data() + static_cast<size_t>(row / 16) * tile_bytes,
                 weight.num_units(), weight.offset());
    const auto got = RowsOf(tile, row % 16, 1, padded);
    std::vector<float> want(static_cast<size_t>(padded), 0.0f);
    if (row < 21) {
      const size_t row_bytes = DTypeBytes(dtype, static_cast<size_t>(columns));
      DequantizeValues(dtype, view.data + static_cast<size_t>(row) * row_bytes, columns,
                       want.data());
    }
    const float scale = weight.row_scales()[row];
    float largest = 0;
    // A scale, a min and their sum are each off by at most half a unit of the eleventh bit.
    double row_max = 0;
    for (const float value : want) row_max = std::max(row_max, std::abs(double{value}));
    for (int k = 0; k < padded; ++k) {
      const auto i = static_cast<size_t>(k);
      const double bound = HasQuantLayout(dtype) ? 2 * row_max : std::abs(want[i]);
      ASSERT_NEAR(double{got[i]} * scale, want[i], bound * 0x1p-10) << row << ", " << k;
      largest = std::max(largest, std::abs(got[i]));
    }
    EXPECT_LT(largest, 0x1p15f);
    EXPECT_TRUE(row >= 21 || largest >= 0x1p10f) << row << ", " << largest;
  }
}

TEST(PackedWeight, HoldsEveryValueOfEveryFormat) {
  for (const DType dtype : kWeightDTypes) {
    if (dtype == DType::kF32) continue;
    SCOPED_TRACE(DTypeName(dtype));
    ExpectValues(dtype, PackedKindOf(dtype));
  }
  ExpectValues(DType::kBF16, PackedKind::kPlainHalves);
}

// A packed model takes little more memory than its file.
TEST(PackedWeight, CodesStayCodes) {
  const auto bits = [](DType dtype) {
    const double bytes = PackedTileBytes(PackedKindOf(dtype), 4096);
    return bytes * 8 / (kTileRows * 4096);
  };
  EXPECT_EQ(bits(DType::kF16), 16);
  EXPECT_EQ(bits(DType::kQ8_0), 8.5);
  EXPECT_EQ(bits(DType::kQ4_0), 4.5);
  EXPECT_EQ(bits(DType::kQ4_K), 5);
  EXPECT_EQ(bits(DType::kQ5_K), 7);
  EXPECT_EQ(bits(DType::kQ6_K), 7);
  EXPECT_EQ(bits(DType::kQ2_K), 6);
}

// A row with a NaN is not scaled, so its other values stay unchanged.
TEST(PackedWeight, ARowWithANanKeepsIt) {
  const float values[4] = {1.5f, NAN, -2.0f, INFINITY};
  for (const DType dtype : {DType::kF16, DType::kBF16}) {
    std::vector<std::byte> bytes(8);
    QuantizeValues(dtype, values, 4, bytes.data());
    const WeightView view{.dtype = dtype, .data = bytes.data(), .rows = 1, .columns = 4};
    auto packed = WeightPacker().Pack(view, PackedKind::kPlainHalves);
    ASSERT_TRUE(packed.has_value());
    const auto* halves = reinterpret_cast<const uint16_t*>((*packed)->data());
    EXPECT_EQ((*packed)->row_scales()[0], 1.0f);
    EXPECT_EQ(F16ToF32(halves[0]), 1.5f);
    EXPECT_TRUE(std::isnan(F16ToF32(halves[1])));
    EXPECT_EQ(F16ToF32(halves[3]), INFINITY);
  }
}

TEST(PackedWeight, PlainHalvesAreRowMajor) {
  const TestWeight file_weight(DType::kF16, 18, 70, 4);
  auto packed = WeightPacker().Pack(file_weight.view(), PackedKind::kPlainHalves);
  ASSERT_TRUE(packed.has_value());
  const auto* values = reinterpret_cast<const uint16_t*>((*packed)->data());
  for (int row = 0; row < 18; ++row) {
    for (int k = 0; k < 70; ++k) {
      uint16_t want = 0;
      std::memcpy(&want, file_weight.view().data + (row * 70 + k) * 2, sizeof(want));
      EXPECT_EQ(F16ToF32(values[row * 128 + k]) * (*packed)->row_scales()[row], F16ToF32(want));
    }
  }
}

// The matrix has more than one piece and is packed by several threads.
TEST(PackedWeight, LargeMatricesArePackedInPieces) {
  const TestWeight file_weight(DType::kF16, 2100, 8192, 5);
  auto packed = WeightPacker().Pack(file_weight.view(), PackedKind::kHalves);
  ASSERT_TRUE(packed.has_value());
  const size_t tile_bytes = PackedTileBytes(PackedKind::kHalves, 8192);
  std::vector<std::byte> tile(tile_bytes);
  for (const int64_t index : {0, 64, 127, 128, 131}) {
    std::vector<float> scales(kTileRows);
    std::fill(tile.begin(), tile.end(), std::byte{0});
    PackTile(file_weight.view(), PackedKind::kHalves, index, tile.data(), scales.data());
    const std::byte* got = (*packed)->data() + static_cast<size_t>(index) * tile_bytes;
    EXPECT_EQ(std::memcmp(tile.data(), got, tile_bytes), 0) << index;
    EXPECT_EQ(std::memcmp(scales.data(), (*packed)->row_scales() + index * kTileRows, 64), 0);
  }
}

}  // namespace
}  // namespace kvgate::kernels::cuda::matmul
