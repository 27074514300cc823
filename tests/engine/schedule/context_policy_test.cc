#include "engine/schedule/context_policy.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

namespace kvgate::schedule {
namespace {

constexpr ContextPolicy kPolicies[] = {ContextPolicy::kNone, ContextPolicy::kSlidingWindow,
                                       ContextPolicy::kAttentionSink,
                                       ContextPolicy::kLeastAttended};

TEST(ContextPolicyTest, ANameFindsItsPolicy) {
  for (const ContextPolicy policy : kPolicies) {
    EXPECT_EQ(FindContextPolicy(ContextPolicyName(policy)), policy);
  }
  EXPECT_EQ(FindContextPolicy("sink"), std::nullopt);
}

TEST(ContextPolicyTest, NothingIsDroppedWithinTheBudget) {
  const std::vector<uint64_t> mass(8, 1);
  for (const ContextPolicy policy : kPolicies) {
    EXPECT_EQ(BlockToDrop(policy, 8, {.num_blocks = 8, .block_mass = mass}), std::nullopt);
  }
}

TEST(ContextPolicyTest, EachPolicyDropsItsOwnBlock) {
  const std::vector<uint64_t> mass{1, 9, 7, 4, 8, 4, 2, 1};
  const ContextTable table{.num_blocks = 8, .block_mass = mass};
  EXPECT_EQ(BlockToDrop(ContextPolicy::kNone, 4, table), std::nullopt);
  EXPECT_EQ(BlockToDrop(ContextPolicy::kSlidingWindow, 4, table), 0);
  EXPECT_EQ(BlockToDrop(ContextPolicy::kAttentionSink, 4, table), 1);
  // Blocks 0 (the sink), 6 and 7 (the recent quarter) are exempt; of the tied 3 and 5, the older
  // one goes.
  EXPECT_EQ(BlockToDrop(ContextPolicy::kLeastAttended, 4, table), 3);
}

TEST(ContextPolicyTest, TheNewestBlocksStayWhateverTheBudget) {
  const std::vector<uint64_t> mass{5, 4, 3, 2};
  for (const ContextPolicy policy : kPolicies) {
    EXPECT_EQ(BlockToDrop(policy, 1, {.num_blocks = 4, .num_newest_blocks = 4, .block_mass = mass}),
              std::nullopt);
  }
  const ContextTable three{.num_blocks = 4, .num_newest_blocks = 3, .block_mass = mass};
  EXPECT_EQ(BlockToDrop(ContextPolicy::kSlidingWindow, 1, three), 0);
  EXPECT_EQ(BlockToDrop(ContextPolicy::kAttentionSink, 1, three), std::nullopt);
  EXPECT_EQ(BlockToDrop(ContextPolicy::kLeastAttended, 1, three), std::nullopt);
  const ContextTable two{.num_blocks = 4, .num_newest_blocks = 2, .block_mass = mass};
  EXPECT_EQ(BlockToDrop(ContextPolicy::kLeastAttended, 1, two), 1);
}

TEST(ContextPolicyTest, TheSmallestBudgetAllowedIsAlwaysReached) {
  constexpr int kBlocksMin = kContextPolicyTokensMin / 32;
  const std::vector<uint64_t> mass(kBlocksMin + 1, 3);
  for (const ContextPolicy policy : kPolicies) {
    if (policy == ContextPolicy::kNone) continue;
    EXPECT_TRUE(BlockToDrop(policy, kBlocksMin, {.num_blocks = kBlocksMin + 1, .block_mass = mass})
                    .has_value());
  }
}

// A sequence grows and its attention mass is random; the test checks what each policy promises in
// words.
TEST(ContextPolicyTest, RandomSequencesKeepWhatTheirPolicyPromises) {
  std::mt19937 random(7);
  for (int round = 0; round < 400; ++round) {
    const ContextPolicy policy = kPolicies[round % 4];
    const int blocks_max = 4 + static_cast<int>(random() % 12);
    std::vector<int> blocks;  // their indexes in the text
    std::vector<uint64_t> mass;
    for (int next = 0; next < 60; ++next) {
      blocks.push_back(next);
      mass.push_back(0);
      for (uint64_t& value : mass) value += random() % 5;
      while (true) {
        const int num_blocks = static_cast<int>(blocks.size());
        const auto drop =
            BlockToDrop(policy, blocks_max, {.num_blocks = num_blocks, .block_mass = mass});
        if (!drop.has_value()) break;
        ASSERT_GT(num_blocks, blocks_max);
        ASSERT_GE(*drop, 0);
        ASSERT_LT(*drop, num_blocks - 1) << "the newest block";
        if (policy == ContextPolicy::kLeastAttended) {
          ASSERT_LE(4 * (*drop + 1), 3 * num_blocks) << "the recent quarter";
          for (int i = 1; 4 * (i + 1) <= 3 * num_blocks; ++i) {
            ASSERT_GE(mass[static_cast<size_t>(i)], mass[static_cast<size_t>(*drop)]);
          }
        }
        blocks.erase(blocks.begin() + *drop);
        mass.erase(mass.begin() + *drop);
      }
      const int expected =
          policy == ContextPolicy::kNone ? next + 1 : std::min(next + 1, blocks_max);
      ASSERT_EQ(static_cast<int>(blocks.size()), expected);
      ASSERT_EQ(blocks.back(), next);
      ASSERT_TRUE(std::ranges::is_sorted(blocks));
      const bool keeps_first = policy != ContextPolicy::kSlidingWindow || next < blocks_max;
      ASSERT_EQ(blocks.front() == 0, keeps_first);
      if (policy == ContextPolicy::kSlidingWindow) {
        ASSERT_EQ(blocks.front(), next + 1 - expected);
      }
    }
  }
}

}  // namespace
}  // namespace kvgate::schedule
