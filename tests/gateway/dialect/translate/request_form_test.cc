// These tests cover what a translated request goes without, and which choices of tools that makes
// impossible.
#include "gateway/dialect/translate/request_form.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "gateway/dialect/request_translator.h"

namespace kvgate::dialect::translate {
namespace {

using dialect::form::Dialect;
using nlohmann::json;
using testing::HasSubstr;
using testing::Not;

constexpr Dialect kChat = Dialect::kChatCompletions;
constexpr Dialect kResponses = Dialect::kResponses;
constexpr Dialect kMessages = Dialect::kMessages;

std::string Chat(const std::string& more) {
  return R"({"model":"m","messages":[{"role":"user","content":"Hi"}],)" + more + "}";
}
std::string Responses(const std::string& more) {
  return R"({"model":"m","input":"Hi")" + (more.empty() ? "" : "," + more) + "}";
}
std::string Messages(const std::string& more) {
  return R"({"model":"m","max_tokens":9,"messages":[{"role":"user","content":"Hi"}],)" + more + "}";
}

// Returns the field that the error names.
std::string Refused(Dialect from, Dialect to, const std::string& body) {
  const auto made = TranslateRequest({.from = from, .to = to, .body = body});
  if (made) return "nothing: " + made->body;
  EXPECT_THAT(made.error().detail, HasSubstr(made.error().field));
  return made.error().field;
}

TranslatedRequest Translated(Dialect from, Dialect to, const std::string& body) {
  auto made = TranslateRequest({.from = from, .to = to, .body = body});
  EXPECT_TRUE(made) << made.error().ToString() << "\n" << body;
  return made ? std::move(*made) : TranslatedRequest();
}

// Agents send these tools with every request, whatever the model.
TEST(RequestFormTest, ToolsThatAProviderRunsItselfAreLeftOutAndNamed) {
  const std::string responses = Responses(
      R"("tools":[{"type":"web_search"},{"type":"function","name":"f"},{"type":"tool_search",)"
      R"("execution":"client"},{"type":"code_interpreter","container":{}}],"tool_choice":"auto")");
  const std::string messages = Messages(
      R"("tools":[{"type":"web_search_20250305","name":"web_search"},{"name":"f",)"
      R"("input_schema":{"type":"object"}},{"type":"code_execution_20250825","name":"c"}],)"
      R"("tool_choice":{"type":"tool","name":"\u0066"})");
  const std::string chat =
      Chat(R"("tools":[{"type":"web_search"},{"type":"function","function":{"name":"f"}}],)"
           R"("web_search_options":{},"tool_choice":"required")");
  const std::tuple<Dialect, Dialect, std::string, std::vector<std::string>> cases[] = {
      {kResponses, kChat, responses, {"web_search", "tool_search", "code_interpreter"}},
      {kResponses, kMessages, responses, {"web_search", "tool_search", "code_interpreter"}},
      {kMessages, kChat, messages, {"web_search_20250305", "code_execution_20250825"}},
      {kMessages, kResponses, messages, {"web_search_20250305", "code_execution_20250825"}},
      {kChat, kMessages, chat, {"web_search_options", "web_search"}},
      {kChat, kResponses, chat, {"web_search_options", "web_search"}}};
  for (const auto& [from, to, body, left_out] : cases) {
    const TranslatedRequest made = Translated(from, to, body);
    EXPECT_EQ(made.left_out, left_out);
    EXPECT_EQ(made.opening, "\"Hi\"");
    EXPECT_EQ(json::parse(made.body)["tools"].size(), 1u);
    EXPECT_THAT(made.body, Not(HasSubstr("search")));
  }
  const TranslatedRequest alone =
      Translated(kResponses, kMessages, Responses(R"("tools":[{"type":"web_search"}])"));
  EXPECT_FALSE(json::parse(alone.body).contains("tools"));
  EXPECT_TRUE(Translated(kResponses, kMessages, Responses("")).left_out.empty());
}

TEST(RequestFormTest, AChoiceThatForcesAToolThatIsLeftOutIsRefusedByName) {
  const std::tuple<Dialect, Dialect, std::string, std::string> cases[] = {
      {kMessages, kChat,
       Messages(R"("tools":[{"type":"web_search_20250305","name":"w"},{"name":"f",)"
                R"("input_schema":{}}],"tool_choice":{"type":"tool","name":"w"})"),
       "tool_choice"},
      {kMessages, kChat,
       Messages(R"("tools":[{"type":"web_search_20250305","name":"w"}],)"
                R"("tool_choice":{"type":"any"})"),
       "tool_choice"},
      {kResponses, kMessages, Responses(R"("tools":[{"type":"web search"}])"), "tools[0].type"},
      {kResponses, kChat,
       Responses(R"("tools":[{"type":"web_search"}],"tool_choice":{"type":"web_search"})"),
       "tool_choice.type"},
      {kResponses, kMessages,
       Responses(R"("tools":[{"type":"web_search"}],"tool_choice":"required")"), "tool_choice"},
      {kResponses, kMessages,
       Responses(R"("tools":[{"type":"web_search"},{"type":"function","name":"f"}],)"
                 R"("tool_choice":{"type":"allowed_tools","mode":"required",)"
                 R"("tools":[{"type":"web_search"}]})"),
       "tool_choice.tools"},
      {kResponses, kMessages,
       R"({"model":"m","input":[{"role":"user","content":"x"},{"type":"compaction_trigger"}]})",
       "input[1].type"}};
  for (const auto& [from, to, body, field] : cases) {
    EXPECT_EQ(Refused(from, to, body), field) << body;
  }
}

TEST(RequestFormTest, AChoiceThatDoesNotForceAToolThatIsLeftOutIsKept) {
  const std::string tools =
      R"("tools":[{"type":"web_search"},{"type":"function","name":"f"}],"tool_choice":)";
  const auto choice = [&](const std::string& value) {
    return json::parse(
        Translated(kResponses, kMessages, Responses(tools + value)).body)["tool_choice"]["type"];
  };
  EXPECT_EQ(choice(R"("required")"), "any");
  EXPECT_EQ(choice(R"({"type":"function","name":"f"})"), "tool");
  const std::string allowed = R"({"type":"allowed_tools","mode":"auto","tools":[)";
  EXPECT_EQ(choice(allowed + R"({"type":"web_search"},{"type":"function","name":"f"}]})"), "auto");
  EXPECT_EQ(choice(allowed + R"({"type":"web_search"}]})"), "none");
}

TEST(RequestFormTest, WhatAProvidersToolsDidIsLeftOutOfAConversation) {
  const std::string responses =
      R"({"model":"m","input":[{"role":"user","content":"Hi"},)"
      R"({"type":"web_search_call","id":"ws","status":"completed"},)"
      R"({"type":"tool_search_call","id":"ts"},{"type":"tool_search_output","tools":[)"
      R"({"type":"function","name":"found"}]},{"role":"assistant","content":"Yes"},)"
      R"({"role":"user","content":"On"}]})";
  for (const Dialect to : {kChat, kMessages}) {
    const TranslatedRequest made = Translated(kResponses, to, responses);
    EXPECT_THAT(made.left_out, testing::ElementsAre("web_search_call", "tool_search_call"));
    const json sent = json::parse(made.body);
    EXPECT_EQ(sent["messages"].size(), 3u);
    EXPECT_THAT(sent["tools"].dump(), HasSubstr("\"found\""));
  }
  const std::string messages =
      R"({"model":"m","max_tokens":9,"messages":[{"role":"user","content":"Hi"},)"
      R"({"role":"assistant","content":[{"type":"server_tool_use","id":"1","name":"w",)"
      R"("input":{}}]},{"role":"assistant","content":[{"type":"web_search_tool_result",)"
      R"("tool_use_id":"1","content":[]},{"type":"text","text":"Yes"},{"type":"tool_use",)"
      R"("id":"2","name":"ToolSearch","input":{}}]},{"role":"user","content":[)"
      R"({"type":"tool_result","tool_use_id":"2","content":[{"type":"tool_reference",)"
      R"("tool_name":"Grep"}]}]}]})";
  const TranslatedRequest made = Translated(kMessages, kChat, messages);
  EXPECT_THAT(made.left_out, testing::ElementsAre("server_tool_use", "web_search_tool_result"));
  const json turns = json::parse(made.body)["messages"];
  ASSERT_EQ(turns.size(), 3u) << "a turn that was nothing else is none";
  EXPECT_EQ(turns[1]["content"], "Yes");
  EXPECT_EQ(turns[2]["content"], "Grep");
}

TEST(RequestFormTest, ASealedCompactionIsSaidAndOneThatCanBeReadIsItsText) {
  const TranslatedRequest sealed =
      Translated(kResponses, kMessages,
                 R"({"model":"m","input":[{"type":"compaction","encrypted_content":"gAAA"},)"
                 R"({"role":"user","content":"Hi"},{"type":"compaction","content":"So far."}]})");
  EXPECT_THAT(sealed.left_out, testing::ElementsAre("compaction"));
  EXPECT_THAT(sealed.body, HasSubstr("compacted by another provider"));
  EXPECT_THAT(sealed.body, HasSubstr(R"("text":"So far.")"));
  const TranslatedRequest block = Translated(
      kMessages, kChat,
      R"({"model":"m","max_tokens":9,"messages":[{"role":"assistant","content":[)"
      R"({"type":"compaction","content":"So far.","signature":"s"}]},{"role":"user",)"
      R"("content":[{"type":"compaction","content":null},{"type":"text","text":"Hi"}]}]})");
  EXPECT_TRUE(block.left_out.empty());
  EXPECT_EQ(json::parse(block.body)["messages"][0]["content"], "So far.");
}

TEST(RequestFormTest, NamespacesInNamespacesHaveABound) {
  const auto nested = [](int depth) {
    std::string tool = R"({"type":"function","name":"f"})";
    for (int i = 0; i < depth; ++i) {
      tool = R"({"type":"namespace","name":"n","tools":[)" + tool + "]}";
    }
    return Responses("\"tools\":[" + tool + "]");
  };
  const TranslatedRequest made = Translated(kResponses, kMessages, nested(4));
  EXPECT_EQ(json::parse(made.body)["tools"][0]["name"], "n__n__n__n__f");
  ASSERT_EQ(made.tools.size(), 1u);
  EXPECT_EQ(made.tools[0].space, "n__n__n__n");
  for (const int depth : {5, 12}) {
    EXPECT_EQ(Refused(kResponses, kMessages, nested(depth)),
              "tools[0].tools[0].tools[0].tools[0].tools[0].type");
  }
}

}  // namespace
}  // namespace kvgate::dialect::translate
