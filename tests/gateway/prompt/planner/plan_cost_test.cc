#include "gateway/prompt/planner/plan_cost.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace kvgate::prompt::planner {
namespace {

bool Always(double, Lifetime) { return true; }

// Returns 10,000 shared tokens and 2,000 of the conversation, with nothing cached and Anthropic's
// usual factors.
CostArgs Cold() {
  CostArgs args;
  args.factors = {.read = 0.1, .write = 1.25, .write_long = 2};
  args.has_long = true;
  args.total_tokens = 12'000;
  args.stable_tokens = 10'000;
  args.tail_tokens = 12'000;
  args.common_tokens = 12'000;
  args.gaps = {1, 0, 0};
  args.arrivals = {0, 0, 1};
  return args;
}

TEST(PlanCostTest, AWriteThatNobodyReadsIsNotPaidFor) {
  const CostChoice choice = Choose(Cold(), Always);
  EXPECT_EQ(choice.stable, Lifetime::kNone);
  EXPECT_EQ(choice.tail, Lifetime::kNone);
  EXPECT_EQ(choice.premium, 0);
  EXPECT_FALSE(choice.is_refused);
}

TEST(PlanCostTest, OneReadWithinTheTtlPays) {
  CostArgs args = Cold();
  args.continues = 0.5;
  const CostChoice choice = Choose(args, Always);
  EXPECT_EQ(choice.tail, Lifetime::kTtl);
  EXPECT_EQ(choice.stable, Lifetime::kTtl) << "written in any case";
  EXPECT_DOUBLE_EQ(choice.premium, 0.25 * 12'000);
  EXPECT_DOUBLE_EQ(choice.written_tokens, 12'000);
}

TEST(PlanCostTest, OtherConversationsPayForWhatTheyShareOnly) {
  CostArgs args = Cold();
  args.arrivals = {0.7, 0, 0.3};
  const CostChoice choice = Choose(args, Always);
  EXPECT_EQ(choice.stable, Lifetime::kTtl);
  EXPECT_EQ(choice.tail, Lifetime::kNone);
  EXPECT_DOUBLE_EQ(choice.premium, 0.25 * 10'000);
}

TEST(PlanCostTest, TheLongerLifetimeNeedsMoreThanOneRead) {
  CostArgs args = Cold();
  args.gaps = {0, 1, 0};
  args.continues = 0.5;
  EXPECT_EQ(Choose(args, Always).tail, Lifetime::kNone);
  args.continues = 0.9;
  EXPECT_EQ(Choose(args, Always).tail, Lifetime::kLong);
  args.has_long = false;
  EXPECT_EQ(Choose(args, Always).tail, Lifetime::kNone);
}

TEST(PlanCostTest, GapsOverEveryLifetimeAreNotWrittenFor) {
  CostArgs args = Cold();
  args.gaps = {0, 0, 1};
  args.continues = 1;
  EXPECT_EQ(Choose(args, Always).tail, Lifetime::kNone);
}

TEST(PlanCostTest, OnWhatIsCachedTheLongerLifetimeIsACheapInsurance) {
  CostArgs args = Cold();
  args.readable_tokens = args.kept_tokens = 11'900;
  args.stable_is_kept = true;
  args.gaps = {0.9, 0.1, 0};
  args.continues = 0.95;
  EXPECT_EQ(Choose(args, Always).tail, Lifetime::kLong) << "100 tokens at 2.0";
  args.gaps = {1, 0, 0};
  EXPECT_EQ(Choose(args, Always).tail, Lifetime::kTtl);
}

TEST(PlanCostTest, WhatAnotherRequestIsAboutToWriteIsNotWrittenAgain) {
  CostArgs args = Cold();
  args.continues = 0.9;
  args.kept_tokens = 10'000;  // readable by the next request, not yet now
  args.stable_is_kept = true;
  EXPECT_EQ(Choose(args, Always).tail, Lifetime::kNone) << "3,000 for a read of 2,000";
  args.total_tokens = args.tail_tokens = args.common_tokens = 30'000;
  EXPECT_EQ(Choose(args, Always).tail, Lifetime::kTtl) << "7,500 for a read of 20,000";
}

TEST(PlanCostTest, ABreakpointInFrontOfWhatIsReadGivesNothingALongerLife) {
  CostArgs args = Cold();
  args.readable_tokens = args.kept_tokens = 11'500;
  args.arrivals = {0, 0.9, 0.1};
  args.gaps = {1, 0, 0};
  args.continues = 0.9;
  const CostChoice choice = Choose(args, Always);
  EXPECT_EQ(choice.stable, Lifetime::kTtl) << "it stands there for nothing, and asks for nothing";
  EXPECT_EQ(choice.tail, Lifetime::kTtl);
}

TEST(PlanCostTest, WhatTheCallerWritesCostsNothingMore) {
  CostArgs args = Cold();
  args.callers_tokens = 12'000;
  args.continues = 0.9;
  const CostChoice choice = Choose(args, [](double, Lifetime) { return false; });
  EXPECT_EQ(choice.premium, 0);
  EXPECT_FALSE(choice.is_refused);
}

TEST(PlanCostTest, WhatIsNotAffordedIsNotReplacedByMore) {
  CostArgs args = Cold();
  args.continues = 0.9;
  args.gaps = {0.95, 0.05, 0};
  std::vector<double> asked;
  const CostChoice choice = Choose(args, [&](double premium, Lifetime) {
    asked.push_back(premium);
    return false;
  });
  EXPECT_TRUE(choice.is_refused);
  EXPECT_EQ(choice.tail, Lifetime::kNone);
  EXPECT_TRUE(std::is_sorted(asked.rbegin(), asked.rend()));
}

}  // namespace
}  // namespace kvgate::prompt::planner
