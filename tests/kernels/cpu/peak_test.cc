#include "kernels/cpu/peak.h"

#include <gtest/gtest.h>

#include "kernels/cpu/machine/amx.h"
#include "kernels/cpu/matmul/matmul_amx.h"

namespace kvgate::kernels::cpu {
namespace {

// Any machine lies far inside these bounds, while a dropped loop or a wrong unit lies outside.
TEST(PeakTest, ReadBandwidthIsThatOfMemoryNotOfACache) {
  const double bytes_per_second = MeasureReadBandwidth(1);
  EXPECT_GT(bytes_per_second, 1e8);
  EXPECT_LT(bytes_per_second, 5e11);
}

TEST(PeakTest, FmaPeakIsBelowWhatACoreCanIssue) {
  const double operations_per_second = MeasureFmaPeak(1);
  EXPECT_GT(operations_per_second, 1e8);
  EXPECT_LT(operations_per_second, 1e12);
}

TEST(PeakTest, TilesAreThereWithAmxAndFasterThanVectors) {
  const double operations_per_second = MeasureTilePeak(1);
  EXPECT_EQ(operations_per_second > 0, machine::HasAmx());
  EXPECT_LT(operations_per_second, 1e14);
  if (machine::HasAmx()) {
    EXPECT_GT(operations_per_second, MeasureFmaPeak(1));
  }
}

}  // namespace
}  // namespace kvgate::kernels::cpu
