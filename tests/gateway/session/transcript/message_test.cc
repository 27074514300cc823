#include "gateway/session/transcript/message.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace kvgate::session::transcript {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

std::vector<Kind> KindsOf(Dialect dialect, std::string_view list) {
  std::vector<Kind> kinds;
  const auto messages = ReadMessages(dialect, list, "messages");
  EXPECT_TRUE(messages) << messages.error().ToString();
  if (!messages) return kinds;
  for (const Message& message : *messages) kinds.push_back(message.kind);
  return kinds;
}

bool Same(std::string_view a, std::string_view b) {
  const auto read = [](std::string_view json) {
    return ReadMessages(Dialect::kResponses, "[" + std::string(json) + "]", "input")->front();
  };
  return SaysTheSame(read(a), read(b));
}

TEST(MessageTest, EachDialectSaysWhoSpeaks) {
  EXPECT_THAT(KindsOf(Dialect::kChatCompletions,
                      R"([{"role":"developer","content":"s"},{"role":"user","content":"u"},
                          {"role":"assistant","tool_calls":[]},
                          {"role":"tool","tool_call_id":"1","content":"r"}])"),
              ElementsAre(Kind::kSystem, Kind::kUser, Kind::kAssistant, Kind::kTool));
  EXPECT_THAT(KindsOf(Dialect::kMessages,
                      R"([{"role":"user","content":[{"type":"text","text":"tool_result"}]},
                          {"role":"user","content":[{"type":"tool_result","tool_use_id":"t"}]}])"),
              ElementsAre(Kind::kUser, Kind::kTool));
  EXPECT_THAT(
      KindsOf(Dialect::kResponses,
              R"([{"role":"user","content":"u"},{"type":"reasoning","id":"r"},
                          {"type":"function_call","call_id":"c"},
                          {"type":"function_call_output","call_id":"c","output":"o"},
                          {"type":"message","role":"assistant","content":[]}])"),
      ElementsAre(Kind::kUser, Kind::kAssistant, Kind::kAssistant, Kind::kTool, Kind::kAssistant));
}

TEST(MessageTest, BytesAreKeptAsTheyAreWritten) {
  const std::string message = R"({ "role" : "user",  "content":"é\n" })";
  const auto read = ReadMessages(Dialect::kChatCompletions, "[ " + message + " ]", "messages");
  ASSERT_TRUE(read);
  EXPECT_EQ(read->front().json, message);
  EXPECT_EQ(ToList(*read), "[" + message + "]");
}

TEST(MessageTest, WhatIsNoMessageIsNamed) {
  const auto read = ReadMessages(Dialect::kChatCompletions,
                                 R"([{"role":"user","content":"u"},{"role":"robot"}])", "messages");
  ASSERT_FALSE(read);
  EXPECT_EQ(read.error().field, "messages[1]");
  EXPECT_EQ(read.error().code, ErrorCode::kInvalidArgument);
  EXPECT_FALSE(ReadMessages(Dialect::kChatCompletions, R"({"role":"user"})", "messages"));
}

TEST(MessageTest, SpellingThinkingAndEmptyFieldsDoNotMatter) {
  EXPECT_TRUE(Same(R"({"role":"assistant","content":"Hello","refusal":null})",
                   R"({"content":[{"type":"output_text","text":"Hel"},
                       {"type":"text","text":"lo"}],"role":"assistant"})"));
  EXPECT_TRUE(Same(R"({"role":"assistant","content":[{"type":"thinking","thinking":"hm"},
                       {"type":"text","text":"a"}]})",
                   R"({"role":"assistant","content":"a"})"));
  EXPECT_TRUE(Same(R"({"role":"assistant","content":null,"tool_calls":[{"id":"1","type":"function",
                       "function":{"name":"f","arguments":"{\"a\":1,\"b\":2}"}}]})",
                   R"({"role":"assistant","tool_calls":[{"id":"1","type":"function",
                       "function":{"name":"f","arguments":"{\"b\": 2, \"a\": 1}"}}]})"));
  EXPECT_TRUE(Same(R"({"role":"user","content":[{"type":"text","text":"u",
                       "cache_control":{"type":"ephemeral"}}]})",
                   R"({"role":"user","content":"u"})"));
}

TEST(MessageTest, WhatIsSaidMatters) {
  const std::string call = R"({"role":"assistant","tool_calls":[{"id":"1","type":"function",
      "function":{"name":"f","arguments":"{\"a\":1}"}}]})";
  std::string other = call;
  other.replace(other.find(":1}"), 3, ":2}");
  EXPECT_FALSE(Same(call, other));
  EXPECT_FALSE(Same(R"({"role":"user","content":"a"})", R"({"role":"user","content":"b"})"));
  EXPECT_FALSE(Same(R"({"role":"user","content":"a"})", R"({"role":"assistant","content":"a"})"));
  EXPECT_FALSE(Same(R"({"type":"function_call_output","call_id":"1","output":"a"})",
                    R"({"type":"function_call_output","call_id":"2","output":"a"})"));
  // Two blocks of one text are not the same as a text and a picture.
  EXPECT_FALSE(Same(R"({"role":"user","content":[{"type":"image","source":"x"}]})",
                    R"({"role":"user","content":[{"type":"image","source":"y"}]})"));
}

TEST(MessageTest, SystemsAreComparedByTheirText) {
  EXPECT_TRUE(IsSameText(R"("rules")", R"([{"type":"text","text":"rules",
                                           "cache_control":{"type":"ephemeral"}}])"));
  EXPECT_FALSE(IsSameText(R"("rules")", R"("others")"));
  EXPECT_FALSE(IsSameText("", R"("others")"));
  EXPECT_TRUE(IsSameText("", ""));
}

TEST(MessageTest, RoundsNeverPartACallFromItsResult) {
  const auto messages = ReadMessages(Dialect::kChatCompletions, R"([
      {"role":"user","content":"1"},{"role":"assistant","tool_calls":[]},
      {"role":"tool","content":"r"},{"role":"user","content":"by the way"},
      {"role":"assistant","content":"2"},
      {"role":"user","content":"3"},{"role":"user","content":"4"},
      {"role":"assistant","content":"5"},{"role":"user","content":"6"}])",
                                     "messages");
  ASSERT_TRUE(messages);
  EXPECT_THAT(RoundsOf(*messages), ElementsAre(0, 5, 8));
  EXPECT_THAT(RoundsOf({}), IsEmpty());
}

}  // namespace
}  // namespace kvgate::session::transcript
