#include "kernels/cuda/peak.h"

#include <gtest/gtest.h>

#include "kernels/cuda/runtime.h"

namespace kvgate::kernels::cuda {
namespace {

// On the emulator the numbers say nothing but that something was measured.
TEST(PeakTest, EveryLimitIsMeasured) {
  EXPECT_GT(MeasureCopyBandwidth(), 0);
  EXPECT_GT(MeasureUploadBandwidth(), 0);
  EXPECT_GT(MeasureDownloadBandwidth(), 0);
  const TensorPeak peak = MeasureTensorPeak();
  EXPECT_GT(peak.operations_per_second, 0);
  EXPECT_FALSE(peak.is_cublas);  // an emulated device cannot run it
}

TEST(PeakTest, WithoutMemoryThereIsNoFigure) {
  emulator::SetDeviceMemory(8192);
  EXPECT_EQ(MeasureCopyBandwidth(), 0);
  EXPECT_EQ(MeasureUploadBandwidth(), 0);
  emulator::SetDeviceMemory(size_t{4} << 30);
}

}  // namespace
}  // namespace kvgate::kernels::cuda
