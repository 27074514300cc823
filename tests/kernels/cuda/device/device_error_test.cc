#include "kernels/cuda/device/device_error.h"

#include <gtest/gtest.h>

namespace kvgate::kernels::cuda::device {
namespace {

TEST(DeviceErrorTest, MissingMemoryMayBeThereLaterAndOtherErrorsMayNot) {
  const Error memory = DeviceError(cudaErrorMemoryAllocation, "allocate 16 bytes");
  EXPECT_EQ(memory.code, ErrorCode::kOverloaded);
  EXPECT_TRUE(memory.retryable);
  EXPECT_EQ(memory.detail, "allocate 16 bytes: out of memory");
  const Error other = DeviceError(cudaErrorInvalidValue, "make a stream");
  EXPECT_EQ(other.code, ErrorCode::kInternal);
  EXPECT_FALSE(other.retryable);
}

TEST(DeviceErrorDeathTest, ADeviceThatFailsEndsTheProcessWithItsReason) {
  CheckDevice(cudaSuccess, "run a step");
  EXPECT_DEATH(CheckDevice(cudaErrorInvalidValue, "run a step"), "run a step: invalid argument");
}

}  // namespace
}  // namespace kvgate::kernels::cuda::device
