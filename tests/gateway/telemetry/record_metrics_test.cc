#include "gateway/telemetry/record_metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <random>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

namespace kvgate::telemetry {
namespace {

using ledger::RequestRecord;
using ledger::reply::TokenUsage;
using ::testing::HasSubstr;
using ::testing::Not;

RequestRecord Forwarded(std::string upstream = "main") {
  RequestRecord record;
  record.endpoint = dialect::form::Endpoint::kMessages;
  record.upstream = std::move(upstream);
  record.status = 200;
  record.stream = true;
  record.timings = {.queue_us = 10'000,
                    .first_byte_us = 400'000,
                    .ttft_us = 510'000,
                    .total_us = 1'510'000,
                    .decode_us = 1'000'000,
                    .tpot_us = 20'000};
  record.usage = TokenUsage{.uncached_tokens = 10,
                            .cache_read_tokens = 900,
                            .cache_write_tokens = 90,
                            .output_tokens = 51};
  record.attribution = {{.source = "tools", .cached = 500},
                        {.source = "history", .cached = 400, .written = 90, .uncached = 3},
                        {.source = "user", .uncached = 7}};
  return record;
}

struct Fixture {
  metrics::Registry registry;
  metrics::GatewayMetrics metrics{registry};
};

// The sum over all series of a family.
uint64_t SumOf(const std::string& text, const std::string& family) {
  std::istringstream lines(text);
  uint64_t sum = 0;
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with(family + "{")) sum += std::stoull(line.substr(line.rfind(' ') + 1));
  }
  return sum;
}

TEST(RecordMetricsTest, TokensOfAForwardedRequestCountBySourceStateAndTier) {
  Fixture at;
  CountRecord(Forwarded(), at.metrics);
  const std::string text = at.registry.Text();
  for (const char* line : {"kvgate_prompt_tokens_total{source=\"tools\",state=\"cached\"} 500\n",
                           "kvgate_prompt_tokens_total{source=\"history\",state=\"cached\"} 400\n",
                           "kvgate_prompt_tokens_total{source=\"history\",state=\"written\"} 90\n",
                           "kvgate_prompt_tokens_total{source=\"history\",state=\"uncached\"} 3\n",
                           "kvgate_prompt_tokens_total{source=\"user\",state=\"uncached\"} 7\n",
                           "kvgate_prompt_tokens_by_tier_total{tier=\"upstream\"} 900\n",
                           "kvgate_prompt_tokens_by_tier_total{tier=\"compute\"} 100\n",
                           "kvgate_generation_tokens_total 51\n"}) {
    EXPECT_THAT(text, HasSubstr(line));
  }
}

TEST(RecordMetricsTest, TimesOfAForwardedStreamAreObserved) {
  Fixture at;
  CountRecord(Forwarded(), at.metrics);
  const std::string text = at.registry.Text();
  for (const char* line : {"kvgate_ttft_seconds_sum{upstream=\"main\"} 0.51\n",
                           "kvgate_queue_seconds_sum{upstream=\"main\"} 0.01\n",
                           "kvgate_prefill_seconds_sum{upstream=\"main\"} 0.5\n",
                           "kvgate_decode_seconds_sum{upstream=\"main\"} 1\n",
                           "kvgate_tpot_seconds_sum{upstream=\"main\"} 0.02\n",
                           "kvgate_completion_seconds_sum{upstream=\"main\"} 1.51\n",
                           "kvgate_prompt_length_tokens_sum{upstream=\"main\"} 1000\n"}) {
    EXPECT_THAT(text, HasSubstr(line));
  }
}

TEST(RecordMetricsTest, AnAnswerThatComesWholeHasNoFirstToken) {
  Fixture at;
  RequestRecord record = Forwarded();
  record.stream = false;
  record.timings.decode_us = record.timings.tpot_us = -1;
  CountRecord(record, at.metrics);
  const std::string text = at.registry.Text();
  EXPECT_THAT(text, HasSubstr("kvgate_ttft_seconds_count{upstream=\"main\"} 0\n"));
  EXPECT_THAT(text, HasSubstr("kvgate_tpot_seconds_count{upstream=\"main\"} 0\n"));
  EXPECT_THAT(text, HasSubstr("kvgate_completion_seconds_count{upstream=\"main\"} 1\n"));
}

TEST(RecordMetricsTest, WhatIsNotAnsweredSaysNothingOfSpeed) {
  for (const auto& [status, outcome] : std::vector<std::pair<int, const char*>>{
           {500, "complete"}, {200, "upstream_cut"}, {499, "client_left"}, {503, "refused"}}) {
    Fixture at;
    RequestRecord record = Forwarded();
    record.status = status;
    record.outcome = outcome;
    CountRecord(record, at.metrics);
    EXPECT_THAT(at.registry.Text(), Not(HasSubstr("kvgate_ttft_seconds_count{upstream=\"main\"}")))
        << outcome;
  }
}

TEST(RecordMetricsTest, TokensOfTheEngineCountByItsTiers) {
  Fixture at;
  RequestRecord record = Forwarded("local");
  record.tiers = ledger::TierTokens{.device = 500, .host = 300, .disk = 100, .computed = 100};
  CountRecord(record, at.metrics);
  const std::string text = at.registry.Text();
  for (const char* line : {"{tier=\"gpu\"} 500\n", "{tier=\"ram\"} 300\n", "{tier=\"disk\"} 100\n",
                           "{tier=\"upstream\"} 0\n", "{tier=\"compute\"} 100\n"}) {
    EXPECT_THAT(text, HasSubstr(std::string("kvgate_prompt_tokens_by_tier_total") + line));
  }
}

TEST(RecordMetricsTest, TimesOfTheEngineAreNotCountedTwice) {
  Fixture at;
  CountRecord(Forwarded("local"), at.metrics);
  EXPECT_THAT(at.registry.Text(), HasSubstr("kvgate_ttft_seconds_count{upstream=\"local\"} 0\n"));
}

TEST(RecordMetricsTest, APrefixThatAProviderDroppedCountsAsItsEviction) {
  Fixture at;
  RequestRecord record = Forwarded();
  record.prefix_break = ledger::RecordBreak{.cause = "ttl_lapsed"};
  CountRecord(record, at.metrics);
  EXPECT_THAT(at.registry.Text(),
              HasSubstr("kvgate_upstream_eviction_total{upstream=\"main\"} 0\n"));
  record.prefix_break->cause = "provider_miss";
  CountRecord(record, at.metrics);
  EXPECT_THAT(at.registry.Text(),
              HasSubstr("kvgate_upstream_eviction_total{upstream=\"main\"} 1\n"));
}

TEST(RecordMetricsTest, SumsOverSourcesAndOverTiersAreTheSumOfAllPromptsWhateverRecordsSay) {
  std::mt19937_64 random(20261126);
  Fixture at;
  int64_t sum = 0;
  const auto number = [&] { return static_cast<int64_t>(random() % 1000); };
  for (int i = 0; i < 500; ++i) {
    RequestRecord record = Forwarded(i % 3 == 0 ? "local" : "main");
    record.attribution.clear();
    if (i % 7 != 0) {
      record.usage = TokenUsage{.uncached_tokens = number(),
                                .cache_read_tokens = number(),
                                .cache_write_tokens = number(),
                                .cache_write_1h_tokens = number(),
                                .output_tokens = number()};
      sum += record.usage->input_tokens();
    } else {
      record.usage.reset();
    }
    // Tiers that do not sum to the prompt.
    if (i % 2 == 0) {
      record.tiers = ledger::TierTokens{
          .device = number(), .host = number() - 300, .disk = number(), .computed = number()};
    }
    // Attributions that say too little, too much, or of other sources.
    for (uint64_t j = random() % 4; j > 0; --j) {
      record.attribution.push_back({.source = j == 1 ? "unheard" : "tools",
                                    .cached = number() - 100,
                                    .written = number() - 100,
                                    .uncached = number()});
    }
    CountRecord(record, at.metrics);
  }
  const std::string text = at.registry.Text();
  EXPECT_EQ(SumOf(text, "kvgate_prompt_tokens_total"), static_cast<uint64_t>(sum));
  EXPECT_EQ(SumOf(text, "kvgate_prompt_tokens_by_tier_total"), static_cast<uint64_t>(sum));
}

}  // namespace
}  // namespace kvgate::telemetry
