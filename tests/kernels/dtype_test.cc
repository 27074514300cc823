#include "kernels/dtype.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

namespace kvgate::kernels {
namespace {

// A binary float format: bits of mantissa behind the leading one, and its exponent range.
struct Format {
  int mantissa_bits;
  int exponent_min;  // of the smallest normal number
  int exponent_max;
};
constexpr Format kF16Format{.mantissa_bits = 10, .exponent_min = -14, .exponent_max = 15};
constexpr Format kBF16Format{.mantissa_bits = 7, .exponent_min = -126, .exponent_max = 127};

// The value of the format nearest to `value`, ties to even, computed in double.
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

// Every upper half, joined with the lower halves at which a rounding changes.
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

TEST(DTypeTest, ANanStaysANan) {
  // The payload may sit wholly in the bits that are cut off: then it must not become an infinity.
  for (const uint32_t bits : {0x7f800001u, 0xff800001u, 0x7fc00000u, 0x7fffffffu, 0xffffffffu}) {
    const float nan = std::bit_cast<float>(bits);
    EXPECT_TRUE(std::isnan(F16ToF32(F32ToF16(nan)))) << bits;
    EXPECT_TRUE(std::isnan(BF16ToF32(F32ToBF16(nan)))) << bits;
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
}

TEST(DTypeDeathTest, PartOfAQuantBlockHasNoSize) {
  EXPECT_DEATH((void)DTypeBytes(DType::kQ8_0, 33), "blocks of 32");
}

}  // namespace
}  // namespace kvgate::kernels
