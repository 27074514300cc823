// These tests cover tools of the OpenAI dialects that the others lack, and the billing header,
// which no model needs.
#include "gateway/dialect/translate/openai_fields.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "gateway/dialect/request_translator.h"

namespace kvgate::dialect::translate {
namespace {

using dialect::form::Dialect;
using nlohmann::json;

constexpr Dialect kChat = Dialect::kChatCompletions;
constexpr Dialect kResponses = Dialect::kResponses;
constexpr Dialect kMessages = Dialect::kMessages;

json Made(Dialect from, Dialect to, const std::string& body) {
  const auto made = TranslateRequest({.from = from, .to = to, .body = body});
  if (!made) throw std::runtime_error(made.error().ToString());
  return json::parse(made->body);
}

// Other dialects have only functions: a custom tool becomes a function with one argument, and a
// namespace becomes a part of the name.
TEST(OpenAiFieldsTest, CustomToolsAndNamespacesBecomeFunctions) {
  const std::string body =
      R"({"model":"m","tools":[{"type":"custom","name":"patch","description":"Edits.","format":)"
      R"({"type":"grammar","syntax":"lark","definition":"start: \"x\""}}],"input":[)"
      R"({"type":"additional_tools","role":"developer","tools":[{"type":"namespace",)"
      R"("name":"agents","tools":[{"type":"function","name":"spawn"}]},)"
      R"({"type":"custom","name":"patch"}]},{"role":"user","content":"Hi"},)"
      R"({"type":"custom_tool_call","call_id":"1","name":"patch","input":"a\n\"b\""},)"
      R"({"type":"custom_tool_call_output","call_id":"1","output":"ok"},)"
      R"({"type":"function_call","call_id":"2","name":"spawn","namespace":"agents",)"
      R"("arguments":"{}"},{"type":"function_call_output","call_id":"2","output":"ok"}]})";
  const json messages = Made(kResponses, kMessages, body);
  ASSERT_EQ(messages["tools"].size(), 2u);
  EXPECT_EQ(messages["tools"][0]["name"], "patch");
  EXPECT_NE(messages["tools"][0]["description"].get<std::string>().find("start: \"x\""),
            std::string::npos);
  EXPECT_EQ(messages["tools"][0]["input_schema"]["required"], json::array({"input"}));
  EXPECT_EQ(messages["tools"][1]["name"], "agents__spawn");
  EXPECT_EQ(messages["messages"][1]["content"][0]["input"], (json{{"input", "a\n\"b\""}}));
  EXPECT_EQ(messages["messages"][3]["content"][0]["name"], "agents__spawn");
  const json chat = Made(kResponses, kChat, body);
  EXPECT_EQ(chat["tools"][0]["function"]["name"], "patch");
  EXPECT_EQ(
      json::parse(chat["messages"][1]["tool_calls"][0]["function"]["arguments"].get<std::string>()),
      (json{{"input", "a\n\"b\""}}));
  const auto translated = TranslateRequest({.from = kResponses, .to = kChat, .body = body});
  ASSERT_TRUE(translated);
  EXPECT_EQ(translated->tools.size(), 2u);
  const json other = Made(
      kChat, kMessages,
      R"({"model":"m","tools":[{"type":"custom","custom":{"name":"patch"}}],"tool_choice":)"
      R"({"type":"custom","custom":{"name":"patch"}},"messages":[{"role":"user","content":"Hi"},)"
      R"({"role":"assistant","tool_calls":[{"id":"1","type":"custom","custom":{"name":"patch",)"
      R"("input":"x"}}]},{"role":"tool","tool_call_id":"1","content":"ok"}]})");
  EXPECT_EQ(other["tool_choice"]["name"], "patch");
  EXPECT_EQ(other["messages"][1]["content"][0]["input"], (json{{"input", "x"}}));
}

TEST(OpenAiFieldsTest, WhatFollowsTheBillingHeaderStays) {
  const std::string body =
      R"({"model":"m","max_tokens":9,"system":"x-anthropic-billing-header: cch=1;\nSys",)"
      R"("messages":[{"role":"user","content":"Hi"}]})";
  EXPECT_EQ(Made(kMessages, kChat, body)["messages"][0]["content"], "Sys");
}

}  // namespace
}  // namespace kvgate::dialect::translate
