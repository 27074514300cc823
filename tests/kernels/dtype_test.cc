#include "kernels/dtype.h"

#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <utility>

namespace kvgate::kernels {
namespace {

// A binary float format: the bits of mantissa after the leading one, and the exponent range.
struct Format {
  int mantissa_bits;
  int exponent_min;  // of the smallest normal number
  int exponent_max;
};
constexpr Format kF16Format{.mantissa_bits = 10, .exponent_min = -14, .exponent_max = 15};
constexpr Format kBF16Format{.mantissa_bits = 7, .exponent_min = -126, .exponent_max = 127};

// Returns the format's value nearest to `value`, ties to even, computed in double.
double NearestOf(const Format& format, float value) {
  if (value == 0 || std::isinf(value)) return value;
  const int exponent = std::max(std::ilogb(value), format.exponent_min);
  const double quantum = std::ldexp(1.0, exponent - format.mantissa_bits);
  const double rounded = std::nearbyint(value / quantum) * quantum;
  const double limit = std::ldexp(1.0, format.exponent_max + 1);
  if (std::abs(rounded) >= limit) return std::copysign(INFINITY, value);
  return rounded;
}

bool SameValueAndSign(double a, double b) { return a == b && std::signbit(a) == std::signbit(b); }

// Combines every upper half with the lower halves at which rounding changes.
template <typename Visit>
void ForRoundingCandidates(Visit&& visit) {
  constexpr uint32_t kLow[] = {0x0000, 0x0001, 0x0fff, 0x1000, 0x1001, 0x1fff, 0x2000, 0x2fff,
                               0x3000, 0x3001, 0x7fff, 0x8000, 0x8001, 0xf000, 0xffff};
  for (uint32_t high = 0; high < 0x10000; ++high) {
    for (const uint32_t low : kLow) {
      const float value = std::bit_cast<float>(high << 16 | low);
      if (!std::isnan(value)) visit(value);
    }
  }
}

TEST(DTypeTest, EveryF16PatternRoundTrips) {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const float value = F16ToF32(static_cast<uint16_t>(bits));
    const uint16_t back = F32ToF16(value);
    // A NaN keeps sign and payload and becomes quiet, as the hardware's conversion does.
    const uint32_t want = std::isnan(value) ? bits | 0x0200u : bits;
    ASSERT_EQ(back, want) << "pattern " << bits;
  }
}

TEST(DTypeTest, EveryF16PatternHasTheValueOfItsFields) {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const int exponent = static_cast<int>(bits >> 10 & 0x1f);
    const int mantissa = static_cast<int>(bits & 0x3ff);
    const double sign = (bits & 0x8000) != 0 ? -1 : 1;
    const float got = F16ToF32(static_cast<uint16_t>(bits));
    if (exponent == 31) {
      ASSERT_TRUE(mantissa == 0 ? std::isinf(got) : std::isnan(got)) << "pattern " << bits;
      ASSERT_EQ(std::signbit(got), sign < 0) << "pattern " << bits;
      continue;
    }
    const double want = exponent == 0 ? sign * std::ldexp(mantissa, -24)
                                      : sign * std::ldexp(1024 + mantissa, exponent - 25);
    ASSERT_TRUE(SameValueAndSign(want, got)) << "pattern " << bits;
  }
}

TEST(DTypeTest, F16RoundsToNearestEven) {
  ForRoundingCandidates([](float value) {
    ASSERT_TRUE(SameValueAndSign(NearestOf(kF16Format, value), F16ToF32(F32ToF16(value))))
        << "value " << value << ", bits " << std::bit_cast<uint32_t>(value);
  });
}

TEST(DTypeTest, Bf16RoundsToNearestEven) {
  ForRoundingCandidates([](float value) {
    ASSERT_TRUE(SameValueAndSign(NearestOf(kBF16Format, value), BF16ToF32(F32ToBF16(value))))
        << "value " << value << ", bits " << std::bit_cast<uint32_t>(value);
  });
}

