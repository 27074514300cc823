#include "gateway/session/results/stub.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "base/utf8.h"

namespace kvgate::session::results {
namespace {

using transcript::Kind;
using Json = nlohmann::json;

std::string Lines(int num, const std::string& line) {
  std::string text;
  for (int i = 0; i < num; ++i) text += std::to_string(i) + " " + line + "\n";
  return text;
}

Message Tool(const Json& json) { return {.kind = Kind::kTool, .json = json.dump()}; }

TEST(StubTest, ALongResultIsKeptAndShowsItsBeginningAndItsEnd) {
  const std::string text = Lines(500, "a line of a log");
  std::vector<Message> messages = {
      {.kind = Kind::kUser, .json = R"({"role":"user","content":"Hi"})"},
      Tool({{"role", "tool"}, {"tool_call_id", "c1"}, {"content", text}})};
  const Message user = messages.front();
  std::vector<log::KeptResult> kept;
  StubResults(Dialect::kChatCompletions, 2048, messages, kept);
  ASSERT_EQ(kept.size(), 1u);
  EXPECT_EQ(kept[0].text, text);
  EXPECT_EQ(kept[0].id, IdOf(text));
  EXPECT_EQ(messages[0], user);
  const Json stubbed = Json::parse(messages[1].json);
  EXPECT_EQ(stubbed["tool_call_id"], "c1");
  const std::string stub = stubbed["content"];
  EXPECT_LE(stub.size(), 2048u);
  EXPECT_TRUE(stub.starts_with("0 a line of a log\n1 a line"));
  EXPECT_TRUE(stub.ends_with("499 a line of a log\n"));
  EXPECT_NE(stub.find(kept[0].id), std::string::npos);
}

TEST(StubTest, TheSameResultHasTheSameStubAndAStubIsNeverStubbed) {
  const Json message = {{"role", "tool"}, {"tool_call_id", "c"}, {"content", Lines(400, "x")}};
  std::vector<Message> once = {Tool(message)};
  std::vector<Message> twice = {Tool(message), Tool(message)};
  std::vector<log::KeptResult> kept;
  StubResults(Dialect::kChatCompletions, 1024, once, kept);
  StubResults(Dialect::kChatCompletions, 1024, twice, kept);
  EXPECT_EQ(kept.size(), 1u);
  EXPECT_EQ(once[0], twice[0]);
  EXPECT_EQ(once[0], twice[1]);
  const std::vector<Message> before = twice;
  StubResults(Dialect::kChatCompletions, 1024, twice, kept);
  EXPECT_EQ(twice, before);
}

TEST(StubTest, WhatIsNotLongerThanTheBoundStaysByteForByte) {
  const std::string text(1024, 'a');
  std::vector<Message> messages = {
      {.kind = Kind::kTool,
       .json = R"({ "role":"tool",  "tool_call_id":"c","content":")" + text + "\"}"}};
  const std::vector<Message> before = messages;
  std::vector<log::KeptResult> kept;
  StubResults(Dialect::kChatCompletions, 1024, messages, kept);
  EXPECT_EQ(messages, before);
  EXPECT_TRUE(kept.empty());
}

TEST(StubTest, TextsOfAListAreOneResultAndImagesStay) {
  const std::string half = Lines(200, "part");
  const Json image = {{"type", "image"}, {"source", {{"type", "base64"}, {"data", "AAAA"}}}};
  const Json content =
      Json::array({{{"type", "text"}, {"text", half}}, image, {{"type", "text"}, {"text", half}}});
  const Json short_result = {{"type", "tool_result"}, {"tool_use_id", "b"}, {"content", "short"}};
  std::vector<Message> messages = {
      Tool({{"role", "user"},
            {"content",
             Json::array({{{"type", "tool_result"}, {"tool_use_id", "a"}, {"content", content}},
                          short_result})}})};
  std::vector<log::KeptResult> kept;
  StubResults(Dialect::kMessages, 1500, messages, kept);
  ASSERT_EQ(kept.size(), 1u);
  EXPECT_EQ(kept[0].text, half + half);
  const Json blocks = Json::parse(messages[0].json)["content"];
  EXPECT_EQ(blocks[1], short_result);
  const Json changed = blocks[0]["content"];
  ASSERT_EQ(changed.size(), 2u);
  EXPECT_EQ(changed[1], image);
}

TEST(StubTest, ItemsOfResponsesHaveThem) {
  std::vector<Message> messages = {
      Tool({{"type", "function_call_output"}, {"call_id", "c"}, {"output", Lines(400, "item")}})};
  std::vector<log::KeptResult> kept;
  StubResults(Dialect::kResponses, 1024, messages, kept);
  ASSERT_EQ(kept.size(), 1u);
  EXPECT_LE(Json::parse(messages[0].json)["output"].get<std::string>().size(), 1024u);
}

TEST(StubTest, NoCharacterIsCutInTwo) {
  std::string text;
  for (int i = 0; i < 2000; ++i) text += "\xE2\x82\xAC";  // three bytes each
  for (size_t bound = 1024; bound < 1036; ++bound) {
    std::vector<Message> messages = {
        Tool({{"role", "tool"}, {"tool_call_id", "c"}, {"content", text}})};
    std::vector<log::KeptResult> kept;
    StubResults(Dialect::kChatCompletions, bound, messages, kept);
    const std::string stub = Json::parse(messages[0].json)["content"];
    EXPECT_EQ(stub.find("\xEF\xBF\xBD"), std::string::npos) << bound;
    EXPECT_TRUE(IsValidUtf8(stub));
  }
  EXPECT_EQ(PartOf(text, 1, 5), text.substr(3, 0));
  EXPECT_EQ(PartOf(text, 1, 6), "\xE2\x82\xAC");
}

}  // namespace
}  // namespace kvgate::session::results
