#include "kernels/cpu/machine/host_memory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <utility>

namespace kvgate::kernels::cpu::machine {
namespace {

TEST(HostMemoryTest, MemoryIsAlignedAndZero) {
  for (const size_t bytes : {size_t{1}, size_t{100}, size_t{3} << 20, (size_t{5} << 20) + 17}) {
    auto memory = HostMemory::Allocate(bytes, "test");
    ASSERT_TRUE(memory.has_value());
    ASSERT_EQ(memory->size(), bytes);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(memory->data()) % HostMemory::kAlignment, 0u);
    EXPECT_TRUE(std::all_of(memory->data(), memory->data() + bytes,
                            [](std::byte byte) { return byte == std::byte{0}; }));
    memory->data()[bytes - 1] = std::byte{1};
  }
}

TEST(HostMemoryTest, MoreThanThereIsIsRefusedWithTheNumbers) {
  const uint64_t available = AvailableMemoryBytes();
  ASSERT_GT(available, 0u);
  for (const uint64_t bytes : {available + available / 8, UINT64_MAX / 4, UINT64_MAX}) {
    auto memory = HostMemory::Allocate(bytes, "KV arena");
    ASSERT_FALSE(memory.has_value()) << bytes;
    EXPECT_EQ(memory.error().code, ErrorCode::kOverloaded);
    EXPECT_THAT(memory.error().detail, testing::HasSubstr("KV arena: " + std::to_string(bytes)));
    EXPECT_THAT(memory.error().detail, testing::HasSubstr("available"));
  }
}

TEST(HostMemoryTest, MovingLeavesOneOwner) {
  auto first = HostMemory::Allocate(size_t{4} << 20, "test");
  ASSERT_TRUE(first.has_value());
  std::byte* data = first->data();
  HostMemory second = std::move(*first);
  EXPECT_EQ(second.data(), data);
  HostMemory third;
  third = std::move(second);
  EXPECT_EQ(third.data(), data);
  third.data()[0] = std::byte{1};
}

}  // namespace
}  // namespace kvgate::kernels::cpu::machine
