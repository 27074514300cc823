#include "gateway/ledger/source_cost.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

namespace kvgate::ledger {
namespace {

TEST(SourceCostTest, EachSourcePaysForWhatTheCacheDidForIt) {
  // This model costs 5 dollars per million input tokens.
  const PriceRow& row = *Prices::Builtin().Find("anthropic", "claude-opus-5");
  std::vector<SourceTokens> sources = {{.source = "tools", .cached = 1000},
                                       {.source = "history", .written = 1000},
                                       {.source = "user", .uncached = 1000}};
  ShareInputCost(row,
                 {.uncached_tokens = 1000, .cache_read_tokens = 1000, .cache_write_tokens = 1000},
                 "", sources);
  EXPECT_EQ(sources[0].nanodollars, 500'000);
  EXPECT_EQ(sources[1].nanodollars, 6'250'000);
  EXPECT_EQ(sources[2].nanodollars, 5'000'000);
}

TEST(SourceCostTest, SharesSumToTheCostOfTheInput) {
  std::mt19937 random(3);
  const auto count = [&] { return static_cast<int64_t>(random() % 100'000); };
  for (const char* model : {"gpt-6-sol", "gpt-5.5"}) {
    const PriceRow& row = *Prices::Builtin().Find("openai", model);
    for (int i = 0; i < 2000; ++i) {
      std::vector<SourceTokens> sources(1 + random() % 9);
      reply::TokenUsage usage{.output_tokens = 77};
      for (SourceTokens& source : sources) {
        usage.cache_read_tokens += source.cached = count();
        usage.uncached_tokens += source.uncached = count();
        const int64_t hour = count();
        usage.cache_write_1h_tokens += hour;
        usage.cache_write_tokens += (source.written = hour + count()) - hour;
      }
      ShareInputCost(row, usage, i % 2 == 0 ? "flex" : "", sources);
      int64_t sum = 0;
      for (const SourceTokens& source : sources) sum += source.nanodollars;
      usage.output_tokens = 0;
      EXPECT_EQ(sum, CostOf(row, usage, i % 2 == 0 ? "flex" : "")->nanodollars);
    }
  }
}

TEST(SourceCostTest, WithoutAPriceNothingIsMadeUp) {
  std::vector<SourceTokens> sources = {{.source = "tools", .cached = 1000}};
  ShareInputCost(PriceRow{}, {.cache_read_tokens = 1000}, "", sources);
  EXPECT_EQ(sources[0].nanodollars, 0);
}

}  // namespace
}  // namespace kvgate::ledger
