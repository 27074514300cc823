#include "kernels/cuda/memory/device_memory.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "kernels/cuda/device/runtime.h"

namespace kvgate::kernels::cuda::memory {
namespace {

size_t FreeBytes() {
  size_t bytes_free = 0;
  size_t bytes_total = 0;
  cudaMemGetInfo(&bytes_free, &bytes_total);
  return bytes_free;
}

TEST(DeviceMemoryTest, MemoryIsGivenBackOnceByTheLastOwner) {
  const size_t before = FreeBytes();
  {
    DeviceMemory first = std::move(*DeviceMemory::Allocate(1000, "test"));
    EXPECT_EQ(first.size(), 1000u);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(first.data()) % 256, 0u);
    DeviceMemory second = std::move(first);
    EXPECT_EQ(first.data(), nullptr);
    EXPECT_EQ(second.size(), 1000u);
    EXPECT_EQ(FreeBytes(), before - 1000);
  }
  EXPECT_EQ(FreeBytes(), before);
  EXPECT_EQ(DeviceMemory::Allocate(0, "nothing")->data(), nullptr);
}

TEST(DeviceMemoryTest, WhatIsNotThereIsRefusedWithWhatIs) {
  const auto refused = DeviceMemory::Allocate(size_t{1} << 50, "KV arena");
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code, ErrorCode::kOverloaded);
  EXPECT_NE(refused.error().detail.find("KV arena"), std::string::npos);
  EXPECT_NE(refused.error().detail.find(std::to_string(FreeBytes())), std::string::npos);
}

TEST(DeviceMemoryTest, CopyInWritesFromAnOffset) {
  DeviceMemory memory = std::move(*DeviceMemory::Allocate(8, "test"));
  const std::vector<std::byte> bytes(8, std::byte{1});
  memory.CopyIn(bytes);
  memory.CopyIn(std::vector<std::byte>(3, std::byte{2}), 4);
  std::vector<int> got(8);
  std::transform(memory.data(), memory.data() + 8, got.begin(),
                 [](std::byte value) { return static_cast<int>(value); });
  EXPECT_EQ(got, (std::vector<int>{1, 1, 1, 1, 2, 2, 2, 1}));
  EXPECT_DEATH(memory.CopyIn(bytes, 1), "past device memory");
}

TEST(PinnedMemoryTest, ItIsMovedAndRefusedAsDeviceMemoryIs) {
  PinnedMemory first = std::move(*PinnedMemory::Allocate(100, "test"));
  const std::byte* data = first.data();
  const PinnedMemory second = std::move(first);
  EXPECT_EQ(second.data(), data);
  EXPECT_EQ(second.size(), 100u);
  const auto refused = PinnedMemory::Allocate(size_t{1} << 61, "host arena");
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code, ErrorCode::kOverloaded);
  EXPECT_NE(refused.error().detail.find("host arena"), std::string::npos);
}

TEST(DeviceFloatsTest, TheyAreZeroAtFirst) {
  const auto floats = std::move(*DeviceFloats::Allocate(77));
  EXPECT_EQ(floats->size(), 77u);
  for (size_t i = 0; i < 77; ++i) EXPECT_EQ(floats->data()[i], 0.0f);
  EXPECT_FALSE(DeviceFloats::Allocate(SIZE_MAX / 2).has_value());
}

}  // namespace
}  // namespace kvgate::kernels::cuda::memory
