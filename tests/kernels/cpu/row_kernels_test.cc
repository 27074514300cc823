// Tests conversions of rows, vector by vector; the conformance suite covers the other row kernels.
#include "kernels/cpu/row_kernels.h"

#include <gtest/gtest.h>

#include <bit>
#include <cstdint>
#include <vector>

#include "kernels/cpu/machine/simd_target.h"

namespace kvgate::kernels::cpu {
namespace {

// Returns every sign, exponent and 7 bits of mantissa with low bits that may round differently, NaN
// included.
std::vector<float> RoundingCandidates() {
  std::vector<float> values;
  for (uint32_t high = 0; high < 0x10000; ++high) {
    for (const uint32_t low : {0x0000u, 0x0001u, 0x7fffu, 0x8000u, 0x8001u, 0xffffu}) {
      values.push_back(std::bit_cast<float>(high << 16 | low));
    }
  }
  values.push_back(0.1f);  // makes the count no multiple of a vector
  return values;
}

TEST(RowKernelsTest, NarrowingToF8IsThatOfTheDTypeOnEveryTarget) {
  const std::vector<float> values = RoundingCandidates();
  for (const int64_t target : machine::SupportedTargets()) {
    std::vector<uint8_t> narrow(values.size());
    RowKernelsFor(target).narrow8(values.data(), static_cast<int64_t>(values.size()),
                                  narrow.data());
    for (size_t i = 0; i < values.size(); ++i) {
      ASSERT_EQ(narrow[i], F32ToF8E4M3(values[i]))
          << machine::TargetName(target) << " " << values[i];
    }
  }
}

}  // namespace
}  // namespace kvgate::kernels::cpu
