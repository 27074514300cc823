#include "gateway/ledger/request_record.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace kvgate::ledger {
namespace {

using Json = nlohmann::json;

RequestRecord FullRecord() {
  RequestRecord record;
  record.id = "id1";
  record.time_us = 1'790'000'000'123'456;
  record.endpoint = upstream::Endpoint::kMessages;
  record.dialect = upstream::Dialect::kAnthropic;
  record.path = "/v1/messages";
  record.upstream = "main";
  record.provider = "anthropic";
  record.model = "claude-opus-5";
  record.status = 200;
  record.stream = true;
  record.timings = {.queue_us = 0, .first_byte_us = 10, .ttft_us = 20, .total_us = 30};
  record.received_sha256 = PrefixDigest{.bytes = {0xab, 0x01}};
  record.sent_sha256 = record.received_sha256;
  record.edits = {"cache_control"};
  record.reported.Set(UsageField::kInputTokens, 3);
  record.reported.Set(UsageField::kCacheCreation1h, 4);
  record.usage = TokenUsage{.uncached_tokens = 3, .cache_write_1h_tokens = 4};
  record.cost = Cost{.nanodollars = 55, .uncached_nanodollars = 35};
  record.price_date = "2026-10";
  return record;
}

TEST(RequestRecordTest, IsOneJsonObjectWithWhatIsKnown) {
  const Json json = Json::parse(RecordJson(FullRecord()));
  EXPECT_EQ(json["id"], "id1");
  EXPECT_EQ(json["time_us"], 1'790'000'000'123'456);
  EXPECT_EQ(json["dialect"], "anthropic");
  EXPECT_EQ(json["endpoint"], "messages");
  EXPECT_EQ(json["outcome"], "complete");
  EXPECT_EQ(json["timings"],
            Json::parse(R"({"queue_us":0,"first_byte_us":10,"ttft_us":20,"total_us":30})"));
  EXPECT_EQ(json["sha256"]["sent"], "ab01" + std::string(60, '0'));
  EXPECT_EQ(json["edits"], Json::array({"cache_control"}));
  EXPECT_EQ(json["usage"]["input_tokens"], 7);
  EXPECT_EQ(json["usage"]["reported"],
            Json::parse(R"({"input_tokens":3,"cache_creation.ephemeral_1h_input_tokens":4})"));
  EXPECT_EQ(json["cost"]["nanodollars"], 55);
  EXPECT_FALSE(json.contains("error"));
}

TEST(RequestRecordTest, WhatIsNotKnownIsNullAndSaysWhy) {
  RequestRecord record;
  record.usage_unknown = "encoded";
  const Json json = Json::parse(RecordJson(record));
  EXPECT_TRUE(json["usage"].is_null());
  EXPECT_EQ(json["usage_unknown"], "encoded");
  EXPECT_TRUE(json["cost"].is_null());
  EXPECT_TRUE(json["timings"].empty());
  EXPECT_TRUE(json["sha256"].empty());
}

TEST(RequestRecordTest, ItsSizeIsBoundedWhateverACallerSends) {
  RequestRecord record = FullRecord();
  record.model = std::string(1 << 20, '"');
  record.path = std::string(1 << 20, '\xff');
  record.error = std::string(1 << 20, '\1');
  const std::string encoded = RecordJson(record);
  EXPECT_LT(encoded.size(), 16'000u);
  EXPECT_TRUE(Json::accept(encoded));
}

}  // namespace
}  // namespace kvgate::ledger
