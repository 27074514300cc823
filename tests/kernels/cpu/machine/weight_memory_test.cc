#include "kernels/cpu/machine/weight_memory.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <vector>

namespace kvgate::kernels::cpu::machine {
namespace {

TEST(WeightMemoryTest, SmallPartsShareAMappingAndDoNotOverlap) {
  WeightMemory memory;
  std::vector<WeightSlice> slices;
  for (const size_t bytes : {size_t{1}, size_t{100}, size_t{3} << 20, size_t{64}}) {
    auto slice = memory.Allocate(bytes, "weight");
    ASSERT_TRUE(slice.has_value());
    EXPECT_EQ(slice->size, bytes);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(slice->data) % HostMemory::kAlignment, 0U);
    EXPECT_TRUE(std::all_of(slice->data, slice->data + bytes,
                            [](std::byte value) { return value == std::byte{0}; }));
    std::fill_n(slice->data, bytes, std::byte{255});  // the next part must be zero all the same
    slices.push_back(*slice);
  }
  for (const WeightSlice& slice : slices) EXPECT_EQ(slice.mapping, slices[0].mapping);
}

TEST(WeightMemoryTest, AFullMappingIsFollowedByAnotherAndLivesWithItsParts) {
  WeightMemory memory;
  auto first = memory.Allocate(WeightMemory::kSharedBytesMax, "weight");
  auto second = memory.Allocate(WeightMemory::kSharedBytesMax, "weight");
  auto third = memory.Allocate(1, "weight");
  ASSERT_TRUE(first.has_value() && second.has_value() && third.has_value());
  EXPECT_EQ(first->mapping, second->mapping);
  EXPECT_NE(first->mapping, third->mapping);
  first->data[0] = std::byte{7};
  const std::weak_ptr<const HostMemory> mapping = first->mapping;
  *second = {};
  EXPECT_EQ(first->data[0], std::byte{7});
  *first = {};
  EXPECT_TRUE(mapping.expired());
}

TEST(WeightMemoryTest, ALargePartHasAMappingOfItsOwn) {
  WeightMemory memory;
  auto large = memory.Allocate(WeightMemory::kSharedBytesMax + 1, "weight");
  auto small = memory.Allocate(1, "weight");
  ASSERT_TRUE(large.has_value() && small.has_value());
  EXPECT_NE(large->mapping, small->mapping);
}

TEST(WeightMemoryTest, WhatIsNotThereIsRefused) {
  auto slice = WeightMemory().Allocate(size_t{1} << 60, "a weight too large");
  ASSERT_FALSE(slice.has_value());
  EXPECT_EQ(slice.error().code, ErrorCode::kOverloaded);
}

}  // namespace
}  // namespace kvgate::kernels::cpu::machine
