#include "gateway/local/engine_metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace kvgate::local {
namespace {

using ::testing::HasSubstr;

TEST(EngineMetricsTest, ATierHoldsWhatIsUsedAndWhatIsCached) {
  engine::EngineInfo info;
  info.num_kv_blocks = 100;
  info.kv_block_bytes = 1000;
  info.kv_groups = {{.num_blocks = 100, .block_bytes = 1000},
                    {.window = 128, .num_blocks = 20, .block_bytes = 500}};
  const auto tiers = EngineTiers(info, {.num_blocks_free = 75,
                                        .num_blocks_cached = 20,
                                        .num_blocks_used = 5,
                                        .num_window_blocks_free = 10,
                                        .num_window_blocks_cached = 10,
                                        .num_host_blocks = 7,
                                        .num_host_blocks_max = 50});
  ASSERT_EQ(tiers.size(), 2u);
  EXPECT_EQ(tiers[0].used_bytes, 25'000u + 5'000u);
  EXPECT_EQ(tiers[0].capacity_bytes, 110'000u);
  EXPECT_EQ(tiers[1].used_bytes, 7'000u);
  EXPECT_EQ(tiers[1].capacity_bytes, 50'000u);
  std::string text;
  metrics::TextWriter writer(text);
  CollectTiers(tiers, writer);
  EXPECT_THAT(text, HasSubstr("kvgate_kv_used_bytes{tier=\"gpu\"} 30000\n"));
  EXPECT_THAT(text, HasSubstr("kvgate_kv_capacity_bytes{tier=\"ram\"} 50000\n"));
  EXPECT_THAT(text, HasSubstr("kvgate_kv_utilization_ratio{tier=\"ram\"} 0.14\n"));
}

TEST(EngineMetricsTest, ATierThatThereIsNotIsEmpty) {
  std::string text;
  metrics::TextWriter writer(text);
  CollectTiers(EngineTiers({}, {}), writer);
  EXPECT_THAT(text, HasSubstr("kvgate_kv_utilization_ratio{tier=\"gpu\"} 0\n"));
  EXPECT_THAT(text, HasSubstr("kvgate_kv_capacity_bytes{tier=\"ram\"} 0\n"));
}

TEST(EngineMetricsTest, WhatMovesIsCountedInBytesAndSeconds) {
  std::string text;
  metrics::TextWriter writer(text);
  CollectEngine({.num_blocks_evicted = 3,
                 .num_window_blocks_evicted = 2,
                 .num_host_blocks_evicted = 4,
                 .moved = {.write_bytes = 4096,
                           .write_us = 1'500'000,
                           .load_bytes = 8192,
                           .load_us = 250'000}},
                writer);
  for (const char* line :
       {"kvgate_write_back_bytes_total 4096\n", "kvgate_write_back_seconds_total 1.5\n",
        "kvgate_load_back_bytes_total 8192\n", "kvgate_load_back_seconds_total 0.25\n",
        "kvgate_kv_evictions_total{tier=\"gpu\"} 5\n",
        "kvgate_kv_evictions_total{tier=\"ram\"} 4\n",
        "kvgate_engine_prompt_tokens_total{source=\"disk\"} 0\n"}) {
    EXPECT_THAT(text, HasSubstr(line));
  }
}

}  // namespace
}  // namespace kvgate::local
