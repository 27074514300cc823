#include "gateway/ledger/reply/usage.h"

#include <gtest/gtest.h>

#include <initializer_list>
#include <utility>

namespace kvgate::ledger::reply {
namespace {

using dialect::form::Endpoint;
using Field = UsageField;

ReportedUsage Reported(std::initializer_list<std::pair<Field, int64_t>> counts) {
  ReportedUsage usage;
  for (const auto& [field, value] : counts) usage.Set(field, value);
  return usage;
}

TEST(UsageTest, AnInclusiveCountContainsWhatTheCacheDid) {
  const auto usage = Normalize(Reported({{Field::kPromptTokens, 2006},
                                         {Field::kCompletionTokens, 300},
                                         {Field::kPromptCached, 1920},
                                         {Field::kPromptCacheWrite, 64},
                                         {Field::kCompletionReasoning, 128}}),
                               Endpoint::kChatCompletions);
  EXPECT_EQ(usage, (TokenUsage{.uncached_tokens = 22,
                               .cache_read_tokens = 1920,
                               .cache_write_tokens = 64,
                               .output_tokens = 300,
                               .reasoning_tokens = 128}));
  EXPECT_EQ(usage->input_tokens(), 2006);
}

TEST(UsageTest, AnExclusiveCountDoesNot) {
  const auto usage = Normalize(Reported({{Field::kInputTokens, 3},
                                         {Field::kCacheCreation, 12304},
                                         {Field::kCacheRead, 0},
                                         {Field::kOutputTokens, 550}}),
                               Endpoint::kMessages);
  EXPECT_EQ(usage,
            (TokenUsage{.uncached_tokens = 3, .cache_write_tokens = 12304, .output_tokens = 550}));
  EXPECT_EQ(usage->input_tokens(), 12307);
}

TEST(UsageTest, WritesAreSplitByLifetimeAndWhatIsLeftIsShort) {
  const auto usage = Normalize(Reported({{Field::kInputTokens, 10},
                                         {Field::kCacheCreation, 700},
                                         {Field::kCacheCreation5m, 148},
                                         {Field::kCacheCreation1h, 500},
                                         {Field::kOutputTokens, 1}}),
                               Endpoint::kMessages);
  EXPECT_EQ(usage->cache_write_1h_tokens, 500);
  EXPECT_EQ(usage->cache_write_tokens, 200);
  const auto broken_down = Normalize(
      Reported({{Field::kInputTokens, 10}, {Field::kCacheCreation5m, 148}}), Endpoint::kMessages);
  EXPECT_EQ(broken_down->cache_write_tokens, 148);
}

TEST(UsageTest, ResponsesCountTheSameWayUnderOtherNames) {
  const auto usage = Normalize(Reported({{Field::kInputTokens, 5000},
                                         {Field::kOutputTokens, 20},
                                         {Field::kInputCached, 4608},
                                         {Field::kOutputReasoning, 8}}),
                               Endpoint::kResponses);
  EXPECT_EQ(usage, (TokenUsage{.uncached_tokens = 392,
                               .cache_read_tokens = 4608,
                               .output_tokens = 20,
                               .reasoning_tokens = 8}));
}

TEST(UsageTest, HitsAndMissesAreTheWholePrompt) {
  const auto usage = Normalize(
      Reported({{Field::kCacheHit, 960}, {Field::kCacheMiss, 40}, {Field::kCompletionTokens, 5}}),
      Endpoint::kChatCompletions);
  EXPECT_EQ(usage,
            (TokenUsage{.uncached_tokens = 40, .cache_read_tokens = 960, .output_tokens = 5}));
}

TEST(UsageTest, CacheCountsOfAnotherDialectInAChatAnswerAreNotLost) {
  const auto usage = Normalize(Reported({{Field::kPromptTokens, 1500},
                                         {Field::kCompletionTokens, 7},
                                         {Field::kCacheRead, 1000},
                                         {Field::kCacheCreation, 300}}),
                               Endpoint::kChatCompletions);
  EXPECT_EQ(usage->uncached_tokens, 200);
  EXPECT_EQ(usage->cache_read_tokens, 1000);
  EXPECT_EQ(usage->cache_write_tokens, 300);
}

TEST(UsageTest, APartLargerThanItsWholeShowsAnExclusiveCount) {
  const auto usage = Normalize(
      Reported(
          {{Field::kPromptTokens, 3}, {Field::kPromptCached, 1000}, {Field::kCompletionTokens, 7}}),
      Endpoint::kChatCompletions);
  EXPECT_EQ(usage->uncached_tokens, 3);
  EXPECT_EQ(usage->input_tokens(), 1003);
}

TEST(UsageTest, AnUnknownEndpointIsTakenByItsNames) {
  const auto exclusive = Normalize(
      Reported({{Field::kInputTokens, 3000}, {Field::kCacheRead, 1000}, {Field::kOutputTokens, 1}}),
      Endpoint::kOther);
  EXPECT_EQ(exclusive->input_tokens(), 4000);
  const auto inclusive = Normalize(
      Reported(
          {{Field::kInputTokens, 3000}, {Field::kInputCached, 1000}, {Field::kOutputTokens, 1}}),
      Endpoint::kOther);
  EXPECT_EQ(inclusive->input_tokens(), 3000);
}

TEST(UsageTest, NothingReportedIsNotZero) {
  EXPECT_EQ(Normalize(ReportedUsage(), Endpoint::kMessages), std::nullopt);
  EXPECT_EQ(Normalize(Reported({{Field::kTotalTokens, 5}}), Endpoint::kCompletions), std::nullopt);
  EXPECT_NE(Normalize(Reported({{Field::kPromptTokens, 0}}), Endpoint::kEmbeddings), std::nullopt);
}

TEST(UsageTest, MergingKeepsTheLargerOfEachField) {
  ReportedUsage merged = Reported({{Field::kInputTokens, 25}, {Field::kOutputTokens, 1}});
  merged.MergeMax(Reported({{Field::kOutputTokens, 90}, {Field::kCacheRead, 0}}));
  merged.MergeMax(Reported({{Field::kInputTokens, 0}}));
  EXPECT_EQ(merged.Get(Field::kInputTokens), 25);
  EXPECT_EQ(merged.Get(Field::kOutputTokens), 90);
  EXPECT_EQ(merged.Get(Field::kCacheRead), 0);
  EXPECT_EQ(merged.Get(Field::kCacheCreation), std::nullopt);
}

TEST(UsageTest, WhatIsNoCountStaysAbsent) {
  ReportedUsage usage;
  usage.Set(Field::kInputTokens, -1);
  usage.Set(Field::kOutputTokens, int64_t{1} << 60);
  EXPECT_TRUE(usage.empty());
  EXPECT_EQ(UsageFieldName(Field::kCacheCreation1h), "cache_creation.ephemeral_1h_input_tokens");
}

}  // namespace
}  // namespace kvgate::ledger::reply
