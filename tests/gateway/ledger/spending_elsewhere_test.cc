#include "gateway/ledger/spending_elsewhere.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "gateway/ledger/ledger.h"

namespace kvgate::ledger {
namespace {

constexpr int64_t kDayUs = int64_t{86'400} * 1'000'000;
constexpr int64_t kOctober30 = 20'756 * kDayUs;  // 2026-10-30
constexpr upstream::Spending kSaid{
    .dollars_today = 1, .dollars_this_month = 20, .tokens_today = 100, .tokens_this_month = 2000};

upstream::Spending At(const SpendingElsewhere& elsewhere, std::string_view tenant, int64_t now_us) {
  upstream::Spending spending{.dollars_today = 0.5, .tokens_this_month = 7};
  elsewhere.AddTo(tenant, now_us, spending);
  return spending;
}

TEST(SpendingElsewhereTest, ItCountsInItsDayAndMonthAlone) {
  SpendingElsewhere elsewhere;
  elsewhere.Set("a", kSaid, kOctober30);
  EXPECT_EQ(At(elsewhere, "a", kOctober30 + kDayUs - 1).dollars_today, 1.5);
  EXPECT_EQ(At(elsewhere, "a", kOctober30 + kDayUs - 1).tokens_this_month, 2007);
  EXPECT_EQ(At(elsewhere, "a", kOctober30 + kDayUs).dollars_today, 0.5);
  EXPECT_EQ(At(elsewhere, "a", kOctober30 + kDayUs).dollars_this_month, 20);
  EXPECT_EQ(At(elsewhere, "a", kOctober30 + 2 * kDayUs).dollars_this_month, 0);
  EXPECT_EQ(At(elsewhere, "b", kOctober30).dollars_today, 0.5);
  elsewhere.Set("a", {.dollars_today = 2}, kOctober30);
  EXPECT_EQ(At(elsewhere, "a", kOctober30).dollars_today, 2.5);
}

TEST(SpendingElsewhereTest, WhoHasUsedNothingThisMonthIsNotVisited) {
  SpendingElsewhere elsewhere;
  elsewhere.Set("a", kSaid, kOctober30);
  elsewhere.Set("none", {}, kOctober30);
  std::vector<std::pair<std::string, double>> visited;
  const auto visit = [&](const std::string& tenant, const upstream::Spending& spending) {
    visited.emplace_back(tenant, spending.dollars_today);
  };
  elsewhere.ForEach(kOctober30 + kDayUs, visit);
  EXPECT_EQ(visited, (std::vector<std::pair<std::string, double>>{{"a", 0}}));
  elsewhere.ForEach(kOctober30 + 2 * kDayUs, visit);
  EXPECT_EQ(visited.size(), 1u);
}

TEST(SpendingElsewhereTest, TenantsAreBoundedAndThoseOfAMonthThatIsOverMakeRoom) {
  SpendingElsewhere elsewhere;
  for (size_t i = 0; i < SpendingElsewhere::kTenantsMax; ++i) {
    elsewhere.Set(std::to_string(i), kSaid, kOctober30);
  }
  elsewhere.Set("one more", kSaid, kOctober30);
  EXPECT_EQ(At(elsewhere, "one more", kOctober30).dollars_today, 0.5);
  elsewhere.Set("one more", kSaid, kOctober30 + 2 * kDayUs);
  EXPECT_EQ(At(elsewhere, "one more", kOctober30 + 2 * kDayUs).dollars_today, 1.5);
}

TEST(SpendingElsewhereTest, TheLedgerSaysTheSumAndWhatIsItsOwnAndNotesWhoWasAskedAbout) {
  SpendingElsewhere elsewhere;
  Ledger ledger({.elsewhere = &elsewhere});
  const int64_t now_us = WallClock::NowUs();
  elsewhere.Set("a", kSaid, now_us);
  EXPECT_EQ(ledger.SpentHere("a", now_us).dollars_this_month, 0);
  EXPECT_TRUE(elsewhere.TakeAsked().empty());
  ASSERT_EQ(ledger.AllSpent().size(), 1u);
  EXPECT_EQ(ledger.AllSpent()[0].second.tokens_this_month, 2000);
  EXPECT_EQ(ledger.Spent("a").dollars_this_month, 20);
  EXPECT_EQ(ledger.Spent("a").dollars_this_month, 20);
  const auto asked = elsewhere.TakeAsked();
  ASSERT_EQ(asked.size(), 1u);
  EXPECT_EQ(asked[0].tenant, "a");
  EXPECT_TRUE(elsewhere.TakeAsked().empty());
}

}  // namespace
}  // namespace kvgate::ledger
