#include "kernels/cuda/peak.h"

#include <gtest/gtest.h>

#include "kernels/cuda/device/runtime.h"

namespace kvgate::kernels::cuda {
namespace {

// On the emulator the numbers only show that every limit was measured.
TEST(PeakTest, EveryLimitIsMeasured) {
  const auto limits = MeasureDeviceLimits(0);
  ASSERT_TRUE(limits) << limits.error().ToString();
  EXPECT_GT(limits->copy_bytes_per_second, 0);
  EXPECT_GT(limits->host_to_device_bytes_per_second, 0);
  EXPECT_GT(limits->device_to_host_bytes_per_second, 0);
  EXPECT_GT(limits->half_flops_per_second, 0);
  EXPECT_FALSE(limits->is_cublas);  // an emulated device cannot run cuBLAS
}

TEST(PeakTest, WithoutMemoryThereIsNoFigure) {
  emulator::SetDeviceMemory(8192);
  const auto limits = MeasureDeviceLimits(0);
  emulator::SetDeviceMemory(size_t{4} << 30);
  ASSERT_TRUE(limits);
  EXPECT_EQ(limits->copy_bytes_per_second, 0);
  EXPECT_EQ(limits->host_to_device_bytes_per_second, 0);
}

TEST(PeakTest, ADeviceThatIsNotThereIsAnError) {
  const auto limits = MeasureDeviceLimits(7);
  ASSERT_FALSE(limits);
  EXPECT_EQ(limits.error().code, ErrorCode::kUnavailable);
}

}  // namespace
}  // namespace kvgate::kernels::cuda
