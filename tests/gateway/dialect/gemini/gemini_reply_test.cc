// Answers of Gemini's servers, in other dialects.
#include "gateway/dialect/gemini/gemini_reply.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "base/base64.h"
#include "gateway/dialect/gemini/call_signature.h"
#include "gateway/dialect/reply_translator.h"

namespace kvgate::dialect::gemini {
namespace {

using form::Dialect;
using nlohmann::json;
using testing::HasSubstr;
using End = ReplyTranslator::End;

struct Told {
  std::string bytes;
  End end;
};

Told Translate(Dialect to, const std::string& bytes, bool events) {
  auto translator = ReplyTranslator::Make({.from = Dialect::kGemini,
                                           .events = events,
                                           .reply = {.dialect = to,
                                                     .request_id = "7",
                                                     .model = "asked",
                                                     .stream = events,
                                                     .include_usage = true}});
  Told told{.bytes = {}, .end = End::kCut};
  for (const char byte : bytes) translator->Feed(std::string_view(&byte, 1), told.bytes);
  told.end = translator->Finish(told.bytes);
  return told;
}

constexpr const char* kBody = R"({"candidates":[{"content":{"role":"model","parts":[
    {"text":"Hm.","thought":true},{"text":"Hello"},
    {"functionCall":{"name":"f","args":{"a":1}},"thoughtSignature":"c2ln"}]},
    "finishReason":"STOP","index":0}],"modelVersion":"gemini-3-pro",
    "usageMetadata":{"promptTokenCount":100,"cachedContentTokenCount":60,
    "candidatesTokenCount":5,"thoughtsTokenCount":3,"totalTokenCount":108}})";

TEST(GeminiReplyTest, AWholeAnswer) {
  const Told told = Translate(Dialect::kChatCompletions, kBody, false);
  ASSERT_EQ(told.end, End::kWhole);
  const json body = json::parse(told.bytes);
  const json& message = body["choices"][0]["message"];
  EXPECT_EQ(body["model"], "gemini-3-pro");
  EXPECT_EQ(message["content"], "Hello");
  EXPECT_EQ(message["reasoning_content"], "Hm.");
  EXPECT_EQ(body["choices"][0]["finish_reason"], "tool_calls");
  const json& call = message["tool_calls"][0];
  EXPECT_EQ(call["function"]["arguments"], R"({"a":1})");
  EXPECT_EQ(SplitCallId(call["id"].get<std::string>()).signature, "c2ln");
  EXPECT_EQ(body["usage"]["prompt_tokens"], 100);
  EXPECT_EQ(body["usage"]["prompt_tokens_details"]["cached_tokens"], 60);
  EXPECT_EQ(body["usage"]["completion_tokens"], 8);
  EXPECT_EQ(body["usage"]["completion_tokens_details"]["reasoning_tokens"], 3);
}

TEST(GeminiReplyTest, AStreamWhoseCountsComeLast) {
  const std::string events =
      "data: {\"candidates\":[{\"content\":{\"parts\":[{\"text\":\"Hel\"}]},\"index\":0}],"
      "\"modelVersion\":\"m\"}\r\n\r\n"
      "data: {\"candidates\":[{\"content\":{\"parts\":[{\"text\":\"lo\"}]},\"index\":0,"
      "\"finishReason\":\"MAX_TOKENS\"}]}\r\n\r\n"
      "data: {\"usageMetadata\":{\"promptTokenCount\":9,\"candidatesTokenCount\":2}}\r\n\r\n";
  const Told told = Translate(Dialect::kMessages, events, true);
  EXPECT_EQ(told.end, End::kWhole);
  EXPECT_THAT(told.bytes, HasSubstr(R"("text":"Hel")"));
  EXPECT_THAT(told.bytes, HasSubstr(R"("stop_reason":"max_tokens")"));
  EXPECT_THAT(told.bytes, HasSubstr(R"("output_tokens":2)"));
}

TEST(GeminiReplyTest, AStreamWithoutAnEndIsCut) {
  const Told told = Translate(
      Dialect::kChatCompletions,
      "data: {\"candidates\":[{\"content\":{\"parts\":[{\"text\":\"Hel\"}]}}]}\n\n", true);
  EXPECT_EQ(told.end, End::kCut);
}

TEST(GeminiReplyTest, RefusalsAndErrors) {
  const Told refused =
      Translate(Dialect::kChatCompletions, R"({"promptFeedback":{"blockReason":"SAFETY"}})", false);
  ASSERT_EQ(refused.end, End::kWhole);
  EXPECT_EQ(json::parse(refused.bytes)["choices"][0]["finish_reason"], "content_filter");
  const Told failed = Translate(
      Dialect::kMessages,
      "data: {\"error\":{\"code\":503,\"message\":\"busy\",\"status\":\"UNAVAILABLE\"}}\n\n", true);
  EXPECT_EQ(failed.end, End::kFailed);
  EXPECT_THAT(failed.bytes, HasSubstr("overloaded_error"));
  const Told nothing = Translate(Dialect::kChatCompletions, R"({"x":1})", false);
  EXPECT_EQ(nothing.end, End::kFailed);
}

}  // namespace
}  // namespace kvgate::dialect::gemini
