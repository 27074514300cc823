#include "gateway/ledger/record_rollup.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>

namespace kvgate::ledger {
namespace {

using rollup::By;
using rollup::Entry;

RequestRecord Record() {
  RequestRecord record;
  record.time_us = 5'000'000;
  record.upstream = "main";
  record.provider = "anthropic";
  record.model = "claude-3-7-sonnet-20250219";
  record.tenant = "t";
  record.key = "k";
  record.session = "s";
  record.prompt = "0123456789abcdef";
  record.conversation = "c";
  record.status = 200;
  record.timings = {.first_byte_us = 1'000'000, .ttft_us = 700, .decode_us = 900, .tpot_us = 100};
  record.usage = reply::TokenUsage{.uncached_tokens = 40,
                                   .cache_read_tokens = 50,
                                   .cache_write_tokens = 10,
                                   .output_tokens = 10};
  record.cost = Cost{.nanodollars = 7, .uncached_nanodollars = 9, .direct_nanodollars = 8};
  record.attribution = {{.source = "tools", .cached = 50, .written = 10, .nanodollars = 6},
                        {.source = "user", .uncached = 40, .nanodollars = 1}};
  record.segments = {
      {.source = "tools", .name = "mcp__gh__a", .server = "gh", .cached = 20},
      {.source = "tools", .name = "mcp__gh__b", .server = "gh", .cached = 30, .written = 10},
      {.source = "user", .uncached = 40}};
  return record;
}

const Entry::Part* PartOf(const Entry& entry, By by, std::string_view name) {
  for (const Entry::Part& part : entry.parts) {
    if (part.by == by && part.name == name) return &part;
  }
  return nullptr;
}

TEST(RecordRollupTest, ARequestCountsUnderEachOfItsNames) {
  const Entry entry = EntryOf(Record());
  EXPECT_EQ(entry.whole.requests, 1);
  EXPECT_EQ(entry.whole.cached_tokens, 50);
  EXPECT_EQ(entry.whole.written_tokens, 10);
  EXPECT_EQ(entry.whole.uncached_nanodollars, 9);
  EXPECT_EQ(entry.whole.direct_nanodollars, 8);
  EXPECT_EQ(entry.whole.decoded_tokens, 9);
  EXPECT_EQ(entry.whole.ttft.count(), 1);
  EXPECT_EQ(entry.names.size(), 6U);
  RequestRecord named = Record();
  named.prompt_name = "support";
  named.prompt_version = "3";
  EXPECT_EQ(EntryOf(named).names.back(), std::pair(By::kPromptVersion, std::string("support@3")));
  EXPECT_EQ(PartOf(entry, By::kSource, "user")->bucket.uncached_tokens, 40);
  EXPECT_EQ(PartOf(entry, By::kTool, "mcp__gh__b")->bucket.nanodollars, 4);
  EXPECT_EQ(PartOf(entry, By::kServer, "gh")->bucket.cached_tokens, 50);
}

TEST(RecordRollupTest, ARefusalCountsUnderNoModelAndHasNoTimes) {
  RequestRecord record = Record();
  record.outcome = "refused";
  record.status = 404;
  const Entry entry = EntryOf(record);
  EXPECT_EQ(entry.whole.failed, 1);
  EXPECT_TRUE(entry.whole.ttft.empty());
  EXPECT_NE(
      std::find(entry.names.begin(), entry.names.end(), std::pair(By::kModel, std::string("none"))),
      entry.names.end());
}

TEST(RecordRollupTest, ABreakCountsUnderItsCauseAndNoBreakDoesNot) {
  RequestRecord record = Record();
  record.prefix_break = RecordBreak{.cause = "ttl", .lost_tokens = 5, .lost_nanodollars = 2};
  const Entry entry = EntryOf(record);
  EXPECT_EQ(PartOf(entry, By::kBreak, "ttl")->bucket.lost_tokens, 5);
  EXPECT_EQ(entry.whole.breaks, 1);
  record.prefix_break->cause = "none";
  EXPECT_EQ(EntryOf(record).whole.breaks, 0);
}

TEST(RecordRollupTest, AnAnswersCacheIsWarmForItsLifetimeAndTellsWhatColdCosts) {
  const RequestRecord record = Record();
  const PriceRow* row = Prices::Builtin().Find(record.provider, record.model);
  ASSERT_NE(row, nullptr);
  const auto cache = WarmCacheOf(record, row);
  ASSERT_TRUE(cache);
  EXPECT_EQ(cache->tokens, 60);
  // Five minutes after the answer began.
  EXPECT_EQ(cache->expires_us, 5'000'000 + 1'000'000 + 300'000'000);
  // Sixty tokens written for 3.75 dollars a million instead of read for 0.30.
  EXPECT_EQ(cache->cold_nanodollars, 60 * 3'450);
}

TEST(RecordRollupTest, WhatIsNotCachedHasNoClock) {
  const PriceRow* row = Prices::Builtin().Find("anthropic", "claude-3-7-sonnet-20250219");
  RequestRecord record = Record();
  record.usage = reply::TokenUsage{.uncached_tokens = 500};
  EXPECT_FALSE(WarmCacheOf(record, row)) << "nothing was written";
  record = Record();
  record.conversation.clear();
  EXPECT_FALSE(WarmCacheOf(record, row));
  record = Record();
  record.status = 500;
  EXPECT_FALSE(WarmCacheOf(record, row));
  EXPECT_FALSE(WarmCacheOf(Record(), nullptr));
}

}  // namespace
}  // namespace kvgate::ledger
