#include "gateway/session/compaction/cleared.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

namespace kvgate::session::compaction {
namespace {

using nlohmann::json;

constexpr std::string_view kGone = "[Old tool result content cleared]";

// A conversation in which a tool was used so many times, each result `bytes` long.
json Used(int num_uses, size_t bytes = 400) {
  json messages = json::array({{{"role", "user"}, {"content", "Begin."}}});
  for (int i = 0; i < num_uses; ++i) {
    const json call = {{"type", "tool_use"},
                       {"id", fmt::format("t{}", i)},
                       {"name", i % 2 == 0 ? "read" : "grep"},
                       {"input", {{"path", std::string(100, 'p')}}}};
    const json result = {{"type", "tool_result"},
                         {"tool_use_id", fmt::format("t{}", i)},
                         {"content", std::string(bytes, static_cast<char>('a' + i % 26))},
                         {"cache_control", {{"type", "ephemeral"}}}};
    const json text = {{"type", "text"}, {"text", "I look."}};
    messages.push_back({{"role", "assistant"}, {"content", json::array({text, call})}});
    messages.push_back({{"role", "user"}, {"content", json::array({result})}});
  }
  return {{"model", "m"}, {"messages", messages}};
}

// Of each tool use: is its result cleared?
std::vector<bool> ClearedOf(const std::string& body) {
  std::vector<bool> cleared;
  const json parsed = json::parse(body);
  for (const json& message : parsed["messages"]) {
    if (!message["content"].is_array()) continue;
    for (const json& block : message["content"]) {
      if (block["type"] == "tool_result") cleared.push_back(block["content"] == kGone);
    }
  }
  return cleared;
}

class ClearedTest : public ::testing::Test {
 protected:
  // A token is four bytes.
  std::optional<Cleared> Clear(const std::string& body, const ToolUseEdit& edit,
                               std::string_view tenant = "t") {
    return ClearToolUses({.body = body,
                          .edit = edit,
                          .num_tokens = static_cast<int64_t>(body.size() / 4),
                          .tenant = tenant,
                          .marks = marks_});
  }
  static ToolUseEdit After(int64_t uses, int64_t keep) {
    return {.unit = ToolUseEdit::Unit::kToolUses, .trigger = uses, .keep = keep};
  }

