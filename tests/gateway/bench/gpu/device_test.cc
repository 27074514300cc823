#include "gateway/bench/gpu/device.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kernels/cuda/cuda_backend.h"
#include "tests/gateway/bench/gpu/tiny_engine.h"

namespace kvgate::bench::gpu {
namespace {

TEST(DeviceTest, TheCpuStandsInWithItsOneNumerics) {
  const DeviceOptions cpu{.is_cuda = false, .cpu_threads = 1};
  EXPECT_EQ((*OpenBackend(cpu))->Info().name, "cpu");
  EXPECT_THAT(*DescribeDevice(cpu), ::testing::EndsWith("1 threads"));
  EXPECT_EQ(OpenBackend({.is_cuda = false, .is_fast = true}).error().code, ErrorCode::kUnsupported);
}

TEST(DeviceTest, WithoutADeviceTheErrorNamesTheOtherWay) {
  const auto devices = kernels::cuda::FindCudaDevices();
  if (devices && !devices->empty()) GTEST_SKIP() << "there is a device here";
  const auto described = DescribeDevice({});
  EXPECT_EQ(described.error().code, ErrorCode::kUnavailable);
}

TEST(DeviceTest, AnEngineKnowsItsModelAndWhatATokenOfKvTakes) {
  const OpenedEngine opened = OpenTinyEngine();
  EXPECT_EQ(opened.config().num_layers, 2);
  // The bytes are those of K and V of 2 layers with 2 heads of 64 in F16.
  EXPECT_EQ(opened.kv_token_bytes(), 2 * 2 * 2 * 64 * 2);
  EXPECT_EQ(opened.directory, nullptr);
}

}  // namespace
}  // namespace kvgate::bench::gpu
