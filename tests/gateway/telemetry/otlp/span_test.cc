#include "gateway/telemetry/otlp/span.h"

#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>
#include <string>

namespace kvgate::telemetry::otlp {
namespace {

using Json = nlohmann::json;
using ledger::RequestRecord;
using ledger::reply::TokenUsage;

RequestRecord Record() {
  RequestRecord record;
  record.id = "0123456789abcdef01234567";
  record.time_us = 1'700'000'000'000'001;
  record.endpoint = dialect::form::Endpoint::kMessages;
  record.upstream = "main";
  record.provider = "anthropic";
  record.model = "claude-x";
  record.answered_by = "claude-x-20261101";
  record.tenant = "team";
  record.conversation = std::string(32, 'c');
  record.status = 200;
  record.stream = true;
  record.timings = {.queue_us = 1000, .ttft_us = 500'000, .total_us = 1'500'000};
  record.usage = TokenUsage{.uncached_tokens = 1,
                            .cache_read_tokens = 20,
                            .cache_write_tokens = 300,
                            .cache_write_1h_tokens = 4000,
                            .output_tokens = 11,
                            .reasoning_tokens = 5};
  record.cost = ledger::Cost{.nanodollars = 2'500'000, .uncached_nanodollars = 9'000'000};
  return record;
}

Json JsonOf(const RequestRecord& record) {
  std::string text;
  dialect::form::JsonWriter json(text);
  WriteSpan(SpanOf(record).value(), json);
  return Json::parse(text);
}

std::map<std::string, Json> AttributesOf(const Json& span) {
  std::map<std::string, Json> found;
  for (const Json& attribute : span["attributes"]) {
    EXPECT_TRUE(found.emplace(attribute["key"], attribute["value"]).second) << attribute;
  }
  return found;
}

TEST(SpanTest, AttributesHaveTheNamesOfTheConventions) {
  const Json span = JsonOf(Record());
  EXPECT_EQ(span["traceId"], "00000000" + Record().id);
  EXPECT_EQ(span["spanId"], "89abcdef01234567");
  EXPECT_EQ(span["name"], "chat claude-x");
  EXPECT_EQ(span["kind"], 3);
  EXPECT_EQ(span["startTimeUnixNano"], "1700000000000001000");
  EXPECT_EQ(span["endTimeUnixNano"], "1700000001500001000");
  EXPECT_EQ(span["status"], Json::object());
  auto said = AttributesOf(span);
  const auto integer = [](const char* text) { return Json{{"intValue", text}}; };
  EXPECT_EQ(said["gen_ai.operation.name"], (Json{{"stringValue", "chat"}}));
  EXPECT_EQ(said["gen_ai.provider.name"], (Json{{"stringValue", "anthropic"}}));
  EXPECT_EQ(said["gen_ai.response.model"], (Json{{"stringValue", "claude-x-20261101"}}));
  EXPECT_EQ(said["gen_ai.conversation.id"], (Json{{"stringValue", std::string(32, 'c')}}));
  EXPECT_EQ(said["gen_ai.request.stream"], (Json{{"boolValue", true}}));
  EXPECT_EQ(said["gen_ai.response.time_to_first_chunk"], (Json{{"doubleValue", 0.5}}));
  EXPECT_EQ(said["gen_ai.usage.input_tokens"], integer("4321")) << "cached tokens included";
  EXPECT_EQ(said["gen_ai.usage.output_tokens"], integer("11"));
  EXPECT_EQ(said["gen_ai.usage.cache_read.input_tokens"], integer("20"));
  EXPECT_EQ(said["gen_ai.usage.cache_write.input_tokens"], integer("4300"));
  EXPECT_EQ(said["gen_ai.usage.cache_creation.input_tokens"], integer("4300"));
  EXPECT_EQ(said["gen_ai.usage.reasoning.output_tokens"], integer("5"));
  EXPECT_EQ(said["gen_ai.usage.cost"], (Json{{"doubleValue", 0.0025}}));
  EXPECT_FALSE(said.contains("error.type"));
}

TEST(SpanTest, ASessionsNameIsTheConversationsAndTheSystemPromptHasAName) {
  RequestRecord record = Record();
  record.session = "my-session";
  record.prompt = "00112233aabbccdd";
  auto said = AttributesOf(JsonOf(record));
  EXPECT_EQ(said["gen_ai.conversation.id"], (Json{{"stringValue", "my-session"}}));
  EXPECT_EQ(said["gen_ai.prompt.name"], (Json{{"stringValue", "00112233aabbccdd"}}));
  EXPECT_FALSE(said.contains("kvgate.prompt.version"));
  record.prompt_name = "support";
  record.prompt_version = "3";
  said = AttributesOf(JsonOf(record));
  EXPECT_EQ(said["gen_ai.prompt.name"], (Json{{"stringValue", "support"}}));
  EXPECT_EQ(said["kvgate.prompt.version"], (Json{{"stringValue", "3"}}));
}

TEST(SpanTest, AFailureHasItsTypeAndSentence) {
  RequestRecord record = Record();
  record.status = 503;
  record.outcome = "failed";
  record.error = "no connection";
  const Json span = JsonOf(record);
  EXPECT_EQ(AttributesOf(span)["error.type"], (Json{{"stringValue", "503"}}));
  EXPECT_EQ(span["status"], (Json{{"code", 2}, {"message", "no connection"}}));
  record.status = 200;
  record.outcome = "upstream_cut";
  EXPECT_EQ(AttributesOf(JsonOf(record))["error.type"], (Json{{"stringValue", "upstream_cut"}}));
}

TEST(SpanTest, TheEngineIsInThisProcess) {
  RequestRecord record = Record();
  record.upstream = record.provider = "local";
  record.stream = false;
  const Json span = JsonOf(record);
  EXPECT_EQ(span["kind"], 1);
  EXPECT_EQ(AttributesOf(span)["gen_ai.provider.name"], (Json{{"stringValue", "kvgate"}}));
  EXPECT_TRUE(AttributesOf(span).contains("gen_ai.response.time_to_first_chunk"));
}

TEST(SpanTest, AnAnswerThatComesWholeFromAnUpstreamHasNoFirstChunk) {
  RequestRecord record = Record();
  record.stream = false;
  EXPECT_FALSE(AttributesOf(JsonOf(record)).contains("gen_ai.response.time_to_first_chunk"));
}

TEST(SpanTest, OnlyRequestsForAModelAreSpans) {
  RequestRecord record = Record();
  for (const auto endpoint : {dialect::form::Endpoint::kModels, dialect::form::Endpoint::kOther,
                              dialect::form::Endpoint::kCountTokens}) {
    record.endpoint = endpoint;
    EXPECT_FALSE(SpanOf(record));
    EXPECT_FALSE(IsSpan(endpoint));
  }
  record.endpoint = dialect::form::Endpoint::kEmbeddings;
  EXPECT_EQ(SpanOf(record)->operation, "embeddings");
  EXPECT_TRUE(IsSpan(record.endpoint));
}

TEST(SpanTest, ACallersSpanIsTheParentAndItsTraceTheSpans) {
  RequestRecord record = Record();
  EXPECT_FALSE(JsonOf(record).contains("parentSpanId"));
  EXPECT_TRUE(SpanOf(record)->context.is_sampled());
  record.caller_trace = {
      .trace_id = std::string(32, 'a'), .span_id = std::string(16, 'b'), .flags = 0};
  const Json span = JsonOf(record);
  EXPECT_EQ(span["traceId"], std::string(32, 'a'));
  EXPECT_EQ(span["parentSpanId"], std::string(16, 'b'));
  EXPECT_EQ(span["spanId"], "89abcdef01234567");
  EXPECT_FALSE(SpanOf(record)->context.is_sampled());
}

TEST(SpanTest, AShortIdStillMakesATrace) {
  RequestRecord record = Record();
  record.id = "7";
  const Json span = JsonOf(record);
  EXPECT_EQ(span["traceId"], std::string(31, '0') + "7");
  EXPECT_EQ(span["spanId"], std::string(15, '0') + "7");
}

}  // namespace
}  // namespace kvgate::telemetry::otlp