TEST(DTypeTest, F16EdgesRoundAsTheStandardSays) {
  EXPECT_EQ(F32ToF16(65504.0f), 0x7bff);
  EXPECT_EQ(F32ToF16(65519.996f), 0x7bff);
  EXPECT_EQ(F32ToF16(65520.0f), 0x7c00);  // halfway to 65536: even is infinity
  EXPECT_EQ(F32ToF16(0x1p-24f), 0x0001);
  EXPECT_EQ(F32ToF16(0x1p-25f), 0x0000);  // halfway to the smallest subnormal: even is zero
  EXPECT_EQ(F32ToF16(0x1.000002p-25f), 0x0001);
  EXPECT_EQ(F32ToF16(0x1.ff8p-15f), 0x03ff);  // the largest subnormal
  EXPECT_EQ(F32ToF16(0x1.ffcp-15f), 0x0400);  // halfway between it and the first normal
  EXPECT_EQ(F32ToF16(-0.0f), 0x8000);
  EXPECT_EQ(F32ToF16(-INFINITY), 0xfc00);
  EXPECT_EQ(F32ToF16(std::numeric_limits<float>::max()), 0x7c00);
  EXPECT_EQ(F32ToF16(std::numeric_limits<float>::denorm_min()), 0x0000);
}

TEST(DTypeTest, Bf16EdgesRoundAsTheStandardSays) {
  EXPECT_EQ(F32ToBF16(1.0f), 0x3f80);
  EXPECT_EQ(F32ToBF16(0x1.01p0f), 0x3f80);  // halfway, even below
  EXPECT_EQ(F32ToBF16(0x1.03p0f), 0x3f82);  // halfway, even above
  EXPECT_EQ(F32ToBF16(std::numeric_limits<float>::max()), 0x7f80);
  EXPECT_EQ(F32ToBF16(std::numeric_limits<float>::denorm_min()), 0x0000);
  EXPECT_EQ(F32ToBF16(-0.0f), 0x8000);
}

// Returns the value of an E4M3 pattern from its fields, and NaN for the two NaN patterns.
double E4M3Value(int pattern) {
  const int exponent = pattern >> 3 & 15;
  const int mantissa = pattern & 7;
  if (exponent == 15 && mantissa == 7) return std::numeric_limits<double>::quiet_NaN();
  const double magnitude =
      exponent == 0 ? mantissa / 512.0 : std::ldexp(8 + mantissa, exponent - 10);
  return std::copysign(magnitude, (pattern & 0x80) != 0 ? -1.0 : 1.0);
}

// Finds the pattern with the nearest value by trying all; in a tie the even one.
int NearestE4M3(float value) {
  const double magnitude = std::abs(static_cast<double>(value));
  int nearest = 0;
  for (int pattern = 1; pattern < 0x7f; ++pattern) {
    const double nearer = std::abs(magnitude - E4M3Value(nearest));
    const double distance = std::abs(magnitude - E4M3Value(pattern));
    if (distance < nearer || (distance == nearer && pattern % 2 == 0)) nearest = pattern;
  }
  if (magnitude > 448) nearest = 0x7e;  // infinity is equally far from all patterns
  return nearest | (std::signbit(value) ? 0x80 : 0);
}

TEST(DTypeTest, EveryF8E4M3PatternHasTheValueOfItsFieldsAndRoundTrips) {
  for (int pattern = 0; pattern < 256; ++pattern) {
    const double want = E4M3Value(pattern);
    const float got = F8E4M3ToF32(static_cast<uint8_t>(pattern));
    if (std::isnan(want)) {
      EXPECT_TRUE(std::isnan(got)) << pattern;
      EXPECT_EQ(std::signbit(got), pattern >= 0x80) << pattern;
    } else {
      EXPECT_TRUE(SameValueAndSign(want, got)) << pattern << ": " << got << " for " << want;
    }
    EXPECT_EQ(F32ToF8E4M3(got), pattern);
  }
}

TEST(DTypeTest, F8E4M3RoundsToNearestEvenAtAndBesideEveryBoundary) {
  for (int pattern = 0; pattern < 0x7e; ++pattern) {
    // Tests a value, the middle between it and the next, and the neighbours of both; all exact in
    // f32.
    const double middle = (E4M3Value(pattern) + E4M3Value(pattern + 1)) / 2;
    for (const double at : {E4M3Value(pattern), middle}) {
      const auto exact = static_cast<float>(at);
      ASSERT_EQ(static_cast<double>(exact), at);
      for (const float value : {exact, std::nextafterf(exact, 1e9f), std::nextafterf(exact, 0)}) {
        ASSERT_EQ(F32ToF8E4M3(value), NearestE4M3(value)) << value;
        ASSERT_EQ(F32ToF8E4M3(-value), NearestE4M3(-value)) << -value;
      }
    }
  }
}

