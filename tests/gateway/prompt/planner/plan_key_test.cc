#include "gateway/prompt/planner/plan_key.h"

#include <gtest/gtest.h>

#include <vector>

namespace kvgate::prompt::planner {
namespace {

const ledger::CacheRules& Rules() {
  return ledger::Prices::Builtin().Find("openai", "gpt-6-sol")->rules;
}

TEST(PlanKeyTest, AKeyFitsWhatTheProviderTakesAndNamesItsShard) {
  const parse::Identity of{0x1234, 0x5678};
  for (const size_t shard : {size_t{0}, size_t{7}, kKeyShardsMax - 1}) {
    const std::string key = MakeKey(of, shard, Rules());
    EXPECT_LE(key.size(), 64U);
    EXPECT_EQ(ShardOf(key), shard);
    EXPECT_NE(key.find(ToHex(of)), std::string::npos);
  }
  ledger::CacheRules narrow = Rules();
  narrow.key_characters_max = 16;
  EXPECT_EQ(MakeKey(of, 12, narrow).size(), 16U);
  EXPECT_EQ(ShardOf(MakeKey(of, 12, narrow)), 12U);
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
