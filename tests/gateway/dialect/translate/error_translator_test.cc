#include "gateway/dialect/translate/error_translator.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "gateway/dialect/reply_translator.h"

namespace kvgate::dialect::translate {
namespace {

using dialect::form::Dialect;
using nlohmann::json;

struct Told {
  int status;
  json error;
};
Told Told_(int status, const std::string& body, Dialect to) {
  const TranslatedError told = TranslateError(ReadErrorBody(status, body), to, "9");
  return {told.status, json::parse(told.body)["error"]};
}

TEST(ErrorTranslatorTest, AnthropicsErrorsInTheWordsOfOpenAi) {
  const auto told = [](int status, const std::string& type) {
    return Told_(status, R"({"type":"error","error":{"type":")" + type + R"(","message":"Why"}})",
                 Dialect::kChatCompletions);
  };
  EXPECT_EQ(told(529, "overloaded_error").status, 503);
  EXPECT_EQ(told(529, "overloaded_error").error["message"], "Why");
  EXPECT_EQ(told(429, "rate_limit_error").error["code"], "rate_limit_exceeded");
  EXPECT_EQ(told(401, "authentication_error").error["code"], "invalid_api_key");
  EXPECT_EQ(told(400, "invalid_request_error").error["type"], "invalid_request_error");
  EXPECT_EQ(told(500, "api_error").error["type"], "server_error");
}

TEST(ErrorTranslatorTest, OpenAisErrorsInTheWordsOfAnthropic) {
  const auto told = [](int status, const std::string& code) {
    return Told_(status,
                 R"({"error":{"message":"Why","type":"x","param":null,"code":")" + code + "\"}}",
                 Dialect::kMessages);
  };
  EXPECT_EQ(told(429, "insufficient_quota").error["type"], "rate_limit_error");
  EXPECT_EQ(told(503, "").error["type"], "overloaded_error");
  EXPECT_EQ(told(404, "model_not_found").error["type"], "not_found_error");
  EXPECT_EQ(told(422, "").error["type"], "invalid_request_error");
  EXPECT_EQ(told(502, "").error["type"], "api_error");
}

TEST(ErrorTranslatorTest, APromptThatIsTooLongIsSaidInTheWordsByWhichClientsCompact) {
  const Told chat = Told_(400,
                          R"({"type":"error","error":{"type":"invalid_request_error",)"
                          R"("message":"prompt is too long: 9 tokens > 8 maximum"}})",
                          Dialect::kChatCompletions);
  EXPECT_EQ(chat.error["code"], "context_length_exceeded");
  const Told messages =
      Told_(400, R"({"error":{"message":"Too many tokens","code":"context_length_exceeded"}})",
            Dialect::kMessages);
  EXPECT_EQ(messages.error["message"], "prompt is too long: Too many tokens");
}

TEST(ErrorTranslatorTest, AnOverflowKeepsItsNumbersInEachDialectsWords) {
  const auto told = [](const std::string& message, Dialect to, const std::string& code = "") {
    const json body = {{"error", {{"message", message}, {"type", "x"}, {"code", code}}}};
    return Told_(400, body.dump(), to).error;
  };
  const std::string openai =
      "This model's maximum context length is 8192 tokens. However, your messages resulted in 9001 "
      "tokens. Please reduce the length of the messages.";
  const std::string anthropic = "prompt is too long: 9001 tokens > 8192 maximum";
  EXPECT_EQ(told(openai, Dialect::kMessages, "context_length_exceeded")["message"], anthropic);
  EXPECT_EQ(told(anthropic, Dialect::kChatCompletions)["message"], openai);
  const json responses = told(anthropic, Dialect::kResponses);
  EXPECT_EQ(responses["code"], "context_length_exceeded");
  EXPECT_TRUE(responses["message"].get<std::string>().starts_with(
      "Your input exceeds the context window of this model."));
  // Some servers send another code, or none.
  EXPECT_EQ(told("This model's maximum context length is 100 tokens. However, you requested 120 "
                 "tokens (90 in the messages, 30 in the completion).",
                 Dialect::kMessages)["message"],
            "prompt is too long: 120 tokens > 100 maximum");
  EXPECT_EQ(
      told("Your input exceeds the context window of this model.", Dialect::kMessages)["message"],
      "prompt is too long: Your input exceeds the context window of this model.");
  EXPECT_EQ(told("input length and `max_tokens` exceed context limit: 9 + 5 > 10",
                 Dialect::kResponses)["code"],
            "context_length_exceeded");
  EXPECT_EQ(told("Why", Dialect::kMessages)["message"], "Why");
}

TEST(ErrorTranslatorTest, WhateverTheBodyIsThereIsAnError) {
  for (const std::string body :
       {"", "<html>", "[1]", "{\"error\":\"Plain\"}", "{\"message\":\"M\"}", "\xff"}) {
    const Told told = Told_(500, body, Dialect::kMessages);
    EXPECT_FALSE(told.error["message"].get<std::string>().empty());
  }
  EXPECT_EQ(Told_(500, "{\"error\":\"Plain\"}", Dialect::kMessages).error["message"], "Plain");
}

TEST(ErrorTranslatorTest, OfAnErrorAmongEventsTheTypeTellsTheStatus) {
  const auto status = [](const std::string& text) {
    const auto value = RawJson::Parse(text);
    return ReadError(0, RawObject(*value)).status;
  };
  EXPECT_EQ(status(R"({"type":"rate_limit_error"})"), 429);
  EXPECT_EQ(status(R"({"code":"rate_limit_exceeded"})"), 429);
  EXPECT_EQ(status(R"({"type":"overloaded_error"})"), 503);
  EXPECT_EQ(status(R"({"type":"server_error"})"), 500);
  EXPECT_EQ(status(R"({"type":"invalid_request_error"})"), 400);
  EXPECT_EQ(status("{}"), 500);
}

}  // namespace
}  // namespace kvgate::dialect::translate
