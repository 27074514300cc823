#include "gateway/access/budget.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

namespace kvgate::access {
namespace {

using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr int64_t kSecondUs = 1'000'000;
constexpr int64_t kDayUs = 86'400 * kSecondUs;
// 2026-11-27T18:48:00Z
constexpr int64_t kNowUs = (20'784 * int64_t{86'400} + 18 * 3600 + 48 * 60) * kSecondUs;

config::KeyConfig KeyOf(std::string name, config::BudgetLimits budgets = {}) {
  config::KeyConfig key;
  key.name = std::move(name);
  key.budgets = budgets;
  return key;
}

config::BudgetLimits AllLimits() {
  return {.dollars_per_day = 10,
          .dollars_per_month = 100,
          .tokens_per_day = 1000,
          .tokens_per_month = 20'000};
}

Error Refusal(const config::BudgetLimits& limits, const upstream::Spending& spending,
              int64_t now_us = kNowUs) {
  const auto checked = CheckBudgets("The key 'a'", BudgetsOf(limits, spending, now_us), now_us);
  return checked ? Error() : checked.error();
}

TEST(BudgetTest, TimesAreWrittenInUtc) {
  EXPECT_EQ(IsoTime(0), "1970-01-01T00:00:00Z");
  EXPECT_EQ(IsoTime(kNowUs + 59'999'999), "2026-11-27T18:48:59Z");
  EXPECT_EQ(IsoTime(-1), "1969-12-31T23:59:59Z");
}

TEST(BudgetTest, EachLimitIsABudgetOfItsDayOrMonth) {
  const std::vector<Budget> budgets = BudgetsOf(
      AllLimits(),
      {.dollars_today = 1, .dollars_this_month = 2, .tokens_today = 3, .tokens_this_month = 4},
      kNowUs);
  ASSERT_THAT(budgets, SizeIs(4));
  for (const Budget& budget : budgets) {
    const bool is_day =
        budget.kind == BudgetKind::kDollarsPerDay || budget.kind == BudgetKind::kTokensPerDay;
    EXPECT_EQ(IsoTime(budget.begin_us), is_day ? "2026-11-27T00:00:00Z" : "2026-11-01T00:00:00Z");
    EXPECT_EQ(IsoTime(budget.renews_us), is_day ? "2026-11-28T00:00:00Z" : "2026-12-01T00:00:00Z");
  }
  EXPECT_EQ(BudgetName(budgets[0].kind), "dollars_per_day");
  EXPECT_EQ(budgets[0].used, 1);
  EXPECT_EQ(budgets[0].left(), 9);
  EXPECT_EQ(BudgetName(budgets[1].kind), "dollars_per_month");
  EXPECT_EQ(budgets[1].share(), 0.02);
  EXPECT_EQ(BudgetName(budgets[2].kind), "tokens_per_day");
  EXPECT_EQ(budgets[2].used, 3);
  EXPECT_EQ(BudgetName(budgets[3].kind), "tokens_per_month");
  EXPECT_EQ(budgets[3].used, 4);
  EXPECT_THAT(BudgetsOf({}, {.dollars_today = 5}, kNowUs), IsEmpty());
}

TEST(BudgetTest, MonthsEndWithTheYearAndInFebruary) {
  constexpr int64_t kDecember31 = 20'818 * kDayUs;
  constexpr int64_t kFebruary29 = 21'243 * kDayUs;
  const config::BudgetLimits limits{.tokens_per_month = 1};
  EXPECT_EQ(IsoTime(BudgetsOf(limits, {}, kDecember31 + kDayUs - 1)[0].begin_us),
            "2026-12-01T00:00:00Z");
  EXPECT_EQ(IsoTime(BudgetsOf(limits, {}, kDecember31 + kDayUs - 1)[0].renews_us),
            "2027-01-01T00:00:00Z");
  EXPECT_EQ(IsoTime(BudgetsOf(limits, {}, kFebruary29)[0].begin_us), "2028-02-01T00:00:00Z");
  EXPECT_EQ(IsoTime(BudgetsOf(limits, {}, kFebruary29)[0].renews_us), "2028-03-01T00:00:00Z");
}

TEST(BudgetTest, ARefusalSaysWhatWasUsedAndWhenItRenews) {
  const Error error = Refusal({.dollars_per_day = 10}, {.dollars_today = 10.02});
  EXPECT_EQ(error.code, ErrorCode::kRateLimited);
  EXPECT_EQ(error.detail,
            "The key 'a' has used 10.02 of its 10.00 dollars a day; the budget renews at "
            "2026-11-28T00:00:00Z (in 5 h 12 min).");
  EXPECT_EQ(error.retry_after_seconds, 5 * 3600 + 12 * 60);
  EXPECT_EQ(Refusal({.tokens_per_month = 500}, {.tokens_this_month = 512}).detail,
            "The key 'a' has used 512 of its 500 tokens a month; the budget renews at "
            "2026-12-01T00:00:00Z (in 3 d 5 h).");
}

TEST(BudgetTest, SmallAmountsKeepTheirDigits) {
  EXPECT_THAT(Refusal({.dollars_per_day = 0.00125}, {.dollars_today = 0.00131}).detail,
              ::testing::HasSubstr("used 0.00131 of its 0.00125 dollars"));
  EXPECT_THAT(Refusal({.dollars_per_day = 0.5}, {.dollars_today = 0.5}).detail,
              ::testing::HasSubstr("used 0.500 of its 0.500 dollars"));
}

TEST(BudgetTest, ABudgetIsUsedUpWhenItsLimitIsReached) {
  const config::BudgetLimits limits = AllLimits();
  EXPECT_EQ(Refusal(limits, {.dollars_today = 9.99, .tokens_today = 999}).detail, "");
  EXPECT_NE(Refusal(limits, {.dollars_today = 10}).detail, "");
  EXPECT_NE(Refusal(limits, {.tokens_today = 1000}).detail, "");
  EXPECT_NE(Refusal(limits, {.tokens_this_month = 20'000}).detail, "");
  EXPECT_NE(Refusal(limits, {.dollars_this_month = 100}).detail, "");
}

TEST(BudgetTest, OfSeveralTheOneThatRenewsLastIsNamed) {
  const Error error = Refusal(AllLimits(), {.dollars_today = 12,
                                            .dollars_this_month = 101,
                                            .tokens_today = 2000,
                                            .tokens_this_month = 3000});
  EXPECT_THAT(error.detail, ::testing::HasSubstr("101.00 of its 100.00 dollars a month"));
  EXPECT_GT(error.retry_after_seconds, 86'400);
}

TEST(BudgetTest, TheLastMomentOfADayIsASecondBeforeItRenews) {
  const int64_t last_us = kNowUs - kNowUs % kDayUs + kDayUs - 1;
  EXPECT_EQ(Refusal({.tokens_per_day = 1}, {.tokens_today = 1}, last_us).retry_after_seconds, 1);
}

TEST(BudgetTableTest, AKeyHasItsOwnLimitsAndElseThoseOfEveryTenant) {
  const BudgetTable table({KeyOf("own", {.dollars_per_day = 3}), KeyOf("plain")},
                          {.dollars_per_day = 1, .tokens_per_month = 50});
  EXPECT_FALSE(table.empty());
  EXPECT_EQ(table.LimitsOf("own").dollars_per_day, 3);
  EXPECT_EQ(table.LimitsOf("own").tokens_per_month, 50);
  EXPECT_EQ(table.LimitsOf("plain").dollars_per_day, 1);
  EXPECT_EQ(table.LimitsOf("").tokens_per_month, 50) << "who sends no credential is a tenant";
  EXPECT_THAT(table.keys(), SizeIs(2));
}

TEST(BudgetTableTest, WithoutALimitThereIsNothingToCheck) {
  EXPECT_TRUE(BudgetTable().empty());
  EXPECT_TRUE(BudgetTable({KeyOf("plain")}, {}).empty());
  EXPECT_FALSE(BudgetTable({KeyOf("own", {.tokens_per_day = 1})}, {}).empty());
  EXPECT_EQ(BudgetTable({}, {}, {0.5, 1}).thresholds(), (std::vector<double>{0.5, 1}));
}

}  // namespace
}  // namespace kvgate::access
