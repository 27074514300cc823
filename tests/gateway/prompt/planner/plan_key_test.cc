#include "gateway/prompt/planner/plan_key.h"

#include <gtest/gtest.h>

#include <vector>

namespace kvgate::prompt::planner {
namespace {

const ledger::CacheRules& Rules(std::string_view provider, std::string_view model) {
  return ledger::Prices::Builtin().Find(provider, model)->rules;
}

constexpr parse::Identity kOf{0x1234, 0x5678};

TEST(PlanKeyTest, AKeyFitsWhatTheProviderTakesAndNamesItsShard) {
  ledger::CacheRules rules = Rules("openai", "gpt-5.5");
  const std::string key = MakeKey({.of = kOf, .shard = kKeyShardsMax - 1}, rules);
  EXPECT_LE(key.size(), 64U);
  EXPECT_NE(key.find(ToHex(kOf)), std::string::npos);
  EXPECT_TRUE(key.ends_with("-63"));
  EXPECT_NE(key, MakeKey({.of = kOf, .shard = 1}, rules));
  rules.key_characters_max = 16;
  EXPECT_EQ(MakeKey({.of = kOf, .shard = 12}, rules).size(), 16U);
}

TEST(PlanKeyTest, AKeyIsMadeOnlyWhereItPartsNothing) {
  const auto key = [](std::string_view provider, std::string_view model, size_t shard) {
    return MakeKey({.of = kOf, .shard = shard}, Rules(provider, model));
  };
  EXPECT_EQ(key("openai", "gpt-5.5", 0), "") << "requests that are sent directly have none either";
  EXPECT_NE(key("openai", "gpt-5.5", 1), "");
  EXPECT_EQ(key("openai", "gpt-6-sol", 1), "") << "its entries are not found under another key";
  EXPECT_NE(key("mistral", "any", 0), "") << "without a key it caches nothing";
  EXPECT_NE(MakeKey({.of = kOf, .is_own = true}, Rules("xai", "grok-5")), "");
}

TEST(PlanKeyTest, ShardsFillOneAfterTheOtherAndAreUsedAgain) {
  std::vector<RateMeter> shards;
  std::vector<size_t> picked;
  for (int i = 0; i < 31; ++i) {
    picked.push_back(PickShard(shards, 15, 0));
    shards[picked.back()].Add(0);
  }
  EXPECT_EQ(picked[14], 0U);
  EXPECT_EQ(picked[15], 1U);
  EXPECT_EQ(picked[30], 2U);
  EXPECT_EQ(PickShard(shards, 15, 600'000'000), 0U) << "ten minutes later there is room again";
}

TEST(PlanKeyTest, TheNumberOfShardsIsBounded) {
  std::vector<RateMeter> shards;
  for (size_t i = 0; i < 100 * kKeyShardsMax; ++i) shards[PickShard(shards, 15, 0)].Add(0);
  EXPECT_EQ(shards.size(), kKeyShardsMax);
  EXPECT_NEAR(shards.front().At(0), 100, 1) << "the load is even";
}

TEST(PlanKeyTest, WithoutALimitThereIsOneShard) {
  std::vector<RateMeter> shards;
  for (int i = 0; i < 100; ++i) {
    EXPECT_EQ(PickShard(shards, 0, 0), 0U);
    shards[0].Add(0);
  }
}

}  // namespace
}  // namespace kvgate::prompt::planner
