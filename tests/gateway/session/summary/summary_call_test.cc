#include "gateway/session/summary/summary_call.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/gateway/session/session_turns.h"

namespace kvgate::session::summary {
namespace {

using nlohmann::json;
using test::Said;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

class SummaryCallTest : public ::testing::Test {
 protected:
  Call Make(Dialect dialect, std::string_view body, std::string_view model = {},
            bool only_part = false) {
    return MakeCall({.dialect = dialect,
                     .body = body,
                     .frame = frame,
                     .messages = messages,
                     .folded = std::span(messages).first(2),
                     .prompt = prompt,
                     .tokens_max = 100,
                     .kept_from = "b\n\"b\"",
                     .model = model,
                     .only_part = only_part});
  }

  const SummaryPrompt prompt;
  transcript::Frame frame{.system = {}, .tools = R"([{"t":1}])", .head = {Said("system", "s")}};
  std::vector<Message> messages = {Said("user", "a"), Said("assistant", "A"), Said("user", "b"),
                                   Said("assistant", "B")};
};

TEST_F(SummaryCallTest, ItIsTheLastRequestWithOneMessageMore) {
  const std::string body =
      R"({"model":"m","seed":7,"tools":[{"t":1}],"tool_choice":"auto","reasoning_effort":"high",)"
      R"("max_tokens":9,"stream":true,"stream_options":{},"stop":"x","messages":[]})";
  const Call call = Make(Dialect::kChatCompletions, body);
  EXPECT_TRUE(call.is_whole);
  // What a prompt is made of is the same bytes up to the new message.
  EXPECT_THAT(call.body,
              StartsWith(R"({"model":"m","seed":7,"tools":[{"t":1}],"tool_choice":"auto",)"
                         R"("reasoning_effort":"high","max_tokens":100,"stream":false,"messages":[)"
                         R"({"role":"system","content":"s"},{"role":"user","content":"a"},)"
                         R"({"role":"assistant","content":"A"},{"role":"user","content":"b"},)"
                         R"({"role":"assistant","content":"B"},{"role":"user","content":")"));
  const json sent = json::parse(call.body);
  EXPECT_EQ(sent["messages"].size(), 6u);
  EXPECT_THAT(sent["messages"][5]["content"].get<std::string>(), HasSubstr("\"b  b \""));
  EXPECT_FALSE(sent.contains("stop"));
  EXPECT_FALSE(sent.contains("stream_options"));
}

TEST_F(SummaryCallTest, ThinkingDoesNotCountAgainstTheSummary) {
  frame.head.clear();
  const Call call =
      Make(Dialect::kMessages, R"({"model":"m","max_tokens":9,"thinking":{"type":"enabled",)"
                               R"("budget_tokens":1024},"stop_sequences":["x"],"messages":[]})");
  const json sent = json::parse(call.body);
  EXPECT_EQ(sent["max_tokens"], 1124);
  EXPECT_EQ(sent["thinking"]["budget_tokens"], 1024);
  EXPECT_EQ(sent["messages"].back()["content"][0]["type"], "text");
  EXPECT_FALSE(sent.contains("stop_sequences"));
}

TEST_F(SummaryCallTest, AResponseIsNotStoredForIt) {
  frame.head.clear();
  const Call call = Make(Dialect::kResponses, R"({"model":"m","store":true,"input":"x"})");
  const json sent = json::parse(call.body);
  EXPECT_EQ(sent["store"], false);
  EXPECT_EQ(sent["max_output_tokens"], 100);
  EXPECT_EQ(sent["input"].size(), 5u);
}

TEST_F(SummaryCallTest, OnlyTheFoldedPartIsSentWhereTheAnswerWouldBeNoSummary) {
  const std::vector<std::string> bodies = {
      R"({"model":"m","tool_choice":"required","messages":[]})",
      R"({"model":"m","tool_choice":{"type":"function"},"messages":[]})",
      R"({"model":"m","tool_choice":{"type":"any"},"messages":[]})",
      R"({"model":"m","response_format":{"type":"json_object"},"messages":[]})",
      R"({"model":"m","output_config":{"format":{"type":"json_schema"}},"messages":[]})",
      R"({"model":"m","text":{"format":{"type":"json_schema"}},"messages":[]})"};
  for (const std::string& body : bodies) {
    const Call call = Make(Dialect::kChatCompletions, body);
    EXPECT_FALSE(call.is_whole) << body;
    const json sent = json::parse(call.body);
    EXPECT_EQ(sent.size(), 3u) << call.body;
    EXPECT_EQ(sent["model"], "m");
    EXPECT_EQ(sent["max_completion_tokens"], 100);
    const std::string asked = sent["messages"][0]["content"];
    EXPECT_THAT(asked, HasSubstr("User: a\nAssistant: A\n</part>"));
    EXPECT_THAT(asked, Not(HasSubstr("Assistant: B")));
  }
  for (const char* body : {R"({"tool_choice":"none","messages":[]})",
                           R"({"tool_choice":{"type":"auto"},"messages":[]})",
                           R"({"response_format":{"type":"text"},"messages":[]})"}) {
    EXPECT_TRUE(Make(Dialect::kChatCompletions, body).is_whole) << body;
  }
}

TEST_F(SummaryCallTest, AnotherModelOrAFailureGetThePartToo) {
  const std::string body = R"({"model":"m","max_tokens":4,"messages":[]})";
  EXPECT_FALSE(Make(Dialect::kChatCompletions, body, {}, /*only_part=*/true).is_whole);
  const Call other = Make(Dialect::kChatCompletions, body, "small");
  EXPECT_FALSE(other.is_whole);
  EXPECT_EQ(json::parse(other.body)["model"], "small");
  EXPECT_EQ(json::parse(other.body)["max_tokens"], 100);
}

TEST_F(SummaryCallTest, AnAnswerWhoseCallIsOpenIsLeftOutAndTheRestReadsTheCache) {
  const std::string body = R"({"model":"m","max_tokens":4,"messages":[]})";
  messages.back().json = R"({"role":"assistant","content":null,"tool_calls":[{"id":"1",)"
                         R"("type":"function","function":{"name":"f","arguments":"{}"}}]})";
  const Call call = Make(Dialect::kChatCompletions, body);
  EXPECT_TRUE(call.is_whole);
  const json sent = json::parse(call.body)["messages"];
  ASSERT_EQ(sent.size(), 5u) << sent;
  EXPECT_EQ(sent[3]["content"], "b");
  EXPECT_THAT(sent[4]["content"].get<std::string>(), HasSubstr("Summarise"));
  // In Responses an answer has several items, and a call need not be the last.
  frame.head.clear();
  messages.back().json = R"({"type":"function_call","call_id":"c","name":"f","arguments":"{}"})";
  messages.push_back(Said("assistant", "I look."));
  const Call items = Make(Dialect::kResponses, R"({"model":"m","input":"x"})");
  EXPECT_TRUE(items.is_whole);
  EXPECT_EQ(json::parse(items.body)["input"].size(), 4u) << items.body;
  // Once the result has come, all of it is sent.
  messages.push_back(Said("tool", "found"));
  EXPECT_EQ(
      json::parse(Make(Dialect::kResponses, R"({"model":"m","input":"x"})").body)["input"].size(),
      7u);
}

std::string ChatAnswer(std::string_view message, std::string_view reason) {
  return R"({"model":"m-1","choices":[{"index":0,"message":)" + std::string(message) +
         R"(,"finish_reason":")" + std::string(reason) +
         R"("}],"usage":{"prompt_tokens":50,"completion_tokens":6,"prompt_tokens_details":)"
         R"({"cached_tokens":40}},"kvgate":{"cost":{"nanodollars":12}}})";
}

