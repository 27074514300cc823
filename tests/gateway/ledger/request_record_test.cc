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
  record.endpoint = dialect::form::Endpoint::kMessages;
  record.dialect = dialect::form::Api::kAnthropic;
  record.path = "/v1/messages";
  record.upstream = "main";
  record.provider = "anthropic";
  record.model = "claude-opus-5";
  record.status = 200;
  record.stream = true;
  record.timings = {.queue_us = 0, .first_byte_us = 10, .ttft_us = 20, .total_us = 30};
  record.received_sha256 = PrefixDigest{.bytes = {0xab, 0x01}};
  record.sent_sha256 = record.received_sha256;
  record.edits = {{.rule = "cache_control", .count = 2}};
  record.reported.Set(reply::UsageField::kInputTokens, 3);
  record.reported.Set(reply::UsageField::kCacheCreation1h, 4);
  record.usage = reply::TokenUsage{.uncached_tokens = 3, .cache_write_1h_tokens = 4};
  record.cost = Cost{.nanodollars = 55, .uncached_nanodollars = 35, .direct_nanodollars = 75};
  record.price_date = "2026-10";
  record.mode = "stabilize";
  record.conversation = "00112233445566778899aabbccddeeff";
  record.conversation_origin = "metadata.user_id";
  record.plan = RecordPlan{.reason = "expected reuse", .expected_reuse = 3.5, .num_breakpoints = 4};
  record.prefix_break = RecordBreak{.cause = "system_changed",
                                    .path = "system[1].text",
                                    .volatile_kind = "time",
                                    .before = "10:01",
                                    .after = "10:02",
                                    .verdict = "Move it.",
                                    .reusable_tokens = 10,
                                    .lost_tokens = 20,
                                    .lost_nanodollars = 30};
  record.attribution = {{.source = "tools", .cached = 1, .written = 2, .uncached = 3}};
  record.provider_reason = "system_changed";
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
  EXPECT_EQ(json["edits"], Json::parse(R"([{"rule":"cache_control","count":2}])"));
  EXPECT_EQ(json["usage"]["input_tokens"], 7);
  EXPECT_EQ(json["usage"]["reported"],
            Json::parse(R"({"input_tokens":3,"cache_creation.ephemeral_1h_input_tokens":4})"));
  EXPECT_EQ(json["cost"]["nanodollars"], 55);
  EXPECT_EQ(json["cost"]["direct_nanodollars"], 75);
  EXPECT_FALSE(json.contains("error"));
}

TEST(RequestRecordTest, ShowsHowItWasPreparedAndWhyItsPrefixBroke) {
  const Json json = Json::parse(RecordJson(FullRecord()));
  EXPECT_EQ(json["mode"], "stabilize");
  EXPECT_EQ(json["conversation"], Json::parse(R"({"id":"00112233445566778899aabbccddeeff",)"
                                              R"("origin":"metadata.user_id"})"));
  EXPECT_EQ(json["plan"],
            Json::parse(R"({"reason":"expected reuse","expected_reuse":3.5,"markers":4})"));
  EXPECT_EQ(json["break"],
            Json::parse(R"({"cause":"system_changed","path":"system[1].text","before":"10:01",)"
                        R"("volatile_kind":"time","after":"10:02","reusable_tokens":10,)"
                        R"("lost_tokens":20,"lost_nanodollars":30,"verdict":"Move it."})"));
  EXPECT_EQ(json["attribution"],
            Json::parse(R"({"tools":{"cached":1,"written":2,"uncached":3,"nanodollars":0}})"));
  EXPECT_EQ(json["provider_reason"], "system_changed");
  const Json plain = Json::parse(RecordJson(RequestRecord()));
  for (const char* name : {"mode", "conversation", "plan", "break", "attribution"}) {
    EXPECT_FALSE(plain.contains(name)) << name << " of a request that was not prepared";
  }
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

RequestRecord HugeRecord() {
  RequestRecord record = FullRecord();
  record.model = std::string(1 << 20, '"');
  record.path = std::string(1 << 20, '\xff');
  record.error = std::string(1 << 20, '\1');
  record.edits.assign(10'000, {.rule = std::string(5'000, '\1'), .count = 1});
  record.prefix_break->path = record.prefix_break->after = std::string(1 << 20, '\1');
  record.attribution.assign(10'000, {.source = std::string(1'000, '\1')});
  record.mode = record.conversation = std::string(1 << 20, '\1');
  record.provider_reason = std::string(1 << 20, '\1');
  return record;
}

TEST(RequestRecordTest, ItsSizeIsBoundedWhateverACallerSends) {
  const std::string encoded = RecordJson(HugeRecord());
  EXPECT_LT(encoded.size(), 64'000u) << "each byte becomes at most six";
  EXPECT_TRUE(Json::accept(encoded));
}

TEST(RequestRecordTest, ABoundedRecordShowsTheSame) {
  RequestRecord record = HugeRecord();
  BoundRecord(record);
  EXPECT_TRUE(RecordJson(record) == RecordJson(HugeRecord()));
  EXPECT_EQ(record.model.size(), kRecordTextBytesMax);
  EXPECT_EQ(record.prefix_break->path.size(), kRecordTextBytesMax);
  EXPECT_EQ(record.edits.size(), kRecordEditsMax);
  EXPECT_EQ(record.attribution.size(), kRecordSourcesMax);
  EXPECT_EQ(record.attribution[0].source.size(), kRecordNameBytesMax);
}

}  // namespace
}  // namespace kvgate::ledger
