#include "engine/text/chat/chat_fit.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace kvgate::chat {
namespace {

using jinja::value::Data;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

const TemplateCapabilities kPlain;

Data Tools() {
  return Data::List{Data::Dict{{"type", "function"}, {"function", Data::Dict{{"name", "look"}}}}};
}

Data CallsOf(Data arguments) {
  return Data::List{
      Data::Dict{{"id", "1"},
                 {"type", "function"},
                 {"function", Data::Dict{{"name", "look"}, {"arguments", std::move(arguments)}}}}};
}

TEST(ChatFitTest, ToolsAreToldInTheSystemMessageOrInOneOfTheirOwn) {
  const Data tools = Tools();
  const std::vector<ChatMessage> with = {{.role = "system", .content = "Be kind."},
                                         {.role = "user", .content = "hi"}};
  const auto told = FitChat({.messages = with, .tools = &tools, .traits = kPlain});
  ASSERT_TRUE(told);
  EXPECT_THAT(told->places, ElementsAre(0, 1));
  EXPECT_THAT(told->messages[0].content, ::testing::StartsWith("Be kind.\n\n# Tools"));
  EXPECT_THAT(told->messages[0].content,
              HasSubstr(R"({"type": "function", "function": {"name": "look"}})"));
  const std::vector<ChatMessage> without = {{.role = "user", .content = "hi"}};
  const auto added = FitChat({.messages = without, .tools = &tools, .traits = kPlain});
  ASSERT_TRUE(added);
  EXPECT_THAT(added->places, ElementsAre(1));
  EXPECT_EQ(added->messages[0].role, "system");
}

TEST(ChatFitTest, CallsAndResultsAreTextOfTheirTurns) {
  const std::vector<ChatMessage> messages = {
      {.role = "user", .content = "hi"},
      {.role = "assistant",
       .content = "I look.",
       .more = {{"tool_calls", CallsOf(Data::Dict{{"a", 1}})}}},
      {.role = "tool", .content = "r1"},
      {.role = "tool", .content = "r2"},
      {.role = "user", .content = "so?"},
      {.role = "assistant", .content = "", .more = {{"tool_calls", CallsOf("not json")}}}};
  const auto text = FitChat({.messages = messages, .traits = kPlain});
  ASSERT_TRUE(text);
  EXPECT_THAT(text->places, ElementsAre(0, 1, 2, 2, 2, 3));
  EXPECT_EQ(text->messages[1].content,
            "I look.\n<tool_call>\n{\"name\": \"look\", \"arguments\": {\"a\": 1}}\n</tool_call>");
  EXPECT_EQ(text->messages[2].role, "user");
  EXPECT_EQ(text->messages[2].content,
            "<tool_response>\nr1\n</tool_response>\n<tool_response>\nr2\n</tool_response>\nso?");
  EXPECT_EQ(text->messages[3].content,
            "<tool_call>\n{\"name\": \"look\", \"arguments\": not json}\n</tool_call>");
  // The markers belong to the format; the contents of the call do not.
  const auto& markers = text->messages[1].markers;
  ASSERT_GE(markers.size(), 2u);
  EXPECT_EQ(text->messages[1].content.substr(markers[0].begin, markers[0].end - markers[0].begin),
            "\n<tool_call>\n{\"name\": ");
}

std::string Shown(const FittedChat& chat) {
  std::string shown;
  for (const ChatMessage& message : chat.messages) {
    shown += message.role + ":" + (message.no_content ? "none" : message.content);
    for (const auto& [name, value] : message.more) {
      if (const auto* list = std::get_if<Data::List>(&value.value())) {
        shown += "+" + std::to_string(list->size());
      }
    }
    shown += "|";
  }
  return shown;
}

std::string Fit(const std::vector<ChatMessage>& messages, const TemplateCapabilities& traits,
                output::CallStyle style = output::CallStyle::kTags) {
  const auto fitted = FitChat({.messages = messages, .traits = traits, .style = style});
  return fitted ? Shown(*fitted) : fitted.error().ToString();
}

Data CallNamed(const char* id, const char* name) {
  return Data::Dict{
      {"id", id},
      {"type", "function"},
      {"function",
       Data::Dict{{"name", name}, {"arguments", Data::Dict{{"s", "it's"}, {"b", true}}}}}};
}

TEST(ChatFitTest, TheModelsOwnFormOfCallsIsUsedWhereTheTemplateHasNone) {
  const std::vector<ChatMessage> messages = {
      {.role = "user", .content = "u"},
      {.role = "assistant",
       .content = "",
       .more = {{"tool_calls", Data::List{CallNamed("1", "f"), CallNamed("2", "g")}}}}};
  EXPECT_EQ(Fit(messages, kPlain, output::CallStyle::kPython),
            "user:u|assistant:<|tool_call_start|>[f(s=\"it's\", b=True), g(s=\"it's\", b=True)]"
            "<|tool_call_end|>|");
  EXPECT_EQ(Fit({messages[0],
                 {.role = "assistant",
                  .content = "t",
                  .more = {{"tool_calls", Data::List{CallNamed("1", "f")}}}}},
                kPlain, output::CallStyle::kList),
            "user:u|assistant:t<|tool_call|>[{\"name\": \"f\", \"arguments\": {\"s\": \"it's\", "
            "\"b\": true}}]<|/tool_call|>|");
}

TEST(ChatFitTest, CallsGoOneByOneWhereATurnHoldsOne) {
  const std::vector<ChatMessage> messages = {
      {.role = "user", .content = "u"},
      {.role = "assistant",
       .content = "text",
       .more = {{"tool_calls", Data::List{CallNamed("1", "f"), CallNamed("2", "g")}}}},
      {.role = "tool", .content = "r2", .more = {{"tool_call_id", "2"}}},
      {.role = "tool", .content = "r1", .more = {{"tool_call_id", "1"}}},
      {.role = "user", .content = "next"}};
  TemplateCapabilities traits{
      .tools_variable = "tools", .writes_calls = true, .writes_results = true};
  traits.calls_beside_text = true;
  EXPECT_EQ(Fit(messages, traits),
            "user:u|assistant:text+1|tool:r1|assistant:+1|tool:r2|user:next|");
  traits.several_calls = true;
  EXPECT_EQ(Fit(messages, traits), "user:u|assistant:text+2|tool:r2|tool:r1|user:next|");
  traits.calls_beside_text = false;
  traits.calls_need_none = true;
  EXPECT_EQ(Fit(messages, traits),
            "user:u|assistant:text|assistant:none+2|tool:r2|tool:r1|user:next|");
  const auto fitted = FitChat({.messages = messages, .traits = traits});
  EXPECT_THAT(fitted->places, ElementsAre(0, 2, 3, 4, 5));
}

TEST(ChatFitTest, WhatAFormatRefusesOfRolesIsFolded) {
  const std::vector<ChatMessage> messages = {
      {.role = "system", .content = "s"},    {.role = "user", .content = "a"},
      {.role = "user", .content = "b"},      {.role = "assistant", .content = "c"},
      {.role = "system", .content = "late"}, {.role = "user", .content = "d"}};
  EXPECT_EQ(Fit(messages, kPlain), "system:s|user:a|user:b|assistant:c|system:late|user:d|");
  TemplateCapabilities traits;
  traits.has_late_system = false;
  EXPECT_EQ(Fit(messages, traits), "system:s|user:a|user:b|assistant:c|user:late|user:d|");
  traits.repeats_roles = false;
  EXPECT_EQ(Fit(messages, traits), "system:s|user:a\nb|assistant:c|user:late\nd|");
  traits.has_system = false;
  EXPECT_EQ(Fit(messages, traits), "user:s\n\na\nb|assistant:c|user:late\nd|");
}

TEST(ChatFitTest, AConversationThatGrowsKeepsItsPrefix) {
  TemplateCapabilities traits;
  traits.repeats_roles = traits.has_system = traits.has_late_system = false;
  std::vector<ChatMessage> messages = {{.role = "system", .content = "s"},
                                       {.role = "user", .content = "u"}};
  std::string before = Fit(messages, traits);
  for (int i = 0; i < 5; ++i) {
    messages.push_back({.role = "assistant",
                        .content = "",
                        .more = {{"tool_calls", Data::List{CallNamed("1", "f")}}}});
    messages.push_back({.role = "tool", .content = "r", .more = {{"tool_call_id", "1"}}});
    const std::string now = Fit(messages, traits);
    EXPECT_EQ(now.substr(0, before.size()), before);
    before = now;
  }
}

}  // namespace
}  // namespace kvgate::chat
