#include "engine/template/tool_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace kvgate::chat {
namespace {

using jinja::Data;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

Data Tools() {
  return Data::List{Data::Dict{{"type", "function"}, {"function", Data::Dict{{"name", "look"}}}}};
}

Data CallsOf(Data arguments) {
  return Data::List{
      Data::Dict{{"id", "1"},
                 {"type", "function"},
                 {"function", Data::Dict{{"name", "look"}, {"arguments", std::move(arguments)}}}}};
}

TEST(ToolTextTest, ToolsAreToldInTheSystemMessageOrInOneOfTheirOwn) {
  const Data tools = Tools();
  const std::vector<ChatMessage> with = {{.role = "system", .content = "Be kind."},
                                         {.role = "user", .content = "hi"}};
  const auto told = WriteToolsAsText(with, &tools);
  ASSERT_TRUE(told);
  EXPECT_THAT(told->places, ElementsAre(0, 1));
  EXPECT_THAT(told->messages[0].content, ::testing::StartsWith("Be kind.\n\n# Tools"));
  EXPECT_THAT(told->messages[0].content,
              HasSubstr(R"({"type": "function", "function": {"name": "look"}})"));
  const std::vector<ChatMessage> without = {{.role = "user", .content = "hi"}};
  const auto added = WriteToolsAsText(without, &tools);
  ASSERT_TRUE(added);
  EXPECT_THAT(added->places, ElementsAre(1));
  EXPECT_EQ(added->messages[0].role, "system");
}

TEST(ToolTextTest, CallsAndResultsAreTextOfTheirTurns) {
  const std::vector<ChatMessage> messages = {
      {.role = "user", .content = "hi"},
      {.role = "assistant",
       .content = "I look.",
       .more = {{"tool_calls", CallsOf(Data::Dict{{"a", 1}})}}},
      {.role = "tool", .content = "r1"},
      {.role = "tool", .content = "r2"},
      {.role = "user", .content = "so?"},
      {.role = "assistant", .content = "", .more = {{"tool_calls", CallsOf("not json")}}}};
  const auto text = WriteToolsAsText(messages, nullptr);
  ASSERT_TRUE(text);
  EXPECT_THAT(text->places, ElementsAre(0, 1, 2, 2, 2, 3));
  EXPECT_EQ(text->messages[1].content,
            "I look.\n<tool_call>\n{\"name\": \"look\", \"arguments\": {\"a\": 1}}\n</tool_call>");
  EXPECT_EQ(text->messages[2].role, "user");
  EXPECT_EQ(text->messages[2].content,
            "<tool_response>\nr1\n</tool_response>\n<tool_response>\nr2\n</tool_response>\nso?");
  EXPECT_EQ(text->messages[3].content,
            "<tool_call>\n{\"name\": \"look\", \"arguments\": not json}\n</tool_call>");
}

}  // namespace
}  // namespace kvgate::chat
