// Tests of the CUDA backend beyond the conformance suite: the choice of a device, and moves of KV
// blocks by threads other than the one that runs steps.
#include "kernels/cuda/cuda_backend.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <thread>
#include <vector>

#include "kernels/cuda/device/runtime.h"
#include "tests/kernels/test_tensors.h"

namespace kvgate::kernels::cuda {
namespace {

class CudaBackendTest : public testing::Test {
 protected:
  void TearDown() override { emulator::SetMachine({}); }

  // Returns the error of making a backend on this machine.
  static Error RefusedOn(const emulator::Machine& machine, const CudaBackendOptions& options = {}) {
    emulator::SetMachine(machine);
    const auto backend = MakeCudaBackend(options);
    EXPECT_FALSE(backend.has_value());
    return backend ? Error{} : backend.error();
  }
};

TEST_F(CudaBackendTest, TheDevicesAreDescribed) {
  const auto devices = FindCudaDevices();
  ASSERT_TRUE(devices.has_value());
  ASSERT_EQ(devices->size(), 1u);
  const CudaDevice& device = devices->front();
  EXPECT_EQ(device.name, "emulated");
  EXPECT_EQ(device.major, 9);
  EXPECT_GT(device.num_multiprocessors, 0);
  EXPECT_GE(device.bytes_total, device.bytes_free);
  EXPECT_TRUE(IsCudaBuilt());
}

TEST_F(CudaBackendTest, AMachineWithoutDeviceOrDriverHasNoneAndThatIsNoError) {
  for (const emulator::Machine& machine :
       {emulator::Machine{.count_error = cudaErrorNoDevice},
        emulator::Machine{.count_error = cudaErrorInsufficientDriver, .driver_version = 0}}) {
    const Error error = RefusedOn(machine);
    EXPECT_EQ(error.code, ErrorCode::kUnavailable);
    EXPECT_EQ(error.detail, "no CUDA device was found");
    EXPECT_TRUE(FindCudaDevices()->empty());
  }
}

TEST_F(CudaBackendTest, ADriverOlderThanTheToolkitIsNamed) {
  const Error error =
      RefusedOn({.count_error = cudaErrorInsufficientDriver, .driver_version = 12020});
  EXPECT_EQ(error.code, ErrorCode::kUnavailable);
  EXPECT_NE(error.detail.find("CUDA 12.2 at most, and this build needs 13.0"), std::string::npos);
  const auto devices = FindCudaDevices();
  ASSERT_FALSE(devices.has_value());
  EXPECT_EQ(devices.error().detail, error.detail);
}

TEST_F(CudaBackendTest, ADeviceThatIsNotThereOrTooOldOrNotBuiltForIsNamed) {
  EXPECT_NE(RefusedOn({}, {.device = 3}).detail.find("no CUDA device 3"), std::string::npos);
  EXPECT_NE(RefusedOn({.major = 7, .minor = 5}).detail.find("capability 7.5) is too old: 8.0"),
            std::string::npos);
  const Error error = RefusedOn({.image_error = cudaErrorNoKernelImageForDevice});
  EXPECT_EQ(error.code, ErrorCode::kUnavailable);
  EXPECT_NE(error.detail.find("this build's kernels"), std::string::npos);
}

TEST_F(CudaBackendTest, ItSaysWhatItIs) {
  const auto backend = std::move(*MakeCudaBackend({}));
  EXPECT_EQ(backend->Info().name, "cuda");
  EXPECT_EQ(backend->Info().numerics_id, "cuda-emulated-v2-invariant");
  EXPECT_TRUE(backend->Info().invariant);
  EXPECT_FALSE(backend->Info().kv_host_visible);
}

// The data is larger than the page-locked memory that CopyOut has at first.
TEST_F(CudaBackendTest, LargeResultsComeOutWhole) {
  const auto backend = std::move(*MakeCudaBackend({}));
  const std::vector<float> want = NormalValues(1000003, 7);
  const auto floats = std::move(*backend->AllocateFloats(want.size()));
  backend->CopyIn(want, floats->data());
  std::vector<float> got(want.size());
  for (const size_t count : {size_t{1}, size_t{1000}, want.size()}) {
    backend->CopyOut(floats->data(), std::span(got).first(count));
    EXPECT_TRUE(std::equal(got.begin(), got.begin() + static_cast<ptrdiff_t>(count), want.begin()));
  }
}

// Another thread reads and writes blocks while this one runs steps. A copy that this thread issued
// without a Synchronize must be complete when the other thread reads.
TEST_F(CudaBackendTest, OtherThreadsMoveBlocksBesideSteps) {
  const auto backend = std::move(*MakeCudaBackend({}));
  const KvShape shape{.num_layers = 1, .num_kv_heads = 1, .head_dim = 64, .dtype = DType::kF16};
  const auto arena = std::move(*backend->AllocateKv(shape, 8));
  const std::vector<std::byte> ones(arena->block_bytes(), std::byte{1});
  backend->WriteKvBlock(*arena, BlockId{0}, ones);
  backend->CopyKvBlock(*arena, BlockId{0}, BlockId{1}, kKvBlockTokens);
  const auto buffer = std::move(*backend->AllocateHost(arena->block_bytes()));
  std::jthread mover([&] {
    std::vector<std::byte> got(arena->block_bytes());
    backend->ReadKvBlock(*arena, BlockId{1}, got);
    EXPECT_TRUE(got == ones);
    const std::span<std::byte> pinned(buffer->data(), buffer->size());
    for (int i = 0; i < 50; ++i) {
      std::ranges::fill(pinned, static_cast<std::byte>(i));
      backend->WriteKvBlock(*arena, BlockId{2}, pinned);
      backend->ReadKvBlock(*arena, BlockId{2}, got);
      EXPECT_TRUE(std::ranges::equal(got, pinned));
    }
  });
  const auto floats = std::move(*backend->AllocateFloats(1000));
  for (int i = 0; i < 50; ++i) {
    backend->Scale(1.0f, 1000, floats->data());
    backend->Synchronize();
  }
}

}  // namespace
}  // namespace kvgate::kernels::cuda
