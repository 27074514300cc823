#include "engine/text/output/tag_parser.h"

#include <gtest/gtest.h>

#include "tests/engine/text/output/parse.h"

namespace kvgate::output {
namespace {

TEST(TagParserTest, ReasoningIsApartAndItsSeamsAreDropped) {
  EXPECT_EQ(ShowReply("hermes", "<think>\nlet me\n\nsee\n</think>\n\nIt is so."),
            "think(let me\n\nsee)|It is so.");
  EXPECT_EQ(ShowReply("hermes", "deep</think>\nyes", "<|im_start|>assistant\n<think>\n"),
            "think(deep)|yes");
  EXPECT_EQ(ShowReply("hermes", "never ends", "<think>"), "think(never ends)");
  EXPECT_EQ(ShowReply("hermes", "yes", "<think>\n\n</think>\n\n"), "yes");
  EXPECT_EQ(ShowReply("mistral", "[THINK]a[/THINK]b"), "think(a)|b");
}

TEST(TagParserTest, AThinkTagAmongTextIsText) {
  EXPECT_EQ(ShowReply("hermes", "Use <think> for that </think>."),
            "Use <think> for that </think>.");
}

TEST(TagParserTest, ReasoningTextAndCallsComeInTheirOrder) {
  EXPECT_EQ(ShowReply("hermes",
                      "<think>a</think>\nfirst\n<tool_call>\n{\"name\": \"f\", \"arguments\": {}}\n"
                      "</tool_call>\nthen\n<tool_call>\n{\"name\": \"g\", \"arguments\": {\"a\": "
                      "1}}\n</tool_call>\nlast"),
            "think(a)|first|call f{};|then|call g{\"a\": 1};|last");
}

TEST(TagParserTest, ObjectsAreReadWhateverTheirKeysAndOrder) {
  for (const char* object :
       {R"({"arguments": {"a": 1}, "name": "f"})", R"({"id": 7, "name":"f","parameters":{"a": 1}})",
        R"({"function": "f", "args": {"a": 1}, "more": [1, "x", {"y": null}], "n": 12})",
        R"({"type": "function", "function": {"name": "f", "arguments": {"a": 1}}})",
        R"({"name": "f", "arguments": "{\"a\": 1}"})"}) {
    const std::string shown = ShowReply("hermes", std::string("<tool_call>") + object);
    EXPECT_TRUE(shown == "call f{\"a\": 1};" || shown == "call f7{\"a\": 1};") << shown;
  }
}

TEST(TagParserTest, ACallWithoutArgumentsHasAnEmptyObject) {
  EXPECT_EQ(ShowReply("hermes", R"(<tool_call>{"name": "f"}</tool_call>)"), "call f{};");
  EXPECT_EQ(ShowReply("hermes", R"(<tool_call>{"name": "f", "arguments": null}</tool_call>)"),
            "call f{};");
  EXPECT_EQ(ShowReply("glm", "<tool_call>f</tool_call>"), "call f{};");
  EXPECT_EQ(ShowReply("qwen3-coder", "<function=f>\n</function>"), "call f{};");
  EXPECT_EQ(ShowReply("kimi",
                      "<|tool_call_begin|>functions.f:0<|tool_call_argument_begin|>"
                      "<|tool_call_end|>"),
            "call ffunctions.f:0{};");
}

TEST(TagParserTest, LineBreaksThatAModelForgotToEscapeAreEscaped) {
  EXPECT_EQ(ShowReply("hermes", "<tool_call>{\"name\":\"f\",\"arguments\":{\"s\":\"a\nb\"}}"),
            "call f{\"s\":\"a\\nb\"};");
}

TEST(TagParserTest, WhatIsNoCallIsTextAndWhatFollowsIsReadOn) {
  EXPECT_EQ(ShowReply("hermes", "a <tool_call> b"), "a <tool_call> b");
  EXPECT_EQ(ShowReply("hermes", "<tool_call>{\"x\": 1}</tool_call>"),
            "<tool_call>{\"x\": 1}</tool_call>");
  EXPECT_EQ(ShowReply("hermes", "<tool_call>{oops <tool_call>{\"name\":\"f\",\"arguments\":{}}"),
            "<tool_call>{oops|call f{};");
  EXPECT_EQ(ShowReply("hermes", "<tool_call>{\"name\": \"f\""), "<tool_call>{\"name\": \"f\"");
  const std::string nameless =
      "<|tool_call_begin|>functions.:0<|tool_call_argument_begin|>{}<|tool_call_end|>";
  EXPECT_EQ(ShowReply("kimi", nameless), nameless);
}

TEST(TagParserTest, WhatGoesWrongInsideACallEndsIt) {
  EXPECT_EQ(ShowReply("hermes", "<tool_call>{\"name\":\"f\",\"arguments\":{\"a\":1}, oops"),
            "call f{\"a\":1};|, oops");
  EXPECT_EQ(ShowReply("hermes", "<tool_call>{\"name\":\"f\",\"arguments\":{\"a\":["),
            "call f{\"a\":[;");
  EXPECT_EQ(ShowReply("qwen3-coder", "<function=f>\n<parameter=s>\nx\n</parameter>\nbad"),
            "call f{\"s\": \"x\"};|bad");
}

TEST(TagParserTest, ValuesWithoutQuotesFollowTheToolsTypes) {
  const auto value = [](std::string_view key, std::string_view text) {
    return ShowReply("qwen3-coder", "<function=f>\n<parameter=" + std::string(key) + ">\n" +
                                        std::string(text) + "\n</parameter>\n</function>");
  };
  EXPECT_EQ(value("s", "12"), R"(call f{"s": "12"};)");
  EXPECT_EQ(value("s", "\n a\n"), R"(call f{"s": "\n a\n"};)");
  EXPECT_EQ(value("n", "12"), R"(call f{"n": 12};)");
  EXPECT_EQ(value("n", "True"), R"(call f{"n": true};)");
  EXPECT_EQ(value("n", "[1, {\"a\": 2}]"), R"(call f{"n": [1, {"a": 2}]};)");
  EXPECT_EQ(value("n", "012"), R"(call f{"n": "012"};)");
}

TEST(TagParserTest, ABareObjectIsACallOfAKnownToolAtTheBeginningOnly) {
  EXPECT_EQ(ShowReply("llama3", R"({"name": "f", "parameters": {"a": 1}})"), R"(call f{"a": 1};)");
  EXPECT_EQ(ShowReply("llama3", R"({"name": "unknown", "parameters": {}})"),
            R"({"name": "unknown", "parameters": {}})");
  EXPECT_EQ(ShowReply("llama3", R"(So: {"name": "f", "parameters": {}})"),
            R"(So: {"name": "f", "parameters": {}})");
  EXPECT_EQ(ShowReply("llama3", "<|python_tag|>f.call(s=\"x, y\", n=3)"),
            R"(call f{"s": "x, y", "n": 3};)");
}

TEST(TagParserTest, WithoutToolsNothingIsACall) {
  const std::string text = R"(<tool_call>{"name": "f", "arguments": {}}</tool_call>)";
  EXPECT_EQ(Show(Parse({.family = "hermes"}, text)), text);
}

}  // namespace
}  // namespace kvgate::output