  ClearedMarks marks_;
};

TEST_F(ClearedTest, TheOldestResultsGoOnceTheTriggerIsExceeded) {
  const std::string body = Used(6).dump();
  EXPECT_FALSE(Clear(body, After(6, 2)));
  const auto cleared = Clear(body, After(5, 2));
  ASSERT_TRUE(cleared);
  EXPECT_EQ(cleared->num_cleared, 4);
  EXPECT_EQ(ClearedOf(cleared->body), (std::vector<bool>{1, 1, 1, 1, 0, 0}));
}

TEST_F(ClearedTest, TheTriggerMayBeTokens) {
  const std::string body = Used(6).dump();
  const auto tokens = static_cast<int64_t>(body.size() / 4);
  EXPECT_FALSE(Clear(body, {.trigger = tokens}));
  const auto cleared = Clear(body, {.trigger = tokens - 1});
  ASSERT_TRUE(cleared);
  EXPECT_EQ(cleared->num_cleared, 3);
}

TEST_F(ClearedTest, AllElseStaysByteForByte) {
  const std::string text =
      "{ \"x\": 1.50, \"messages\" : [ {\"role\":\"user\",\"content\":\"\\u00e9\"},\n"
      R"({"role":"assistant","content":[{"type":"tool_use","id":"a","name":"f","input":{ }}]},)"
      R"({"role":"user","content":[ {"tool_use_id":"a", "content":[{"type":"text","text":"r"}],)"
      R"("is_error": true,"type":"tool_result"}]} ] })";
  const auto cleared = Clear(text, {.trigger = 1, .keep = 0});
  ASSERT_TRUE(cleared);
  std::string wanted = text;
  const std::string_view result = R"([{"type":"text","text":"r"}])";
  wanted.replace(wanted.find(result), result.size(), fmt::format("\"{}\"", kGone));
  EXPECT_EQ(cleared->body, wanted);
}

TEST_F(ClearedTest, ToolsMayBeLeftOut) {
  ToolUseEdit edit = After(5, 2);
  edit.excluded = {"read"};
  const auto cleared = Clear(Used(6).dump(), edit);
  ASSERT_TRUE(cleared);
  EXPECT_EQ(cleared->num_cleared, 2);
  EXPECT_EQ(ClearedOf(cleared->body), (std::vector<bool>{0, 1, 0, 1, 0, 0}));
}

TEST_F(ClearedTest, InputsGoWhereThatIsAsked) {
  ToolUseEdit edit = After(5, 4);
  edit.clears_inputs = true;
  EXPECT_EQ(json::parse(Clear(Used(6).dump(), edit)->body)["messages"][1]["content"][1]["input"],
            json::object());
  edit.input_tools = {"grep"};
  const json body = json::parse(Clear(Used(6).dump(), edit)->body);
  EXPECT_NE(body["messages"][1]["content"][1]["input"], json::object());
  EXPECT_EQ(body["messages"][3]["content"][1]["input"], json::object());
  EXPECT_NE(body["messages"][5]["content"][1]["input"], json::object());
}

TEST_F(ClearedTest, WhatIsTooLittleIsNotCleared) {
  ToolUseEdit edit = After(5, 2);
  edit.tokens_min = 1000;
  EXPECT_FALSE(Clear(Used(6).dump(), edit));
  edit.tokens_min = 300;
  EXPECT_TRUE(Clear(Used(6).dump(), edit));
}

TEST_F(ClearedTest, ACallWithoutAResultIsKept) {
  json body = Used(6);
  body["messages"].erase(2);
  const auto cleared = Clear(body.dump(), After(5, 2));
  ASSERT_TRUE(cleared);
  EXPECT_EQ(cleared->num_cleared, 3);
}

// A prompt that is cleared grows at its end alone until it exceeds the trigger again.
TEST_F(ClearedTest, AConversationStaysAsItWasCleared) {
  std::string before;
  int changes = 0;
  for (int uses = 1; uses <= 40; ++uses) {
    const std::string body = Used(uses).dump();
    const auto cleared = Clear(body, After(8, 2));
    std::string sent = cleared ? cleared->body : body;
    if (uses > 8) {
      EXPECT_TRUE(cleared) << uses;
    }
    const std::vector<bool> is_cleared = ClearedOf(sent);
    EXPECT_LE(std::count(is_cleared.begin(), is_cleared.end(), false), 8) << uses;
    sent.resize(sent.find_last_of(']'));  // the end of the list of messages
    if (!before.empty() && !sent.starts_with(before)) ++changes;
    before = sent;
  }
  EXPECT_LE(changes, 6);
}

TEST_F(ClearedTest, OfTokensToo) {
  std::string before;
  int changes = 0;
  for (int uses = 1; uses <= 60; ++uses) {
    const std::string body = Used(uses, 4000).dump();
    const auto cleared = Clear(body, {.trigger = 20'000, .keep = 3});
    std::string sent = cleared ? cleared->body : body;
    EXPECT_LE(sent.size() / 4, 20'500U) << uses;
    sent.resize(sent.find_last_of(']'));
    if (!before.empty() && !sent.starts_with(before)) ++changes;
    before = sent;
  }
  EXPECT_LE(changes, 6);
}

TEST_F(ClearedTest, MarksAreTheTenantsOwn) {
  ASSERT_TRUE(Clear(Used(6).dump(), After(5, 2), "alice"));
  // Alice's stays as it was cleared; Bob's is cleared as one that is new.
  EXPECT_EQ(Clear(Used(8).dump(), After(5, 2), "alice")->num_cleared, 4);
  EXPECT_EQ(Clear(Used(8).dump(), After(5, 2), "bob")->num_cleared, 6);
}

TEST_F(ClearedTest, OtherEditsOfAConversationBeginAnew) {
  ASSERT_TRUE(Clear(Used(6).dump(), After(5, 2)));
  ToolUseEdit edit = After(5, 2);
  edit.excluded = {"other"};
  EXPECT_EQ(Clear(Used(8).dump(), edit)->num_cleared, 6);
}

// Names and uses are not compared each with each.
TEST_F(ClearedTest, ManyNamesAndManyUsesTakeNoTime) {
  ToolUseEdit edit = After(5, 2);
  for (int i = 0; i < 100'000; ++i) edit.excluded.insert("n" + std::to_string(i));
  const std::string body = Used(20'000, 10).dump();
  const auto begun = std::chrono::steady_clock::now();
  ASSERT_TRUE(Clear(body, edit));
  EXPECT_LT(std::chrono::steady_clock::now() - begun, std::chrono::seconds(5));
}

TEST_F(ClearedTest, AnyBodyIsRead) {
  for (const char* body :
       {"", "[]", "{}", R"({"messages":1})", R"({"messages":[1,{"content":[2]}]})",
        R"({"messages":[{"content":[{"type":"tool_result","tool_use_id":"x","content":"y"}]}]})"}) {
    EXPECT_FALSE(Clear(body, {.trigger = 0, .keep = 0})) << body;
    EXPECT_FALSE(ClearThinking(body, {.keep = 1})) << body;
  }
}

// --- Thinking

json Thought(std::string_view thinking) {
  const json thought = {{"type", "thinking"}, {"thinking", thinking}, {"signature", "s"}};
  const json text = {{"type", "text"}, {"text", "Said."}};
  return {{"role", "assistant"}, {"content", json::array({thought, text})}};
}

TEST_F(ClearedTest, ThinkingOfOldTurnsGoes) {
  const json user = {{"role", "user"}, {"content", "Say."}};
  const json body = {{"messages",
                      {user,
                       Thought("one"),
                       user,
                       {{"role", "assistant"}, {"content", "No."}},
                       user,
                       Thought("two"),
                       user,
                       Thought("three"),
                       user}}};
  const auto cleared = ClearThinking(body.dump(), {.keep = 1});
  ASSERT_TRUE(cleared);
  EXPECT_EQ(cleared->num_cleared, 2);
  json wanted = body;
  wanted["messages"][1]["content"].erase(0);
  wanted["messages"][5]["content"].erase(0);
  EXPECT_EQ(json::parse(cleared->body), wanted);
  EXPECT_EQ(ClearThinking(body.dump(), {.keep = 2})->num_cleared, 1);
  EXPECT_FALSE(ClearThinking(body.dump(), {.keep = 3}));
  EXPECT_FALSE(ClearThinking(body.dump(), {.keep = std::nullopt}));
}

// Results of tools do not end a turn: its thinking stays or goes as a whole.
TEST_F(ClearedTest, ATurnHasItsToolsInIt) {
  const json user = {{"role", "user"}, {"content", "Say."}};
  const json block = {{"type", "tool_result"}, {"tool_use_id", "a"}, {"content", "r"}};
  const json result = {{"role", "user"}, {"content", json::array({block})}};
  const json body = {{"messages",
                      {user, Thought("one"), result, Thought("still one"), user, Thought("two"),
                       result, Thought("still two"), result}}};
  const auto cleared = ClearThinking(body.dump(), {.keep = 1});
  ASSERT_TRUE(cleared);
  EXPECT_EQ(cleared->num_cleared, 1);
  EXPECT_EQ(cleared->body.find("one"), std::string::npos);
  EXPECT_NE(cleared->body.find("\"two\""), std::string::npos);
  EXPECT_NE(cleared->body.find("still two"), std::string::npos);
}

TEST_F(ClearedTest, AMessageIsNeverLeftEmpty) {
  const json user = {{"role", "user"}, {"content", "Say."}};
  const json block = {{"type", "redacted_thinking"}, {"data", "x"}};
  const json only = {{"role", "assistant"}, {"content", json::array({block})}};
  const json body = {{"messages", {user, only, user, Thought("two"), user}}};
  EXPECT_FALSE(ClearThinking(body.dump(), {.keep = 1}));
}

}  // namespace
}  // namespace kvgate::session::compaction
