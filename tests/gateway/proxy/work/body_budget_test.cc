#include "gateway/proxy/work/body_budget.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

namespace kvgate::proxy::work {
namespace {

using ::testing::HasSubstr;
using Lease = BodyBudget::Lease;

TEST(BodyBudgetTest, WhatDoesNotFitIsRefusedAndFitsWhenOthersHaveGone) {
  BodyBudget budget({.bytes_max = 100, .tenant_share = 1, .body_bytes_max = 60});
  Lease first(budget, "a");
  ASSERT_TRUE(first.GrowTo(60));
  {
    Lease second(budget, "b");
    ASSERT_TRUE(second.GrowTo(40));
    const auto refused = second.GrowTo(41);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, ErrorCode::kOverloaded);
    EXPECT_GT(refused.error().retry_after_seconds, 0);
    EXPECT_THAT(refused.error().detail, HasSubstr("limit of 100"));
    EXPECT_EQ(second.bytes(), 40u);
  }
  EXPECT_EQ(budget.bytes(), 60u);
  EXPECT_EQ(budget.num_refused(), 1u);
  Lease third(budget, "b");
  EXPECT_TRUE(third.GrowTo(40));
}

TEST(BodyBudgetTest, ATenantHasItsShareWhileTheRestIsForOthers) {
  BodyBudget budget({.bytes_max = 100, .tenant_share = 0.5, .body_bytes_max = 10});
  std::vector<Lease> own;
  for (int i = 0; i < 5; ++i) {
    own.emplace_back(budget, "greedy");
    ASSERT_TRUE(own.back().GrowTo(10));
  }
  Lease more(budget, "greedy");
  EXPECT_THAT(more.GrowTo(1).error().detail, HasSubstr("your requests"));
  Lease other(budget, "modest");
  EXPECT_TRUE(other.GrowTo(50));
}

TEST(BodyBudgetTest, TheLargestBodyAlwaysFitsAlone) {
  BodyBudget budget({.bytes_max = 10, .tenant_share = 0.01, .body_bytes_max = 64});
  Lease lease(budget, "a");
  EXPECT_TRUE(lease.GrowTo(64));
}

TEST(BodyBudgetTest, AMovedLeaseGivesBackOnce) {
  BodyBudget budget({});
  Lease first(budget, "a");
  ASSERT_TRUE(first.GrowTo(10));
  Lease second = std::move(first);
  first = Lease(budget, "b");
  EXPECT_EQ(budget.bytes(), 10u);
  second = Lease();
  EXPECT_EQ(budget.bytes(), 0u);
  second.Reset();
}

TEST(BodyBudgetTest, RandomLeasesAddUp) {
  BodyBudget budget({.bytes_max = 1000, .tenant_share = 0.4, .body_bytes_max = 50});
  std::mt19937 random(3);
  std::vector<Lease> leases;
  for (int i = 0; i < 20; ++i) leases.emplace_back(budget, std::string(1, 'a' + i % 4));
  for (int step = 0; step < 5000; ++step) {
    Lease& lease = leases[random() % leases.size()];
    const uint64_t before = lease.bytes();
    const uint64_t wanted = random() % 300;
    if (random() % 2 == 0) {
      lease.ShrinkTo(wanted);
      ASSERT_EQ(lease.bytes(), std::min(before, wanted));
    } else if (!lease.GrowTo(wanted)) {
      ASSERT_EQ(lease.bytes(), before);
    }
    uint64_t sum = 0;
    for (const Lease& one : leases) sum += one.bytes();
    ASSERT_EQ(budget.bytes(), sum);
    ASSERT_LE(sum, 1000u);
  }
}

}  // namespace
}  // namespace kvgate::proxy::work
