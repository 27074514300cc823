#include "gateway/replay/rendering.h"

#include <gtest/gtest.h>

namespace kvgate::replay {
namespace {

using dialect::form::Endpoint;

std::vector<std::string> Texts(Endpoint endpoint, std::string_view body) {
  std::vector<std::string> texts;
  const Result<Rendering> prompt = Render(endpoint, body);
  if (!prompt) return {prompt.error().detail};
  for (const Item& item : prompt->items) texts.push_back(item.text);
  return texts;
}

TEST(Render, MessagesInRenderOrderWithoutBreakpoints) {
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

TEST(Render, OnlyABlockThatIsNothingButTheBillingHeaderIsDropped) {
  const auto left = [](std::string_view system) {
    Rendering prompt =
        Render(Endpoint::kMessages, R"({"messages":[],"system":)" + std::string(system) + "}")
            .value();
    prompt.DropBillingHeader();
    return prompt.items.size();
  };
  const std::string header = "x-anthropic-billing-header: cc_version=2.1; cch=36ee5;";
  EXPECT_EQ(left('"' + header + '"'), 0u);
  EXPECT_EQ(left('"' + header + R"(\n")"), 0u);
  EXPECT_EQ(left('"' + header + R"(\nYou are an agent.")"), 1u);
  EXPECT_EQ(left(R"([{"type":"text","text":")" + header + R"("},{"type":"text","text":"s"}])"), 1u);
  EXPECT_EQ(left(R"([{"type":"text","text":")" + header + R"(\n\nYou are","cache_control":{}}])"),
            1u);
  EXPECT_EQ(left(R"("You sign with x-anthropic-billing-header: cch=1;")"), 1u);
}

TEST(Render, WhatIsNoObjectIsAnError) {
  EXPECT_FALSE(Render(Endpoint::kMessages, "[1]").has_value());
  EXPECT_FALSE(Render(Endpoint::kMessages, "{").has_value());
  EXPECT_TRUE(Render(Endpoint::kMessages, "{}").has_value());
}

}  // namespace
}  // namespace kvgate::replay