TEST(SummaryAnswerTest, ItsTextModelTokensAndCostAreRead) {
  const auto read =
      ReadAnswer(Dialect::kChatCompletions,
                 ChatAnswer(R"({"role":"assistant","content":"\n a\nb\n"})", "stop"), 100);
  ASSERT_TRUE(read) << read.error().detail;
  EXPECT_EQ(read->text, "a\nb");
  EXPECT_EQ(read->model, "m-1");
  EXPECT_EQ(read->tokens.input, 50);
  EXPECT_EQ(read->tokens.cached, 40);
  EXPECT_EQ(read->nanodollars, 12);
}

TEST(SummaryAnswerTest, WhatIsTooLongIsCut) {
  const auto read = ReadAnswer(
      Dialect::kChatCompletions,
      ChatAnswer(R"({"role":"assistant","content":"one two\nthree four"})", "length"), 4);
  ASSERT_TRUE(read) << read.error().detail;
  EXPECT_EQ(read->text, "one two");
}

TEST(SummaryAnswerTest, WhatIsNoSummaryIsRefused) {
  const std::string call =
      R"({"role":"assistant","content":"x","tool_calls":[{"id":"1","type":"function",)"
      R"("function":{"name":"f","arguments":"{}"}}]})";
  const std::vector<std::pair<std::string, std::string>> cases = {
      {ChatAnswer(call, "tool_calls"), "calls a tool"},
      {ChatAnswer(R"({"role":"assistant","content":" \n"})", "stop"), "is empty"},
      {R"({"error":{"message":"no"}})", "not complete"},
      {"{", "not complete"}};
  for (const auto& [body, why] : cases) {
    const auto refused = ReadAnswer(Dialect::kChatCompletions, body, 100);
    ASSERT_FALSE(refused) << body;
    EXPECT_THAT(refused.error().detail, HasSubstr(why));
  }
}

}  // namespace
}  // namespace kvgate::session::summary