TEST(DTypeTest, F8E4M3RoundsToNearestEven) {
  // Combines every sign, exponent and 7 bits of mantissa with several lower bits.
  for (uint32_t high = 0; high < 0x10000; ++high) {
    for (const uint32_t low : {0x0000u, 0x0001u, 0x8000u, 0xffffu}) {
      const float value = std::bit_cast<float>(high << 16 | low);
      if (std::isnan(value)) continue;
      ASSERT_EQ(F32ToF8E4M3(value), NearestE4M3(value)) << value;
    }
  }
}

TEST(DTypeTest, F8E4M3Saturates) {
  EXPECT_EQ(F32ToF8E4M3(448.0f), 0x7e);
  EXPECT_EQ(F32ToF8E4M3(464.0f), 0x7e);  // the next code is NaN
  EXPECT_EQ(F32ToF8E4M3(480.0f), 0x7e);
  EXPECT_EQ(F32ToF8E4M3(std::numeric_limits<float>::max()), 0x7e);
  EXPECT_EQ(F32ToF8E4M3(INFINITY), 0x7e);
  EXPECT_EQ(F32ToF8E4M3(-INFINITY), 0xfe);
  EXPECT_EQ(F32ToF8E4M3(0x1p-10f), 0x00);  // halfway to the smallest subnormal: even is zero
  EXPECT_EQ(F32ToF8E4M3(0x1.000002p-10f), 0x01);
  EXPECT_EQ(F32ToF8E4M3(0x1.ep-7f), 0x08);  // halfway between the largest subnormal and 2^-6
  EXPECT_EQ(F32ToF8E4M3(-0.0f), 0x80);
}

TEST(DTypeTest, ANanStaysANan) {
  // The payload may lie wholly in the bits cut off, and must not become an infinity then.
  for (const uint32_t bits : {0x7f800001u, 0xff800001u, 0x7fc00000u, 0x7fffffffu, 0xffffffffu}) {
    const float nan = std::bit_cast<float>(bits);
    EXPECT_TRUE(std::isnan(F16ToF32(F32ToF16(nan)))) << bits;
    EXPECT_TRUE(std::isnan(BF16ToF32(F32ToBF16(nan)))) << bits;
    EXPECT_EQ(F32ToF8E4M3(nan), std::signbit(nan) ? 0xff : 0x7f) << bits;
    EXPECT_EQ(std::signbit(F16ToF32(F32ToF16(nan))), std::signbit(nan)) << bits;
    EXPECT_EQ(std::signbit(BF16ToF32(F32ToBF16(nan))), std::signbit(nan)) << bits;
  }
}

TEST(DTypeTest, StorageSizesAreThoseOfTheFileFormat) {
  EXPECT_EQ(DTypeBytes(DType::kF32, 32), 128u);
  EXPECT_EQ(DTypeBytes(DType::kF16, 32), 64u);
  EXPECT_EQ(DTypeBytes(DType::kBF16, 32), 64u);
  EXPECT_EQ(DTypeBytes(DType::kQ8_0, 64), 68u);
  EXPECT_EQ(DTypeElements(DType::kQ8_0), 32);
  EXPECT_EQ(DTypeElements(DType::kBF16), 1);
  EXPECT_EQ(DTypeName(DType::kQ8_0), "q8_0");
  EXPECT_EQ(DTypeBytes(DType::kQ4_0, 64), 36u);
  EXPECT_EQ(DTypeElements(DType::kQ4_0), 32);
  EXPECT_EQ(DTypeName(DType::kQ4_0), "q4_0");
  EXPECT_EQ(DTypeBytes(DType::kF8E4M3, 5), 5u);
  EXPECT_EQ(DTypeName(DType::kF8E4M3), "fp8_e4m3");
}

TEST(DTypeTest, ANameFindsItsDType) {
  for (const DType dtype : kKvDTypes) EXPECT_EQ(FindDType(DTypeName(dtype)), dtype);
  EXPECT_EQ(FindDType("q4_k"), DType::kQ4_K);
  EXPECT_EQ(FindDType("q4_2"), std::nullopt);
}

TEST(DTypeTest, SomeDTypesAreOfWeightsOnlyAndOneOfKvOnly) {
  EXPECT_TRUE(IsKvDType(DType::kF8E4M3));
  EXPECT_FALSE(IsWeightDType(DType::kF8E4M3));
  EXPECT_TRUE(IsWeightDType(DType::kMXFP4));
  for (const DType dtype : {DType::kQ4_1, DType::kQ4_K, DType::kMXFP4}) {
    EXPECT_FALSE(IsKvDType(dtype)) << DTypeName(dtype);
  }
  for (const DType dtype : {DType::kF32, DType::kF16, DType::kBF16, DType::kQ8_0, DType::kQ4_0}) {
    EXPECT_TRUE(IsKvDType(dtype) && IsWeightDType(dtype)) << DTypeName(dtype);
  }
}

