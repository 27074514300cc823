#include "gateway/replay/rendering.h"

#include <gtest/gtest.h>

namespace kvgate::replay {
namespace {

using upstream::Endpoint;

std::vector<std::string> Texts(Endpoint endpoint, std::string_view body) {
  std::vector<std::string> texts;
  const Result<Rendering> prompt = Render(endpoint, body);
  if (!prompt) return {prompt.error().detail};
  for (const Item& item : prompt->items) texts.push_back(item.text);
  return texts;
}

TEST(Render, MessagesInRenderOrderWithoutMarkers) {
  EXPECT_EQ(Texts(Endpoint::kMessages, R"({"messages":[{"role":"user","content":"hi"},
      {"role":"assistant","content":[{"type":"text","text":"é\n"}]}],
      "system":"s","model":"m","tools":[{"b":1,"cache_control":{"type":"ephemeral"},"a":2.0}]})"),
            (std::vector<std::string>{R"({"b":1,"a":2.0})", R"({"type":"text","text":"s"})",
                                      R"(user:{"type":"text","text":"hi"})",
                                      R"(assistant:{"type":"text","text":"é\n"})"}));
}

TEST(Render, BlanksDoNotCountAndTheOrderOfKeysDoes) {
  const auto render = [](std::string_view body) { return Texts(Endpoint::kChatCompletions, body); };
  EXPECT_EQ(render(R"({"messages": [ {"role" : "user", "content": "x"} ] })"),
            render(R"({"messages":[{"role":"user","content":"x"}]})"));
  EXPECT_NE(render(R"({"messages":[{"content":"x","name":"n","role":"user"}]})"),
            render(R"({"messages":[{"content":"x","role":"user","name":"n"}]})"));
}

TEST(Render, ResponsesWithInstructionsAndItems) {
  EXPECT_EQ(Texts(Endpoint::kResponses, R"({"input":[{"role":"user","content":[
      {"type":"input_text","text":"a","prompt_cache_breakpoint":{"mode":"explicit"}},
      {"type":"input_text","text":"b"}]},
      {"type":"function_call_output","output":"o"}],"instructions":"i"})"),
            (std::vector<std::string>{"i", R"({"role":"user"}"a")", R"({}"b")",
                                      R"({"type":"function_call_output","output":"o"}null)"}));
}

TEST(Render, TellsWhereTurnsEnd) {
  const Result<Rendering> prompt =
      Render(Endpoint::kChatCompletions,
             R"({"messages":[{"role":"system","content":"s"},{"role":"user","content":"u"},
          {"role":"assistant","content":"a"},{"role":"tool","content":"t"}],"model":"m"})");
  ASSERT_TRUE(prompt.has_value());
  EXPECT_EQ(prompt->model, "m");
  ASSERT_EQ(prompt->items.size(), 4u);
  EXPECT_EQ(prompt->items[0].part, Part::kSystem);
  EXPECT_FALSE(prompt->items[0].ends_turn);
  EXPECT_TRUE(prompt->items[1].ends_turn);
  EXPECT_FALSE(prompt->items[2].ends_turn);
  EXPECT_TRUE(prompt->items[3].ends_turn);
}

TEST(Render, WhatIsNoObjectIsAnError) {
  EXPECT_FALSE(Render(Endpoint::kMessages, "[1]").has_value());
  EXPECT_FALSE(Render(Endpoint::kMessages, "{").has_value());
  EXPECT_TRUE(Render(Endpoint::kMessages, "{}").has_value());
}

}  // namespace
}  // namespace kvgate::replay
