#include "engine/kv/memory_split.h"

#include <gtest/gtest.h>

#include "engine/kv/window_cache.h"

namespace kvgate::kv {
namespace {

uint64_t BytesOf(std::span<const GroupShape> groups, std::span<const uint32_t> blocks) {
  uint64_t bytes = 0;
  for (size_t i = 0; i < groups.size(); ++i) bytes += blocks[i] * groups[i].block_bytes;
  return bytes;
}

TEST(MemorySplitTest, OneGroupHasAllOfIt) {
  const GroupShape group{.block_bytes = 1000, .window = 0};
  const MemorySplitArgs args{
      .bytes = 123'456, .context_tokens = 8192, .step_tokens = 512, .num_blocks_max = 1 << 17};
  EXPECT_EQ(SplitKvMemory({&group, 1}, args), std::vector<uint32_t>{123});
  EXPECT_EQ(SplitKvMemory({&group, 1}, {.bytes = 999, .num_blocks_max = 10}),
            std::vector<uint32_t>{0});
  EXPECT_EQ(SplitKvMemory({&group, 1}, {.bytes = 123'456, .num_blocks_max = 10}),
            std::vector<uint32_t>{10});
}

TEST(MemorySplitTest, TheSplitFillsTheMemoryAndLeavesEveryWindowASequencesNeed) {
  for (const int window : {1, 40, 512, 1024, 4096}) {
    for (const int context : {512, 8192, 131072}) {
      for (const uint64_t bytes : {uint64_t{1} << 20, uint64_t{1} << 26, uint64_t{1} << 30}) {
        const std::vector<GroupShape> groups{{.block_bytes = 4096, .window = 0},
                                             {.block_bytes = 20480, .window = window}};
        const MemorySplitArgs args{.bytes = bytes,
                                   .context_tokens = context,
                                   .step_tokens = 512,
                                   .num_blocks_max = 1 << 17};
        const std::vector<uint32_t> blocks = SplitKvMemory(groups, args);
        ASSERT_EQ(blocks.size(), 2u);
        EXPECT_LE(BytesOf(groups, blocks), bytes);
        EXPECT_EQ(BytesOf(groups, blocks), KvMemoryFor(blocks[0], groups, args));
        EXPECT_LE(blocks[1], blocks[0]);
        const auto alone = static_cast<uint32_t>(2 * WindowTailBlocks(window) + 16 + 2);
        EXPECT_GE(blocks[1], std::min(alone, blocks[0]));
        EXPECT_TRUE(blocks[0] == args.num_blocks_max ||
                    KvMemoryFor(blocks[0] + 1, groups, args) > bytes);
      }
    }
  }
}

// The groups are like those of gemma3: 4 layers without a window, 22 with a window of 512.
TEST(MemorySplitTest, AWindowedModelHoldsSeveralTimesTheTokensInTheSameMemory) {
  const std::vector<GroupShape> groups{{.block_bytes = 4 * 32768, .window = 0},
                                       {.block_bytes = 22 * 32768, .window = 512}};
  const MemorySplitArgs args{.bytes = uint64_t{1} << 30,
                             .context_tokens = 8192,
                             .step_tokens = 512,
                             .num_blocks_max = 1 << 17};
  const uint64_t without_windows = args.bytes / (26 * 32768);
  const std::vector<uint32_t> blocks = SplitKvMemory(groups, args);
  EXPECT_GT(blocks[0], without_windows * 5 / 2);
  const std::vector<uint32_t> at_32k = SplitKvMemory(groups, {.bytes = args.bytes,
                                                              .context_tokens = 32768,
                                                              .step_tokens = 512,
                                                              .num_blocks_max = 1 << 17});
  EXPECT_GT(at_32k[0], without_windows * 4);
}

TEST(MemorySplitTest, HostMemoryIsSplitAsTheArenasAre) {
  const std::vector<GroupShape> groups{{.block_bytes = 100, .window = 0},
                                       {.block_bytes = 300, .window = 64}};
  const std::vector<uint32_t> blocks{20, 10};
  EXPECT_EQ(SplitHostMemory(10'000, groups, blocks), (std::vector<uint64_t>{4000, 6000}));
  EXPECT_EQ(SplitHostMemory(10'000, std::span(groups).first(1), std::span(blocks).first(1)),
            std::vector<uint64_t>{10'000});
}

}  // namespace
}  // namespace kvgate::kv
