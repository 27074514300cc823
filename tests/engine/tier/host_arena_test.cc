#include "engine/tier/host_arena.h"

#include <gtest/gtest.h>

#include <cstring>

#include "kernels/reference/reference_backend.h"
#include "tests/engine/device_backend.h"
#include "tests/wait_until.h"

namespace kvgate::tier {
namespace {

constexpr size_t kSlotBytes = 4096;

void WaitUntilSettled(const HostArena& arena) {
  EXPECT_TRUE(
      test::WaitUntil([&] { return arena.num_ready() == arena.num_slots() || arena.is_cut(); },
                      "the arena is whole or cut"));
}

TEST(HostArenaTest, WhereKvIsHostMemoryAllIsThereAtOnce) {
  const auto backend = kernels::reference::MakeReferenceBackend();
  const auto arena = *HostArena::Open(100, kSlotBytes, *backend);
  EXPECT_EQ(arena->num_ready(), 100u);
  EXPECT_EQ(arena->slot(99), arena->slot(0) + 99 * kSlotBytes);
}

TEST(HostArenaTest, ADevicesIsLockedPieceByPieceWhileTheFirstIsInUse) {
  kernels::DeviceBackend backend(kernels::reference::MakeReferenceBackend());
  const auto arena = *HostArena::Open(10, kSlotBytes, backend, 3 * kSlotBytes + 1);
  EXPECT_GE(arena->num_ready(), 3u);
  std::memset(arena->slot(2), 7, kSlotBytes);
  WaitUntilSettled(*arena);
  ASSERT_EQ(arena->num_ready(), 10u);
  EXPECT_FALSE(arena->is_cut());
  for (uint32_t slot = 0; slot < 10; ++slot) {
    if (slot != 2) std::memset(arena->slot(slot), 1, kSlotBytes);
  }
  EXPECT_EQ(arena->slot(2)[kSlotBytes - 1], std::byte{7});
}

TEST(HostArenaTest, ASlotLargerThanAPieceIsAPiece) {
  kernels::DeviceBackend backend(kernels::reference::MakeReferenceBackend());
  const auto arena = *HostArena::Open(3, kSlotBytes, backend, kSlotBytes / 2);
  WaitUntilSettled(*arena);
  EXPECT_EQ(arena->num_ready(), 3u);
}

TEST(HostArenaTest, WhatTheSystemDoesNotLockCutsItAndNoMore) {
  kernels::DeviceBackend backend(kernels::reference::MakeReferenceBackend());
  backend.SetHostBytes(5 * kSlotBytes);
  const auto arena = *HostArena::Open(10, kSlotBytes, backend, 2 * kSlotBytes);
  WaitUntilSettled(*arena);
  EXPECT_TRUE(arena->is_cut());
  EXPECT_EQ(arena->num_ready(), 4u);
}

TEST(HostArenaTest, WithoutAFirstPieceItIsRefusedAndNamed) {
  kernels::DeviceBackend backend(kernels::reference::MakeReferenceBackend());
  backend.SetHostBytes(kSlotBytes);
  const auto refused = HostArena::Open(10, kSlotBytes, backend, 2 * kSlotBytes);
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code, ErrorCode::kOverloaded);
  EXPECT_EQ(refused.error().field, "host_memory");
}

}  // namespace
}  // namespace kvgate::tier
