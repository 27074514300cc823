#include "engine/schedule/cost_model.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "kernels/backend.h"

namespace kvgate::schedule {
namespace {

constexpr int kBlock = kernels::kKvBlockTokens;

TEST(CostModelTest, KnowsNothingUntilItHasSeenAStep) {
  const CostModel costs;
  EXPECT_FALSE(costs.has_prefill_speed());
  EXPECT_EQ(costs.PrefillSeconds(0, 1000), 0);
  EXPECT_EQ(costs.PlanRestore({.num_blocks = 7, .block_bytes = 1000}).num_blocks, 7);
}

TEST(CostModelTest, LearnsTheCostOfATokenByPosition) {
  CostModel costs;
  for (int i = 0; i < 50; ++i) {
    costs.ObserveStep(512, 256, 512 * 1e-3);
    costs.ObserveStep(512, 9000, 512 * 3e-3);
  }
  EXPECT_NEAR(costs.PrefillSeconds(0, 512), 0.512, 1e-6);
  EXPECT_NEAR(costs.PrefillSeconds(9000, 100), 0.3, 1e-6);
  // Positions not seen cost what the nearest ones below them do.
  EXPECT_NEAR(costs.PrefillSeconds(2000, 100), 0.1, 1e-6);
  EXPECT_NEAR(costs.PrefillSeconds(20000, 100), 0.3, 1e-6);
  // Across a boundary: 8192 is the first position of the dearer bucket.
  EXPECT_NEAR(costs.PrefillSeconds(8192 - 100, 200), 0.1 + 0.3, 1e-6);
  EXPECT_NEAR(costs.prefill_tokens_per_second(), 1000, 1);
}

TEST(CostModelTest, SaysHowManyTokensFitIntoATime) {
  CostModel costs;
  costs.ObserveStep(512, 0, 512 * 1e-3);
  costs.ObserveStep(512, 1500, 512 * 4e-3);
  EXPECT_EQ(costs.TokensWithin(0, 0.1), 96);
  EXPECT_EQ(costs.TokensWithin(0, 0.031), 0);
  EXPECT_EQ(costs.TokensWithin(1024, 0.4), 96);
  EXPECT_EQ(costs.TokensWithin(1024 - 64, 0.064 + 0.13), 96);
}

TEST(CostModelTest, SmallStepsSayLessThanLargeOnes) {
  CostModel costs;
  costs.ObserveStep(8, 0, 8 * 10e-3);  // bound by reading the weights
  EXPECT_NEAR(costs.PrefillSeconds(0, 100), 1.0, 1e-6);
  costs.ObserveStep(512, 0, 512 * 1e-3);
  EXPECT_NEAR(costs.PrefillSeconds(0, 100), 0.1, 1e-6);
  costs.ObserveStep(8, 0, 8 * 10e-3);
  EXPECT_NEAR(costs.PrefillSeconds(0, 100), 0.1, 1e-6);
}

TEST(CostModelTest, ASlowDiskIsLeftAloneAndAFastOneIsUsedWhole) {
  CostModel costs;
  costs.ObserveStep(512, 0, 512 * 1e-3);  // a block in 32 ms
  const CostModel::RestoreArgs args{.num_blocks = 100, .block_bytes = 400'000};
  auto with = args;
  with.bytes_per_second = 400'000 / 0.040;
  EXPECT_EQ(costs.PlanRestore(with).num_blocks, 0);
  with.bytes_per_second = 400'000 / 0.020;
  EXPECT_EQ(costs.PlanRestore(with).num_blocks, 100);
  EXPECT_NEAR(costs.PlanRestore(with).restore_seconds, 2.0, 0.01);
  EXPECT_NEAR(costs.PlanRestore(with).compute_seconds, 3.2, 0.01);
  // What stands in the queue before it counts: 2 s for these blocks, and 2 s of others.
  with.bytes_ahead = 100 * 400'000;
  EXPECT_EQ(costs.PlanRestore(with).num_blocks, 0);
}

// Against the definition: the k that gives the least queue + restore(k) + compute(the rest).
TEST(CostModelTest, ThePlanIsTheBestSplitThereIs) {
  std::mt19937 random(11);
  std::uniform_real_distribution<double> uniform(0.1, 10);
  for (int round = 0; round < 2000; ++round) {
    CostModel costs;
    double per_token = 1e-4 * uniform(random);
    for (const int position : {0, 600, 1500, 3000, 6000, 10000}) {
      costs.ObserveStep(512, position, 512 * per_token);
      per_token *= 1 + 0.1 * uniform(random);
    }
    const CostModel::RestoreArgs args{.first_position = static_cast<int>(random() % 100) * kBlock,
                                      .num_blocks = 1 + static_cast<int>(random() % 300),
                                      .block_bytes = 400'000,
                                      .bytes_ahead = random() % 3 * 10'000'000,
                                      .bytes_per_second = 1e7 * uniform(random)};
    const auto seconds = [&](int k) {
      const double restore =
          k == 0 ? 0 : 200e-6 + (args.bytes_ahead + k * 400e3) / args.bytes_per_second;
      return restore +
             costs.PrefillSeconds(args.first_position + k * kBlock, (args.num_blocks - k) * kBlock);
    };
    double best = seconds(0);
    for (int k = 1; k <= args.num_blocks; ++k) best = std::min(best, seconds(k));
    ASSERT_LE(seconds(costs.PlanRestore(args).num_blocks), best + CostModel::kNoiseSeconds + 1e-9);
  }
}

}  // namespace
}  // namespace kvgate::schedule
