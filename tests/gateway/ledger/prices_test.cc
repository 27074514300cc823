#include "gateway/ledger/prices.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "tests/base/temp_folder.h"

namespace kvgate::ledger {
namespace {

const PriceRow& Row(std::string_view provider, std::string_view model) {
  const PriceRow* row = Prices::Builtin().Find(provider, model);
  EXPECT_NE(row, nullptr) << provider << " " << model;
  return *row;
}

int64_t Nanodollars(std::string_view provider, std::string_view model,
                    const reply::TokenUsage& usage, std::string_view tier = "") {
  const auto cost = CostOf(Row(provider, model), usage, tier);
  EXPECT_TRUE(cost.has_value()) << provider << " " << model;
  return cost ? cost->nanodollars : -1;
}

TEST(PricesTest, TheVectorOfLitellm9812IsExact) {
  const reply::TokenUsage usage{
      .uncached_tokens = 3, .cache_write_tokens = 12304, .output_tokens = 550};
  const auto cost = CostOf(Row("anthropic", "claude-3-7-sonnet-20250219"), usage, "standard");
  // 3 * 3 + 12304 * 3.75 + 550 * 15 = 54399 millionths of a dollar.
  EXPECT_EQ(cost, (Cost{.nanodollars = 54'399'000,
                        .uncached_nanodollars = (12307 * 3 + 550 * 15) * int64_t{1000},
                        .direct_nanodollars = 54'399'000}));
}

TEST(PricesTest, ReadsAndBothKindsOfWritesHaveTheirFactors) {
  const reply::TokenUsage usage{.uncached_tokens = 1'000'000,
                                .cache_read_tokens = 1'000'000,
                                .cache_write_tokens = 1'000'000,
                                .cache_write_1h_tokens = 1'000'000,
                                .output_tokens = 1'000'000};
  EXPECT_EQ(Nanodollars("anthropic", "claude-opus-5-5-20260901", usage),
            (4'000'000'000 + 200'000'000 + 5'000'000'000 + 8'000'000'000 + 20'000'000'000));
  EXPECT_EQ(Nanodollars("anthropic", "claude-opus-5", {.cache_read_tokens = 1000}), 500'000);
}

TEST(PricesTest, TheLargestDollarsAreFarFromOverflow) {
  const reply::TokenUsage usage{.uncached_tokens = 1'000'000'000, .output_tokens = 1'000'000'000};
  EXPECT_EQ(Nanodollars("anthropic", "claude-opus-4-1", usage), 90'000'000'000'000);
}

TEST(PricesTest, LongInputsAndServiceTiersChangeTheWholeRequest) {
  const reply::TokenUsage below{.uncached_tokens = 272'000, .output_tokens = 1000};
  const reply::TokenUsage above{
      .uncached_tokens = 1, .cache_read_tokens = 272'000, .output_tokens = 1000};
  EXPECT_EQ(Nanodollars("openai", "gpt-6-sol", below), 272'000 * 2000 + 1000 * 10'000);
  EXPECT_EQ(Nanodollars("openai", "gpt-6-sol", above),
            (1 * 2000 + 272'000 * 200) * 2 + 1000 * 15'000);
  EXPECT_EQ(Nanodollars("openai", "gpt-5.5", {.uncached_tokens = 1000}, "priority"), 12'500'000);
  EXPECT_EQ(Nanodollars("openai", "gpt-6-sol", {.uncached_tokens = 1000}, "flex"), 1'000'000);
  EXPECT_EQ(CostOf(Row("openai", "gpt-6-sol"), below, "scale"), std::nullopt)
      << "a tier that the row does not know has no price";
}

TEST(PricesTest, AnUnknownModelHasRulesAndNoPrice) {
  for (const char* provider : {"anthropic", "openai", "deepseek", "xai"}) {
    const PriceRow& row = Row(provider, "some-model-of-tomorrow");
    EXPECT_FALSE(row.prices.has_value()) << provider;
    EXPECT_EQ(CostOf(row, {.uncached_tokens = 1}, ""), std::nullopt);
  }
  EXPECT_EQ(Row("anthropic", "claude-next").rules.minimum_tokens, 4096);
  EXPECT_EQ(Prices::Builtin().Find("nobody", "gpt-6-sol"), nullptr);
}

TEST(PricesTest, NoModelTakesTheRowOfItsNeighbour) {
  EXPECT_EQ(Row("anthropic", "claude-opus-5-5").prices->input, 4'000'000);
  EXPECT_EQ(Row("anthropic", "claude-opus-5.5").prices->input, 4'000'000);
  EXPECT_EQ(Row("anthropic", "claude-opus-5-20260701").prices->input, 5'000'000);
  EXPECT_EQ(Row("anthropic", "anthropic/claude-sonnet-4-5-20250929").prices->input, 3'000'000);
  EXPECT_FALSE(Row("anthropic", "claude-sonnet-5-5").prices.has_value());
  EXPECT_FALSE(Row("anthropic", "claude-opus-4-7").prices.has_value());
  EXPECT_EQ(Row("anthropic", "claude-opus-4-7").rules.minimum_tokens, 2048);
  EXPECT_EQ(Row("anthropic", "claude-opus-4-20250514").rules.minimum_tokens, 1024);
  EXPECT_FALSE(Row("openai", "gpt-6-nova").prices.has_value());
  EXPECT_EQ(Row("openai", "gpt-4o").rules.increment_tokens, 128);
  EXPECT_FALSE(Row("openai", "gpt-6.1-sol").prices.has_value());
  EXPECT_EQ(Row("openai", "gpt-6.1-sol").factors->read, 0.05);
  EXPECT_EQ(Row("openai", "gpt-6-sol").factors->read, 0.1);
}

TEST(PricesTest, MinimumsAreThoseOfTheNewestPages) {
  EXPECT_EQ(Row("anthropic", "claude-sonnet-5-5").rules.minimum_tokens, 512);
  EXPECT_EQ(Row("anthropic", "claude-haiku-5-5").rules.minimum_tokens, 512);
  EXPECT_EQ(Row("anthropic", "claude-sonnet-5").rules.minimum_tokens, 1024);
  EXPECT_EQ(Row("gemini", "gemini-2.5-pro").rules.minimum_tokens, 2048);
  EXPECT_EQ(Row("gemini", "gemini-2.5-flash").rules.minimum_tokens, 2048);
  EXPECT_EQ(Row("gemini", "gemini-3-flash-preview").rules.minimum_tokens, 1024);
  EXPECT_EQ(Row("gemini", "gemini-3.5-flash").rules.minimum_tokens, 4096);
}

TEST(PricesTest, WhatARequestCanAskOfACacheIsData) {
  const PriceRow& opus = Row("anthropic", "claude-opus-5-5");
  EXPECT_EQ(opus.rules.breakpoints, BreakpointSyntax::kCacheControl);
  EXPECT_EQ(opus.rules.ttl_long_seconds, 3600);
  EXPECT_TRUE(opus.rules.automatic_breakpoint);
  EXPECT_EQ(opus.factors->read, 0.05);
  EXPECT_EQ(opus.factors->write_long, 2);
  EXPECT_EQ(Row("anthropic", "claude-mythos-5-1").factors->read, 0.025);
  EXPECT_EQ(Row("anthropic", "claude-mythos-5").factors->read, 0.1);
  // Bedrock takes no breakpoint at the top level of a request.
  EXPECT_FALSE(Row("bedrock", "anthropic.claude-opus-4-7").rules.automatic_breakpoint);
  EXPECT_EQ(Row("anthropic", "a-clone").rules.ttl_long_seconds, 0) << "clones refuse it";

  const PriceRow& sol = Row("openai", "gpt-6-sol");
  EXPECT_EQ(sol.rules.breakpoints, BreakpointSyntax::kBreakpoint);
  EXPECT_TRUE(sol.rules.implicit_breakpoint);
  EXPECT_EQ(sol.rules.cache_key, CacheKeyUse::kMatched);
  EXPECT_EQ(sol.rules.key_characters_max, 64);
  EXPECT_EQ(sol.rules.key_requests_per_minute, 15);
  EXPECT_EQ(sol.rules.first_breakpoints_read, 2);
  EXPECT_EQ(sol.rules.last_breakpoints_read, 50);
  EXPECT_EQ(sol.rules.earlier_turns_read, 20);
  EXPECT_EQ(Row("mistral", "any").rules.cache_key, CacheKeyUse::kRequired);
  EXPECT_EQ(Row("openai", "gpt-5.5").rules.breakpoints, BreakpointSyntax::kNone);
  EXPECT_EQ(Row("openai", "gpt-4o").rules.cache_key, CacheKeyUse::kRouting);
  EXPECT_EQ(Row("openai", "mystery-7b").rules.cache_key, CacheKeyUse::kNone);

  EXPECT_EQ(Row("xai", "grok-5").rules.conversation_header, "x-grok-conv-id");
  EXPECT_TRUE(Row("xai", "grok-5").rules.key_of_conversation);
  EXPECT_EQ(Row("xai", "grok-5").factors->read, 0.25);
  EXPECT_TRUE(Row("deepseek", "deepseek-v4-flash").rules.unit_is_turn);
  EXPECT_TRUE(Row("deepseek", "deepseek-v4-flash").rules.tools_after_system);
  EXPECT_EQ(Row("moonshot", "kimi-k3").rules.ttl_seconds, 3600);
  EXPECT_EQ(Row("moonshot", "kimi-k3").factors->read, 0.1);
}

TEST(PricesTest, TheLocalEngineCostsNothing) {
  EXPECT_EQ(CostOf(Row("local", "any"), {.uncached_tokens = 5, .output_tokens = 9}, ""), Cost());
}

TEST(PricesTest, EveryRowNamesItsSourceAndDate) {
  for (const char* provider : {"anthropic", "openai", "deepseek", "xai", "moonshot", "local"}) {
    const PriceRow& row = Row(provider, "x");
    EXPECT_FALSE(row.source.empty());
    EXPECT_EQ(row.date.substr(0, 2), "20");
  }
  EXPECT_EQ(Prices::Builtin().date().substr(0, 2), "20");
}

class PriceFile {
 public:
  explicit PriceFile(const std::string& text) { std::ofstream(path_) << text; }
  const std::filesystem::path& path() const { return path_; }

 private:
  const TempFolder folder_;
  const std::filesystem::path path_ = folder_ / "prices.json";
};

TEST(PricesTest, TheUsersRowsStandInFront) {
  const PriceFile file(R"({"date": "2027-01-01", "providers": {
      "anthropic": [{"models": ["claude-opus-5"], "input": 1, "output": 2,
                     "cache_read_factor": 0.5, "cache_write_factor": 1,
                     "source": "a contract", "date": "2027-01-01"}],
      "mine": [{"models": ["*"], "source": "s", "date": "2027-01-01"}]}})");
  const Result<Prices> prices = Prices::Load(file.path());
  ASSERT_TRUE(prices.has_value()) << prices.error().ToString();
  EXPECT_EQ(prices->date(), "2027-01-01");
  EXPECT_EQ(prices->Find("anthropic", "claude-opus-5")->prices->cache_read, 500'000);
  EXPECT_EQ(prices->Find("anthropic", "claude-opus-5")->rules.breakpoints_max, 4)
      << "a contract about prices says nothing of caches";
  EXPECT_EQ(prices->Find("anthropic", "claude-opus-4-1")->prices->input, 15'000'000);
  EXPECT_NE(prices->Find("openai", "gpt-6-sol"), nullptr);
  EXPECT_NE(prices->Find("mine", "any"), nullptr);
}

TEST(PricesTest, AWrongFileIsRefusedAndTheFieldNamed) {
  const auto detail = [](const std::string& rows) {
    const Result<Prices> prices =
        Prices::Parse(R"({"date": "d", "providers": {"p": [)" + rows + "]}}", "own.json");
    return prices ? "" : prices.error().detail;
  };
  const std::string ends = R"(, "source": "s", "date": "d"})";
  EXPECT_EQ(detail(R"({"models": ["a"])" + ends), "");
  EXPECT_EQ(detail(R"({"models": ["a"], "inptu": 3)" + ends),
            "own.json: unknown key 'providers.p[0].inptu'");
  EXPECT_EQ(detail(R"({"models": ["a"], "input": "3")" + ends),
            "own.json: 'providers.p[0].input' must be a number from 0 to 1000");
  EXPECT_NE(detail(R"({"models": ["a"], "input": 3, "output": 1)" + ends).find("a price needs"),
            std::string::npos);
  EXPECT_EQ(detail(R"({"models": ["a"], "cache_read_factor": 0.1)" + ends),
            "own.json: a factor needs 'providers.p[0].cache_read_factor' and "
            "'providers.p[0].cache_write_factor'");
  EXPECT_EQ(detail(R"({"models": ["a"], "rules": {"markers": "both"})" + ends),
            "own.json: 'providers.p[0].rules.markers' must be one of: cache_control, breakpoint");
  EXPECT_EQ(detail(R"({"models": ["a"], "rules": {"automatic_marker": 1})" + ends),
            "own.json: 'providers.p[0].rules.automatic_marker' must be true or false");
  EXPECT_NE(detail(R"({"models": "a")" + ends).find("'providers.p[0].models'"), std::string::npos);
  EXPECT_NE(detail(R"({"models": ["a"], "rules": {"minimum": 1})" + ends)
                .find("'providers.p[0].rules.minimum'"),
            std::string::npos);
  EXPECT_NE(detail(R"({"models": ["a"]})").find("'providers.p[0].source'"), std::string::npos);
  EXPECT_FALSE(Prices::Parse("nonsense", "own.json").has_value());
  EXPECT_FALSE(Prices::Parse("{}", "own.json").has_value());
  EXPECT_EQ(Prices::Load("not/there.json").error().field, "ledger.prices");
}

TEST(PricesTest, GlobsAreStarsAndQuestionMarks) {
  EXPECT_TRUE(FitsGlob("*", ""));
  EXPECT_TRUE(FitsGlob("a*c*e", "abcdcde"));
  EXPECT_TRUE(FitsGlob("*b?d*", "abcde"));
  EXPECT_FALSE(FitsGlob("a?", "a"));
  EXPECT_FALSE(FitsGlob("", "a"));
  EXPECT_FALSE(FitsGlob("a*b", "abc"));
  EXPECT_FALSE(FitsGlob("GPT*", "gpt-6"));
}

TEST(PricesTest, ModelsThatBindThinkingToThePrefixAreData) {
  const auto binds = [](std::string_view model) {
    return Prices::Builtin().Find("anthropic", model)->binds_thinking;
  };
  for (const char* model : {"claude-opus-5-5", "claude-sonnet-5-5", "claude-fable-5-1"}) {
    EXPECT_TRUE(binds(model)) << model;
  }
  for (const char* model : {"claude-opus-5", "claude-sonnet-5", "claude-fable-5",
                            "claude-haiku-5-5", "claude-opus-4-8"}) {
    EXPECT_FALSE(binds(model)) << model;
  }
}

TEST(PricesTest, TurnsOfTheSystemsOwnAreData) {
  const auto turn_of = [](std::string_view provider, std::string_view model) {
    return Prices::Builtin().Find(provider, model)->system_turn;
  };
  for (const char* model : {"claude-opus-5-5", "claude-sonnet-5-5-20260901", "claude-fable-5-1"}) {
    EXPECT_EQ(turn_of("anthropic", model), SystemTurn::kClearAt) << model;
  }
  for (const char* model : {"claude-opus-5", "claude-opus-4-8", "claude-mythos-5"}) {
    EXPECT_EQ(turn_of("anthropic", model), SystemTurn::kPlain) << model;
  }
  for (const char* model : {"claude-sonnet-5", "claude-haiku-5-5", "claude-haiku-4-5", "other"}) {
    EXPECT_EQ(turn_of("anthropic", model), SystemTurn::kNone) << model;
  }
  for (const char* model : {"gpt-6-sol", "gpt-5.6-codex", "gpt-5.5", "gpt-4.1", "o3"}) {
    EXPECT_EQ(turn_of("openai", model), SystemTurn::kDeveloper) << model;
  }
  // Servers of the same dialect have models of such names, and they may refuse it.
  for (const char* model : {"gpt-oss-120b", "qwen3", "m"}) {
    EXPECT_EQ(turn_of("openai", model), SystemTurn::kNone) << model;
  }
  EXPECT_EQ(turn_of("deepseek", "deepseek-v4"), SystemTurn::kNone);
  EXPECT_EQ(turn_of("bedrock", "anthropic.claude-opus-5"), SystemTurn::kNone);
}

TEST(PricesTest, AnOwnRowKeepsTheTurnOfTheBuiltinOne) {
  const PriceFile file(R"({"date": "2026-11-26", "providers": {"anthropic": [
    {"models": ["claude-opus-5-5*"], "source": "a contract", "date": "2026-11"}]}})");
  const Result<Prices> prices = Prices::Load(file.path());
  ASSERT_TRUE(prices) << prices.error().detail;
  EXPECT_EQ(prices->Find("anthropic", "claude-opus-5-5")->system_turn, SystemTurn::kClearAt);
}

TEST(PricesTest, CachesUnderANameCostRentByTheHour) {
  for (const char* model : {"gemini-2.5-pro", "gemini-3-flash-preview", "gemini-9"}) {
    EXPECT_GT(Prices::Builtin().Find("gemini", model)->factors->rent_hour, 0) << model;
  }
  EXPECT_EQ(Prices::Builtin().Find("anthropic", "claude-opus-5")->factors->rent_hour, 0);
  // A contract's row keeps the rent of the built-in one, unless it has its own.
  const PriceFile file(R"({"date": "2026-11-28", "providers": {"gemini": [
    {"models": ["gemini-2.5-pro"], "input": 1.25, "output": 10, "cache_read_factor": 0.1,
     "cache_write_factor": 1, "source": "s", "date": "2026-11"},
    {"models": ["gemini-2.5-flash"], "input": 0.3, "output": 2.5, "cache_read_factor": 0.1,
     "cache_write_factor": 1, "cache_rent_hour_factor": 2, "source": "s", "date": "2026-11"}]}})");
  const Result<Prices> prices = Prices::Load(file.path());
  ASSERT_TRUE(prices) << prices.error().detail;
  const PriceRow& pro = *prices->Find("gemini", "gemini-2.5-pro");
  EXPECT_EQ(pro.factors->rent_hour, 3.6);
  // A million tokens for half an hour, of $4.50 an hour.
  EXPECT_EQ(RentOf(pro, 1'000'000, 1'800), 2'250'000'000);
  EXPECT_EQ(prices->Find("gemini", "gemini-2.5-flash")->factors->rent_hour, 2);
  EXPECT_EQ(RentOf(*Prices::Builtin().Find("gemini", "gemini-2.5-pro"), 1'000, 60), 0)
      << "its price is not known";
}

}  // namespace
}  // namespace kvgate::ledger