// Returns zeros except for the given values.
std::array<float, 32> Values(std::initializer_list<std::pair<int, float>> set) {
  std::array<float, 32> values{};
  for (const auto& [index, value] : set) values[static_cast<size_t>(index)] = value;
  return values;
}

TEST(DTypeTest, Q8_0RoundsToTheNearest127thOfTheLargest) {
  QuantBlockQ8_0 block;
  QuantizeBlock(Values({{0, -127.0f}, {1, 1.4f}, {2, 1.5f}, {3, -2.5f}, {31, 126.9f}}).data(),
                &block);
  EXPECT_EQ(block.scale, F32ToF16(1.0f));
  EXPECT_EQ(block.quants[0], -127);
  EXPECT_EQ(block.quants[1], 1);
  EXPECT_EQ(block.quants[2], 2);
  EXPECT_EQ(block.quants[3], -3);
  EXPECT_EQ(block.quants[4], 0);
  EXPECT_EQ(block.quants[31], 127);
  std::array<float, 32> read{};
  DequantizeBlock(block, read.data());
  EXPECT_EQ(read, Values({{0, -127.0f}, {1, 1.0f}, {2, 2.0f}, {3, -3.0f}, {31, 127.0f}}));
}

TEST(DTypeTest, Q4_0GivesTheLargestItsExactValueAndItsSign) {
  QuantBlockQ4_0 block;
  QuantizeBlock(Values({{0, 4.0f}, {1, -4.0f}, {16, 1.2f}, {17, 0.25f}}).data(), &block);
  EXPECT_EQ(block.scale, F32ToF16(-0.5f));
  EXPECT_EQ(block.quants[0], 0x60);  // 4 is nibble 0 of 16; 1.2 is 8 - 2.4, so nibble 6
  EXPECT_EQ(block.quants[1], 0x8f);  // -4 would be nibble 16; 0.25 is 8 - 0.5, and 8.0 stays
  std::array<float, 32> read{};
  DequantizeBlock(block, read.data());
  EXPECT_EQ(read, Values({{0, 4.0f}, {1, -3.5f}, {16, 1.0f}}));
}

template <typename QuantBlock>
std::array<float, 32> RoundTrip(const std::array<float, 32>& values) {
  QuantBlock block;
  QuantizeBlock(values.data(), &block);
  std::array<float, 32> read{};
  DequantizeBlock(block, read.data());
  return read;
}

template <typename QuantBlock>
void ExpectEdges() {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const std::array<float, 32> zeros{};
  EXPECT_EQ(RoundTrip<QuantBlock>(zeros), zeros);
  // The scale is so small that it is 0 in f16; for the second, 1 / d would be infinite.
  EXPECT_EQ(RoundTrip<QuantBlock>(Values({{3, 1e-8f}})), zeros);
  EXPECT_EQ(RoundTrip<QuantBlock>(Values({{3, -1e-40f}})), zeros);
  // The scale exceeds f16: the result is the nearest possible, finite and of the right sign.
  for (const float value : {1e20f, kInfinity}) {
    const std::array<float, 32> read = RoundTrip<QuantBlock>(Values({{0, -value}, {1, 1.0f}}));
    EXPECT_TRUE(std::isfinite(read[0])) << value;
    EXPECT_LT(read[0], -500000.0f) << value;
    EXPECT_EQ(read[2], 0.0f) << value;
  }
  for (const float value : RoundTrip<QuantBlock>(Values({{7, std::nanf("")}, {0, 1.0f}}))) {
    EXPECT_TRUE(std::isnan(value));
  }
}

TEST(DTypeTest, QuantizedEdgesAreFiniteAndNanIsNotHidden) {
  ExpectEdges<QuantBlockQ8_0>();
  ExpectEdges<QuantBlockQ4_0>();
}

TEST(DTypeDeathTest, PartOfAQuantBlockHasNoSize) {
  EXPECT_DEATH((void)DTypeBytes(DType::kQ8_0, 33), "whole blocks");
  EXPECT_DEATH((void)DTypeBytes(DType::kQ4_0, 33), "whole blocks");
}

}  // namespace
}  // namespace kvgate::kernels
