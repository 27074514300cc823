#include "gateway/ledger/totals.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

namespace kvgate::ledger {
namespace {

using Json = nlohmann::json;

constexpr int64_t kDayUs = int64_t{86'400} * 1'000'000;
constexpr int64_t kOctober31 = 1'793'404'800'000'000;  // 2026-10-31 00:00 UTC

RequestRecord Priced(std::string tenant, int64_t time_us, int64_t nanodollars) {
  RequestRecord record;
  record.time_us = time_us;
  record.endpoint = dialect::form::Endpoint::kMessages;
  record.upstream = "main";
  record.model = "m";
  record.tenant = std::move(tenant);
  record.status = 200;
  record.usage = reply::TokenUsage{.uncached_tokens = 1,
                                   .cache_read_tokens = 2,
                                   .cache_write_tokens = 3,
                                   .cache_write_1h_tokens = 4,
                                   .output_tokens = 5};
  record.cost = Cost{.nanodollars = nanodollars,
                     .uncached_nanodollars = 2 * nanodollars,
                     .direct_nanodollars = 3 * nanodollars};
  return record;
}

Json Written(const Totals& totals) {
  std::string text;
  dialect::form::JsonWriter json(text);
  totals.Write(json);
  return Json::parse(text);
}

TEST(TotalsTest, SumsAreByUpstreamModelAndTenant) {
  Totals totals;
  totals.Add(Priced("a", 1000, 10));
  totals.Add(Priced("b", 2000, 20));
  const Json json = Written(totals);
  EXPECT_EQ(json["since_us"], 1000);
  EXPECT_EQ(json["requests"], 2);
  EXPECT_EQ(json["cache_read_tokens"], 4);
  EXPECT_EQ(json["cache_write_tokens"], 14);
  EXPECT_EQ(json["nanodollars"], 30);
  EXPECT_EQ(json["uncached_nanodollars"], 60);
  EXPECT_EQ(json["direct_nanodollars"], 90);
  EXPECT_EQ(json["by_upstream"]["main"]["requests"], 2);
  EXPECT_EQ(json["by_model"]["m"]["output_tokens"], 10);
  EXPECT_EQ(json["by_tenant"]["b"]["nanodollars"], 20);
}

TEST(TotalsTest, NamedPromptsHaveSumsByVersionThatOutliveTheProcess) {
  Totals totals;
  totals.Add(Priced("a", 1, 10));
  EXPECT_FALSE(Written(totals).contains("by_prompt_version"));
  RequestRecord named = Priced("a", 2, 20);
  named.prompt_name = "support";
  named.prompt_version = "3";
  totals.Add(named);
  totals.Add(named);
  named.prompt_version = "4";
  totals.Add(named);
  Totals restored;
  for (const auto& [key, value] : totals.TakeChanged()) EXPECT_TRUE(restored.Restore(key, value));
  const Json sums = Written(restored)["by_prompt_version"];
  ASSERT_EQ(sums.size(), 2u);
  EXPECT_EQ(sums["support@3"]["requests"], 2);
  EXPECT_EQ(sums["support@3"]["nanodollars"], 40);
  EXPECT_EQ(sums["support@4"]["cache_read_tokens"], 2);
}

TEST(TotalsTest, WhatIsNotKnownIsCountedAndNotTakenForZero) {
  Totals totals;
  RequestRecord unpriced = Priced("a", 1, 0);
  unpriced.cost.reset();
  totals.Add(unpriced);
  RequestRecord silent = Priced("a", 1, 0);
  silent.usage.reset();
  totals.Add(silent);
  RequestRecord listing = silent;
  listing.endpoint = dialect::form::Endpoint::kModels;
  totals.Add(listing);
  RequestRecord failed = silent;
  failed.status = 529;
  totals.Add(failed);
  RequestRecord cut = silent;
  cut.outcome = "upstream_cut";
  totals.Add(cut);
  const Json json = Written(totals);
  EXPECT_EQ(json["unknown_cost"], 1);
  EXPECT_EQ(json["unknown_usage"], 2) << "a list of models has none, a refusal neither";
  EXPECT_EQ(json["failed"], 2);
}

TEST(TotalsTest, SpendingBeginsAnewWithTheDayAndTheMonth) {
  Totals totals;
  totals.Add(Priced("a", kOctober31 + 1, 1'500'000'000));
  EXPECT_EQ(totals.Spent("a", kOctober31 + 5).dollars_today, 1.5);
  totals.Add(Priced("a", kOctober31 + kDayUs - 1, 500'000'000));
  EXPECT_EQ(totals.Spent("a", kOctober31 + kDayUs - 1).dollars_today, 2);
  EXPECT_EQ(totals.Spent("a", kOctober31 + kDayUs - 1).dollars_this_month, 2);
  EXPECT_EQ(totals.Spent("a", kOctober31 + kDayUs).dollars_today, 0);
  EXPECT_EQ(totals.Spent("a", kOctober31 + kDayUs).dollars_this_month, 0);
  totals.Add(Priced("a", kOctober31 + kDayUs, 250'000'000));
  totals.Add(Priced("a", kOctober31 + 2, 9'000'000'000));  // arrives late
  EXPECT_EQ(totals.Spent("a", kOctober31 + kDayUs).dollars_today, 0.25);
  EXPECT_EQ(totals.Spent("b", kOctober31).dollars_today, 0);
}

TEST(TotalsTest, TokensOfTheDayAndTheMonthCountWithoutAPriceAndWithTheCache) {
  Totals totals;
  RequestRecord record = Priced("a", kOctober31, 0);
  record.cost.reset();
  record.usage = reply::TokenUsage{.uncached_tokens = 1,
                                   .cache_read_tokens = 20,
                                   .cache_write_tokens = 300,
                                   .output_tokens = 4000};
  totals.Add(record);
  EXPECT_EQ(totals.Spent("a", kOctober31).tokens_today, 4321);
  EXPECT_EQ(totals.Spent("a", kOctober31).tokens_this_month, 4321);
  EXPECT_EQ(totals.Spent("a", kOctober31).dollars_today, 0);
  record.time_us = kOctober31 + kDayUs;  // of November
  totals.Add(record);
  EXPECT_EQ(totals.Spent("a", kOctober31 + kDayUs).tokens_today, 4321);
  EXPECT_EQ(totals.Spent("a", kOctober31 + kDayUs).tokens_this_month, 4321);
}

TEST(TotalsTest, RowsOfAnEarlierVersionHaveNoTokensOfTheDayAndTheCostAsTheDirectOne) {
  Totals totals;
  totals.Add(Priced("a", kOctober31, 1'000'000'000));
  Totals restored;
  for (const auto& [key, value] : totals.TakeChanged()) {
    Json row = Json::parse(value);
    if (row.is_object()) {
      row.erase("day_tokens");
      row.erase("month_tokens");
      row.erase("direct_nanodollars");
    }
    EXPECT_TRUE(restored.Restore(key, row.dump())) << key;
  }
  EXPECT_EQ(restored.Spent("a", kOctober31).dollars_today, 1);
  EXPECT_EQ(restored.Spent("a", kOctober31).tokens_today, 0);
  EXPECT_EQ(Written(restored)["direct_nanodollars"], 1'000'000'000);
}

TEST(TotalsTest, TenantsBeyondTheBoundAreHeldToTheirCommonSums) {
  Totals totals;
  for (int i = 0; i < 5000; ++i) {
    totals.Add(Priced("tenant " + std::to_string(i), kOctober31, 1'000'000'000));
  }
  EXPECT_EQ(totals.Spent("tenant 7", kOctober31).dollars_today, 1);
  EXPECT_EQ(totals.Spent("tenant 4999", kOctober31).dollars_today, 5000 - 4095);
}

TEST(TotalsTest, WhoHasUsedNothingThisMonthIsNotListed) {
  Totals totals;
  totals.Add(Priced("a", kOctober31, 1'000'000'000));
  totals.Add(Priced("b", kOctober31 + kDayUs, 2'000'000'000));
  std::string seen;
  totals.ForEachSpending(kOctober31 + kDayUs, [&](const auto& tenant, const auto& spending) {
    seen += tenant + " " + std::to_string(static_cast<int>(spending.dollars_this_month));
  });
  EXPECT_EQ(seen, "b 2");
}

TEST(TotalsTest, AFloodOfNamesIsBoundedAndLosesNothing) {
  Totals totals;
  for (int i = 0; i < 5000; ++i) {
    RequestRecord record = Priced("tenant " + std::to_string(i), 1, 1);
    record.model = "model " + std::to_string(i);
    totals.Add(record);
  }
  const Json json = Written(totals);
  EXPECT_EQ(json["by_model"].size(), Totals::kSeriesMax);
  EXPECT_EQ(json["by_model"]["other"]["requests"], 5000 - 255);
  EXPECT_LE(json["by_tenant"].size(), 4096u);
  EXPECT_EQ(json["requests"], 5000);
}

TEST(TotalsTest, ModelsThatWereRefusedTakeNoPlaces) {
  Totals totals;
  RequestRecord refused = Priced("a", 1, 0);
  refused.outcome = "refused";
  refused.model = "made up";
  totals.Add(refused);
  EXPECT_EQ(Written(totals)["by_model"].size(), 1u);
  EXPECT_EQ(Written(totals)["by_model"]["none"]["requests"], 1);
}

TEST(TotalsTest, ChangedRowsRestoreTheSame) {
  Totals totals;
  totals.Add(Priced("a/b", kOctober31, 10));
  totals.Add(Priced("", kOctober31, 20));
  Totals restored;
  for (const auto& [key, value] : totals.TakeChanged()) {
    EXPECT_TRUE(restored.Restore(key, value)) << key;
  }
  EXPECT_EQ(Written(restored), Written(totals));
  EXPECT_EQ(restored.Spent("a/b", kOctober31).dollars_this_month, 10e-9);
  EXPECT_EQ(restored.Spent("a/b", kOctober31).tokens_today,
            totals.Spent("a/b", kOctober31).tokens_today);
  EXPECT_GT(restored.Spent("a/b", kOctober31).tokens_today, 0);
  EXPECT_TRUE(totals.TakeChanged().empty());
  totals.Add(Priced("", kOctober31, 1));
  EXPECT_EQ(totals.TakeChanged().size(), 5u) << "since, all, upstream, model and one tenant";
}

TEST(TotalsTest, ADamagedRowIsRefused) {
  Totals totals;
  EXPECT_FALSE(totals.Restore("model/x", "{}"));
  EXPECT_FALSE(totals.Restore("model/x", "nonsense"));
  EXPECT_FALSE(totals.Restore("planet/x", "{}"));
  EXPECT_FALSE(totals.Restore("model", "{}"));
  EXPECT_FALSE(totals.Restore("since", "soon"));
  EXPECT_EQ(Written(totals)["requests"], 0);
}

RequestRecord Attributed(std::string source, std::string cause) {
  RequestRecord record = Priced("a", kOctober31, 10);
  record.attribution = {{.source = std::move(source), .cached = 2, .written = 7, .uncached = 1}};
  record.prefix_break = RecordBreak{.cause = std::move(cause), .lost_tokens = 4};
  return record;
}

TEST(TotalsTest, SourcesAndCausesAreBoundedAndLoseNothing) {
  Totals totals;
  for (int i = 0; i < 100; ++i) {
    totals.Add(Attributed("s" + std::to_string(i), "c" + std::to_string(i)));
  }
  totals.Add(Attributed("s0", "none"));
  const Json json = Written(totals);
  EXPECT_EQ(json["by_source"].size(), Totals::kSourcesMax);
  EXPECT_EQ(json["breaks"].size(), Totals::kCausesMax);
  EXPECT_EQ(json["by_source"]["s0"]["written_tokens"], 14);
  EXPECT_EQ(json["by_source"]["other"]["cached_tokens"], 2 * (100 - 15));
  EXPECT_EQ(json["breaks"]["other"]["breaks"], 100 - 31);
  EXPECT_FALSE(json["breaks"].contains("none")) << "a whole hit is no break";
}

TEST(TotalsTest, ChangedRowsOfSourcesAndCausesRestoreTheSame) {
  Totals totals;
  totals.Add(Attributed("tools", "tool_added"));
  Totals restored;
  for (const auto& [key, value] : totals.TakeChanged()) {
    EXPECT_TRUE(restored.Restore(key, value)) << key;
  }
  EXPECT_EQ(Written(restored), Written(totals));
  EXPECT_EQ(Written(restored)["breaks"]["tool_added"]["lost_tokens"], 4);
  EXPECT_FALSE(restored.Restore("source/tools", R"({"cached_tokens":1})"));
  EXPECT_FALSE(restored.Restore("break/x", R"({"breaks":"1"})"));
}

}  // namespace
}  // namespace kvgate::ledger
