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
  // A token costs 1 ms at position 256 and 3 ms at 9000, and the cost is linear between, before and
  // beyond them.
  const double slope = 2e-3 / (9000 - 256);
  EXPECT_NEAR(costs.PrefillSeconds(0, 512), 0.512, 1e-6);
  EXPECT_NEAR(costs.PrefillSeconds(8950, 100), 0.3, 1e-6);
  EXPECT_NEAR(costs.PrefillSeconds(2000, 100), 100 * (1e-3 + (2050 - 256) * slope), 1e-6);
  EXPECT_NEAR(costs.PrefillSeconds(20000, 100), 100 * (1e-3 + (20050 - 256) * slope), 1e-6);
  EXPECT_NEAR(costs.prefill_tokens_per_second(), 1000, 1);
}

// The seconds per token were measured on two cores with a model of 2 layers: 14 us at the first
// positions, 23 us at 4096, and 2.8 s for a prompt of 48,896 tokens. Extrapolating flat from the
// first positions gives 0.7 s, and a load would be given up after 35 ms instead of 140 ms.
TEST(CostModelTest, APromptOfFortyThousandTokensIsNotPricedByItsFirst) {
  CostModel costs;
  costs.ObserveStep(128, 64, 128 * 14e-6);
  EXPECT_NEAR(costs.PrefillSeconds(0, 48'896), 0.68, 0.01);
  CostModel measured;
  measured.ObserveStep(128, 64, 128 * 14e-6);
  measured.SetSlope((23e-6 - 14e-6) / 4096);
  EXPECT_NEAR(measured.PrefillSeconds(0, 48'896), 2.8, 0.6);
  // Steps near the beginning do not improve the slope; one far into the text does.
  measured.ObserveStep(512, 700, 512 * 13e-6);
  EXPECT_NEAR(measured.PrefillSeconds(0, 48'896), 2.8, 0.8);
  measured.ObserveStep(512, 30'000, 512 * 70e-6);
  EXPECT_NEAR(measured.PrefillSeconds(0, 48'896), 48'896 * 59e-6, 0.1);
}

TEST(CostModelTest, PiecesOfAPromptAddUpToTheWhole) {
  std::mt19937 random(3);
  for (int round = 0; round < 200; ++round) {
    CostModel costs;
    costs.SetSlope(1e-9 * (random() % 100));
    for (int i = 0; i < 5; ++i) {
      costs.ObserveStep(512, random() % 40'000, 512 * 1e-6 * (1 + random() % 50));
    }
    double sum = 0;
    for (int at = 0; at < 50'000;) {
      const int count = std::min<int>(1 + static_cast<int>(random() % 3000), 50'000 - at);
      EXPECT_GE(costs.PrefillSeconds(at, count), 0);
      sum += costs.PrefillSeconds(at, count);
      at += count;
    }
    EXPECT_NEAR(sum, costs.PrefillSeconds(0, 50'000), 1e-6);
  }
}

TEST(CostModelTest, SaysHowManyTokensFitIntoATime) {
  CostModel costs;
  costs.ObserveStep(512, 0, 512 * 1e-3);
  costs.ObserveStep(512, 3000, 512 * 4e-3);
  EXPECT_EQ(costs.TokensWithin(0, 0.1), 64);
  EXPECT_EQ(costs.TokensWithin(0, 0.031), 0);
  // From position 1000 on, a token costs 2 ms, and 0.001 ms more at each further position.
  EXPECT_EQ(costs.TokensWithin(1000, 0.21), 96);
  EXPECT_EQ(costs.TokensWithin(1000, 0.19), 64);
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
  costs.ObserveStep(512, 0, 512 * 1e-3);  // a block takes 32 ms to compute
  const CostModel::RestoreArgs args{.num_blocks = 100, .block_bytes = 400'000};
  auto with = args;
  with.bytes_per_second = 400'000 / 0.040;
  EXPECT_EQ(costs.PlanRestore(with).num_blocks, 0);
  with.bytes_per_second = 400'000 / 0.020;
  EXPECT_EQ(costs.PlanRestore(with).num_blocks, 100);
  EXPECT_NEAR(costs.PlanRestore(with).restore_seconds, 2.0, 0.01);
  EXPECT_NEAR(costs.PlanRestore(with).compute_seconds, 3.2, 0.01);
  // The latency of the first record is added once.
  with.latency_seconds = 1.0;
  EXPECT_EQ(costs.PlanRestore(with).num_blocks, 100);
  EXPECT_NEAR(costs.PlanRestore(with).restore_seconds, 3.0, 0.01);
  with.latency_seconds = 1.5;
  EXPECT_EQ(costs.PlanRestore(with).num_blocks, 0);
  with.latency_seconds = 0;
  // Bytes that are ahead in the queue count: 2 s for these blocks, and 2 s for others.
  with.bytes_ahead = 100 * 400'000;
  EXPECT_EQ(costs.PlanRestore(with).num_blocks, 0);
}

// The plan is compared with its definition: the k with the least queue + restore(k) + compute(the
// rest).
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
