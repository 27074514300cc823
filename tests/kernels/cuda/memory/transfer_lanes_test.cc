#include "kernels/cuda/memory/transfer_lanes.h"

#include <gtest/gtest.h>

#include <cstring>
#include <thread>
#include <vector>

namespace kvgate::kernels::cuda::memory {
namespace {

// More than two pieces of 2 MiB, and not a whole number of pieces.
constexpr size_t kBytes = (size_t{5} << 20) + 77;

std::vector<std::byte> BytesOf(unsigned int seed, size_t count) {
  std::vector<std::byte> bytes(count);
  for (std::byte& value : bytes) {
    seed = seed * 1664525 + 1013904223;  // Numerical Recipes
    value = static_cast<std::byte>(seed >> 24);
  }
  return bytes;
}

class TransferLanesTest : public testing::Test {
 protected:
  std::unique_ptr<TransferLanes> lanes_ = std::move(*TransferLanes::Open(0));
};

TEST_F(TransferLanesTest, BytesOfAnyLengthComeThroughThePieces) {
  DeviceMemory device = std::move(*DeviceMemory::Allocate(kBytes, "test"));
  for (const size_t count : {size_t{1}, size_t{2} << 20, (size_t{2} << 20) + 1, kBytes}) {
    const std::vector<std::byte> want = BytesOf(static_cast<unsigned int>(count), count);
    lanes_->Write(device.data(), want);
    EXPECT_EQ(std::memcmp(device.data(), want.data(), count), 0) << count << " bytes";
    std::vector<std::byte> got(count);
    lanes_->Read(device.data(), got);
    EXPECT_TRUE(got == want) << count << " bytes";
  }
}

TEST_F(TransferLanesTest, HostBuffersAreCopiedDirectlyAlsoInPart) {
  DeviceMemory device = std::move(*DeviceMemory::Allocate(kBytes, "test"));
  auto buffer = std::move(*lanes_->AllocateHost(kBytes + 100));
  const std::vector<std::byte> want = BytesOf(5, kBytes);
  std::memcpy(buffer->data() + 100, want.data(), kBytes);
  lanes_->Write(device.data(), {buffer->data() + 100, kBytes});
  std::memset(buffer->data(), 0, buffer->size());
  lanes_->Read(device.data(), {buffer->data(), kBytes});
  EXPECT_EQ(std::memcmp(buffer->data(), want.data(), kBytes), 0);
}

// There are more threads than lanes, and each must read back its own bytes.
TEST_F(TransferLanesTest, ThreadsMoveTheirBytesAtOnce) {
  constexpr size_t kCount = 300000;
  std::vector<std::jthread> threads;
  for (unsigned int t = 0; t < 9; ++t) {
    threads.emplace_back([this, t] {
      DeviceMemory device = std::move(*DeviceMemory::Allocate(kCount, "test"));
      const std::vector<std::byte> want = BytesOf(t, kCount);
      std::vector<std::byte> got(kCount);
      for (int i = 0; i < 20; ++i) {
        lanes_->Write(device.data(), want);
        lanes_->Read(device.data(), got);
        EXPECT_TRUE(got == want);
      }
    });
  }
}

TEST_F(TransferLanesTest, AHostBufferOutlivesTheLanes) {
  auto buffer = std::move(*lanes_->AllocateHost(100));
  lanes_.reset();
  std::memset(buffer->data(), 1, buffer->size());
  EXPECT_EQ(buffer->data()[99], std::byte{1});
}

}  // namespace
}  // namespace kvgate::kernels::cuda::memory
