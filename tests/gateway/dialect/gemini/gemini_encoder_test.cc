// Answers in Gemini's dialect, of the engine and of other dialects' servers.
#include "gateway/dialect/gemini/gemini_encoder.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/base64.h"

namespace kvgate::dialect::gemini {
namespace {

using form::DeltaKind;
using form::FinishReason;
using nlohmann::json;

std::vector<json> Events(const std::string& bytes) {
  std::vector<json> events;
  for (size_t at = 0; (at = bytes.find("data: ", at)) != std::string::npos;) {
    at += 6;
    events.push_back(json::parse(bytes.substr(at, bytes.find("\n\n", at) - at)));
  }
  return events;
}

std::string Encoded(reply::ReplyOptions options) {
  options.dialect = form::Dialect::kGemini;
  options.request_id = "r1";
  options.model = "m";
  const auto encoder = MakeGeminiEncoder(options);
  std::string out;
  encoder->OnStart({.num_prompt_tokens = 10, .num_cached_tokens = 4}, out);
  encoder->OnDelta({.kind = DeltaKind::kReasoning, .text = "Hm."}, out);
  encoder->OnDelta({.kind = DeltaKind::kReasoning, .seal = "kvgate-thinking:S:Hm."}, out);
  encoder->OnDelta({.kind = DeltaKind::kText, .text = "Hi"}, out);
  encoder->OnDelta({.kind = DeltaKind::kCall, .text = "f", .call_id = "c1"}, out);
  encoder->OnDelta({.kind = DeltaKind::kArguments, .text = "{\"a\":"}, out);
  encoder->OnDelta({.kind = DeltaKind::kArguments, .text = "1}"}, out);
  encoder->OnDelta({.kind = DeltaKind::kCallEnd}, out);
  form::FinishEvent finish{.reason = FinishReason::kToolCalls};
  finish.stats.num_prompt_tokens = 10;
  finish.stats.num_cached_tokens = 4;
  finish.stats.num_output_tokens = 7;
  finish.stats.num_reasoning_tokens = 2;
  encoder->OnFinish(finish, out);
  return out;
}

void ExpectUsage(const json& usage) {
  EXPECT_EQ(usage["promptTokenCount"], 10);
  EXPECT_EQ(usage["cachedContentTokenCount"], 4);
  EXPECT_EQ(usage["candidatesTokenCount"], 5);
  EXPECT_EQ(usage["thoughtsTokenCount"], 2);
  EXPECT_EQ(usage["totalTokenCount"], 17);
}

TEST(GeminiEncoderTest, OneBody) {
  const json body = json::parse(Encoded({}));
  const json& candidate = body["candidates"][0];
  const json& parts = candidate["content"]["parts"];
  ASSERT_EQ(parts.size(), 3U);
  EXPECT_EQ(parts[0], json::parse(R"({"text":"Hm.","thought":true})"));
  EXPECT_EQ(parts[1]["text"], "Hi");
  EXPECT_EQ(parts[1]["thoughtSignature"], EncodeBase64("kvgate-thinking:S:Hm."));
  EXPECT_EQ(parts[2]["functionCall"], json::parse(R"({"id":"c1","name":"f","args":{"a":1}})"));
  EXPECT_EQ(candidate["finishReason"], "STOP");
  EXPECT_EQ(candidate["content"]["role"], "model");
  EXPECT_EQ(body["modelVersion"], "m");
  EXPECT_EQ(body["responseId"], "r1");
  ExpectUsage(body["usageMetadata"]);
}

TEST(GeminiEncoderTest, AStreamSaysTheSame) {
  const std::vector<json> events = Events(Encoded({.stream = true}));
  ASSERT_EQ(events.size(), 4U);
  std::vector<json> parts;
  for (const json& event : events) {
    for (const json& part : event["candidates"][0]["content"]["parts"]) parts.push_back(part);
  }
  const json whole = json::parse(Encoded({}));
  EXPECT_EQ(json(parts), whole["candidates"][0]["content"]["parts"]);
  EXPECT_FALSE(events[0]["candidates"][0].contains("finishReason"));
  EXPECT_EQ(events.back()["candidates"][0]["finishReason"], "STOP");
  ExpectUsage(events.back()["usageMetadata"]);
}

TEST(GeminiEncoderTest, ThoughtsAreShownToThoseWhoAsk) {
  const json body = json::parse(Encoded({.thoughts = false}));
  const json& parts = body["candidates"][0]["content"]["parts"];
  ASSERT_EQ(parts.size(), 2U);
  EXPECT_EQ(parts[0]["text"], "Hi");
  // What a provider wants back is given out all the same.
  EXPECT_TRUE(parts[0].contains("thoughtSignature"));
}

TEST(GeminiEncoderTest, AnErrorInAStream) {
  const auto encoder = MakeGeminiEncoder({.dialect = form::Dialect::kGemini, .stream = true});
  std::string out;
  form::FinishEvent finish;
  finish.error = MakeError(ErrorCode::kOverloaded, "engine", "busy");
  encoder->OnFinish(finish, out);
  const json event = Events(out).at(0);
  EXPECT_EQ(event["error"]["code"], 503);
  EXPECT_EQ(event["error"]["status"], "UNAVAILABLE");
}

TEST(GeminiEncoderTest, APingIsAChunkWithoutAWord) {
  const auto encoder = MakeGeminiEncoder({.dialect = form::Dialect::kGemini, .stream = true});
  const std::vector<json> events = Events(std::string(encoder->ping()));
  ASSERT_EQ(events.size(), 1U);
  EXPECT_EQ(events[0]["candidates"][0]["content"]["parts"][0]["text"], "");
}

TEST(GeminiEncoderTest, CountsOfTokens) {
  EXPECT_EQ(json::parse(EncodeTotalTokens(5))["totalTokens"], 5);
}

}  // namespace
}  // namespace kvgate::dialect::gemini
