#include "gateway/prompt/planner/plan_memory.h"

#include <gtest/gtest.h>

#include <vector>

namespace kvgate::prompt::planner {
namespace {

constexpr int64_t kSecondUs = 1'000'000;
constexpr int64_t kHourUs = 3600 * kSecondUs;

TEST(PlanMemoryTest, SharesOfGapsAreAPriorAndWhatWasSeen) {
  const GapShares prior = {0.9, 0.1, 0};
  GapCounts gaps;
  EXPECT_EQ(Blend(prior, {{gaps, 3}}), prior);
  for (int i = 0; i < 20; ++i) gaps.Add(Gap::kWithinLong, 0.9);
  const GapShares shares = Blend(prior, {{gaps, 3}});
  EXPECT_GT(shares[1], 0.95);
  EXPECT_NEAR(shares[0] + shares[1] + shares[2], 1, 1e-12);
  gaps.Add(Gap::kOver, 0.5);
  gaps.Add(Gap::kOver, 0.5);
  EXPECT_GT(Blend(prior, {{gaps, 3}})[2], 0.3) << "the newest count most";
}

TEST(PlanMemoryTest, ARequestThatNothingFollowsCountsAsTheEndBitByBit) {
  ReuseCounts counts;
  EXPECT_DOUBLE_EQ(counts.Share(0.7, 2, 0), 0.7);
  counts.Issue(0);
  EXPECT_DOUBLE_EQ(counts.Share(0.7, 2, 0), 0.7) << "it may yet be followed";
  EXPECT_LT(counts.Share(0.7, 2, 10 * kSecondUs), 0.7);
  EXPECT_NEAR(counts.Share(0.7, 2, kHourUs), 1.4 / 3, 1e-9);
  counts.Return(0, kHourUs);
  EXPECT_NEAR(counts.Share(0.7, 2, kHourUs), 2.4 / 3, 1e-9);
}

TEST(PlanMemoryTest, AReturnTakesExactlyItsOwnRequestOffWhatIsOpen) {
  ReuseCounts counts;
  counts.Issue(0);
  counts.Issue(100 * kSecondUs);
  counts.Return(0, 150 * kSecondUs);
  ReuseCounts one;
  one.Issue(100 * kSecondUs);
  // Each has one open request of the same age; `counts` also has one that was followed.
  const double ended = 1 / counts.Share(0, 2, 150 * kSecondUs) - 2;
  const double open_ended = 2 / one.Share(1, 2, 150 * kSecondUs) - 2;
  EXPECT_NEAR(ended, 1 + open_ended, 1e-9);
}

TEST(PlanMemoryTest, WhatWasWithdrawnWasNever) {
  ReuseCounts counts;
  for (int i = 0; i < 50; ++i) {
    counts.Issue(i * kSecondUs);
    counts.Withdraw(i * kSecondUs);
  }
  EXPECT_NEAR(counts.Share(0.7, 2, kHourUs), 0.7, 1e-9);
}

TEST(PlanMemoryTest, AnAccountAffordsALossOfSoManyRequestsThenAShareOfAll) {
  Account account;
  EXPECT_TRUE(account.Affords(250, 1000, {.num_lost = 0.35}));
  account.Send(250, 1000);
  EXPECT_FALSE(account.Affords(250, 1000, {.num_lost = 0.35}));
  for (int i = 0; i < 30; ++i) account.Send(0, 1000);
  EXPECT_TRUE(account.Affords(250, 1000, {.num_lost = 0.35})) << "500 of 32,000";
  EXPECT_LE((account.loss + 250) / account.direct, 0.02);
  account.Unsend(0, 1000);
  EXPECT_EQ(account.num_requests, 30);
}

TEST(PlanMemoryTest, ASurplusIsBounded) {
  Account account;
  for (int i = 0; i < 100; ++i) account.Save(900, 1000);
  EXPECT_EQ(account.loss, -4000);
  EXPECT_TRUE(account.Affords(3000, 1000, {}));
  EXPECT_FALSE(account.Affords(5000, 1000, {}));
  account.Save(10, 100);
  EXPECT_EQ(account.loss, -4000) << "a small request takes nothing away";
}

TEST(PlanMemoryTest, EntriesAreBoundedAndKeepTheirLongerLife) {
  std::vector<CacheEntry> entries;
  for (uint64_t i = 1; i <= 5; ++i) {
    const auto us = static_cast<int64_t>(i) * kSecondUs;
    Remember(entries,
             {.prefix = {i, 0},
              .ttl_us = kHourUs,
              .written_us = us,
              .readable_us = us + 3,
              .expires_us = us + kHourUs},
             4);
  }
  ASSERT_EQ(entries.size(), 4U);
  EXPECT_EQ(entries.front().prefix.low, 2U) << "the one that ends first has gone";
  Remember(entries,
           {.prefix = {2, 0},
            .ttl_us = kSecondUs,
            .written_us = 9 * kSecondUs,
            .readable_us = 12 * kSecondUs,
            .expires_us = 10 * kSecondUs},
           4);
  EXPECT_EQ(entries.front().ttl_us, kHourUs);
  EXPECT_TRUE(entries.front().IsReadable(9 * kSecondUs));
  EXPECT_FALSE(entries.front().IsAlive(2 * kSecondUs + kHourUs));
}

TEST(PlanMemoryTest, RatesAreOfTheLastMinute) {
  RateMeter rate;
  for (int i = 0; i < 15; ++i) rate.Add(0);
  EXPECT_DOUBLE_EQ(rate.At(0), 15);
  EXPECT_LT(rate.At(60 * kSecondUs), 6);
}

}  // namespace
}  // namespace kvgate::prompt::planner
