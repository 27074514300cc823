#include "gateway/ledger/rollup/rollup_key.h"

#include <gtest/gtest.h>

#include <string>

namespace kvgate::ledger::rollup {
namespace {

TEST(RollupKeyTest, StepsBeginAtWholeMinutesHoursAndDays) {
  const int64_t minute = 29'876'543;
  EXPECT_EQ(BeginOf(Step::kMinute, minute), minute);
  EXPECT_EQ(BeginOf(Step::kHour, minute) % 60, 0);
  EXPECT_LT(minute - BeginOf(Step::kHour, minute), 60);
  EXPECT_EQ(BeginOf(Step::kDay, minute) % 1'440, 0);
  EXPECT_LT(minute - BeginOf(Step::kDay, minute), 1'440);
}

TEST(RollupKeyTest, KeysSortByTimeAndTellIt) {
  Group group{.step = Step::kHour, .minute = 60, .scope = ScopeOfAll(), .by = By::kModel};
  std::string before;
  for (const int64_t minute : {int64_t{60}, int64_t{660}, int64_t{29'000'040}}) {
    group.minute = minute;
    const std::string key = GroupPrefix(group) + "a/b";
    EXPECT_LT(before, key);
    EXPECT_EQ(MinuteOfKey(Step::kHour, key), minute);
    EXPECT_EQ(MinuteOfKey(Step::kDay, key), std::nullopt);
    EXPECT_TRUE(key.starts_with(TimePrefix(Step::kHour, minute)));
    before = key;
  }
}

TEST(RollupKeyTest, TenantsHaveScopesOfTheirOwnWhateverTheirNames) {
  EXPECT_NE(ScopeOfTenant("a"), ScopeOfTenant("b"));
  EXPECT_NE(ScopeOfTenant("*"), ScopeOfAll());
  EXPECT_EQ(ScopeOfTenant("a/b").find('/'), std::string::npos);
}

TEST(RollupKeyTest, NamesAreReadBack) {
  for (const Step step : kSteps) EXPECT_EQ(ParseStep(StepName(step)), step);
  for (size_t i = 0; i < kNumBys; ++i) {
    EXPECT_EQ(ParseBy(ByName(static_cast<By>(i))), static_cast<By>(i));
  }
  EXPECT_EQ(ParseStep("week"), std::nullopt);
  EXPECT_EQ(ParseBy(""), std::nullopt);
}

}  // namespace
}  // namespace kvgate::ledger::rollup
