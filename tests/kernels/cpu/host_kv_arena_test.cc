#include "kernels/cpu/host_kv_arena.h"

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

namespace kvgate::kernels::cpu {
namespace {

constexpr KvShape kShape{.num_layers = 4, .num_kv_heads = 4, .head_dim = 64};

// Blocks are written while the idle thread is still backing the rest with memory, which must change
// no byte.
TEST(HostKvArenaTest, BackingTheRestLeavesWrittenBlocksAlone) {
  const uint32_t num_blocks = static_cast<uint32_t>((size_t{400} << 20) / kShape.block_bytes());
  const auto arena = HostKvArena::Allocate(kShape, num_blocks);
  ASSERT_TRUE(arena.has_value()) << arena.error().ToString();
  const size_t bytes = (*arena)->block_bytes();
  for (uint32_t i = num_blocks; i-- > 0;) {
    std::memset((*arena)->block(BlockId{i}), static_cast<int>(i % 251), bytes);
  }
  for (uint32_t i = 0; i < num_blocks; ++i) {
    const std::byte* block = (*arena)->block(BlockId{i});
    ASSERT_EQ(block[0], std::byte(i % 251));
    ASSERT_EQ(std::memcmp(block, block + 1, bytes - 1), 0) << "block " << i;
  }
}

TEST(HostKvArenaTest, AnArenaMayGoWhileItIsStillBeingBacked) {
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(HostKvArena::Allocate(kShape, 3000).has_value());
  }
}

TEST(HostKvArenaTest, MoreThanTheMachineHasIsRefusedWithBothNumbers) {
  const auto arena = HostKvArena::Allocate(kShape, 4'000'000'000u);
  ASSERT_FALSE(arena.has_value());
  EXPECT_EQ(arena.error().code, ErrorCode::kOverloaded);
  EXPECT_NE(arena.error().detail.find("available"), std::string::npos);
}

}  // namespace
}  // namespace kvgate::kernels::cpu
