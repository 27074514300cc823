#include "kernels/expert_routing.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <random>

namespace kvgate::kernels {
namespace {

std::vector<ExpertShare> Choose(const ExpertRule& rule, const std::vector<float>& logits) {
  std::vector<ExpertShare> shares;
  ChooseExperts(rule, logits, shares);
  return shares;
}

TEST(ExpertRoutingTest, TheHighestLogitsAreTakenInTheOrderOfTheExperts) {
  const ExpertRule rule = {.num_experts = 5, .num_used = 2, .renormalise = true};
  const auto shares = Choose(rule, {1, 5, 2, 6, 3,  //
                                    9, 0, 0, 0, 8});
  ASSERT_EQ(shares.size(), 4u);
  EXPECT_EQ(shares[0].expert, 1);
  EXPECT_EQ(shares[1].expert, 3);
  EXPECT_EQ(shares[2].expert, 0);
  EXPECT_EQ(shares[3].expert, 4);
  EXPECT_FLOAT_EQ(shares[0].share, static_cast<float>(1 / (1 + std::exp(1.0))));
  EXPECT_FLOAT_EQ(shares[1].share, static_cast<float>(1 / (1 + std::exp(-1.0))));
}

TEST(ExpertRoutingTest, SharesAreOfAllExpertsOrOfTheSelected) {
  const std::vector<float> logits = {0, std::log(2.0f), std::log(5.0f)};
  ExpertRule rule = {.num_experts = 3, .num_used = 2};
  EXPECT_FLOAT_EQ(Choose(rule, logits)[0].share, 0.25f);
  EXPECT_FLOAT_EQ(Choose(rule, logits)[1].share, 0.625f);
  rule.renormalise = true;
  EXPECT_FLOAT_EQ(Choose(rule, logits)[0].share, 2 / 7.0f);
  rule.renormalise = false;
  rule.gating = ExpertGating::kSoftmaxOfSelected;
  EXPECT_FLOAT_EQ(Choose(rule, logits)[1].share, 5 / 7.0f);
  rule.share_scale = 2.5f;
  EXPECT_FLOAT_EQ(Choose(rule, logits)[1].share, 12.5f / 7);
}

TEST(ExpertRoutingTest, OfEqualLogitsTheLowerExpertIsTaken) {
  const ExpertRule rule = {.num_experts = 4, .num_used = 2};
  const auto shares = Choose(rule, {1, 1, 1, 1});
  EXPECT_EQ(shares[0].expert, 0);
  EXPECT_EQ(shares[1].expert, 1);
}

TEST(ExpertRoutingTest, LargeLogitsDoNotOverflow) {
  const ExpertRule rule = {.num_experts = 2, .num_used = 2};
  const auto shares = Choose(rule, {5000, 4000});
  EXPECT_EQ(shares[0].share, 1);
  EXPECT_EQ(shares[1].share, 0);
}

TEST(ExpertRoutingTest, ThePlanHoldsEveryShareOnceByExpertAndByRow) {
  const ExpertRule rule = {.num_experts = 7, .num_used = 3};
  std::mt19937 random(5);
  std::vector<float> logits(40 * 7);
  for (float& logit : logits) logit = static_cast<float>(random() % 1000) / 100;
  const auto shares = Choose(rule, logits);
  ExpertPlan plan;
  plan.Build(rule, Choose(rule, std::vector<float>(7, 0)));  // an earlier plan must leave no traces
  plan.Build(rule, shares);
  std::map<std::pair<int, int>, float> seen;
  for (int expert = 0; expert < 7; ++expert) {
    const auto rows = plan.rows(expert);
    ASSERT_EQ(rows.size(), plan.shares(expert).size());
    EXPECT_TRUE(std::is_sorted(rows.begin(), rows.end()));
    for (size_t i = 0; i < rows.size(); ++i) {
      seen[{rows[i], expert}] = plan.shares(expert)[i];
    }
  }
  EXPECT_EQ(seen.size(), shares.size());
  for (size_t i = 0; i < shares.size(); ++i) {
    const int row = static_cast<int>(i / 3);
    EXPECT_EQ(seen.at({row, shares[i].expert}), shares[i].share);
  }
}

}  // namespace
}  // namespace kvgate::kernels
