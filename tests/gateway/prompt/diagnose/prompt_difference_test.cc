#include "gateway/prompt/diagnose/prompt_difference.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "tests/gateway/prompt/sent_request.h"

namespace kvgate::prompt::diagnose {

using history::SentRequest;

namespace {

using dialect::form::Endpoint;
using Json = nlohmann::ordered_json;

Json Body() {
  return Json::parse(R"({"model":"m","tools":[{"name":"a","description":"of a tool"}],
    "system":[{"type":"text","text":"system prompt"}],
    "messages":[{"role":"user","content":[{"type":"text","text":"a question"}]},
                {"role":"assistant","content":"an answer"},{"role":"user","content":"more"}]})");
}

std::string Told(const Json& before, const Json& now, std::string_view provider = "anthropic",
                 int64_t read_tokens = 0) {
  const SentRequest was = SentAs(Endpoint::kMessages, before.dump());
  const SentRequest is = SentAs(Endpoint::kMessages, now.dump());
  const ledger::PriceRow* row = ledger::Prices::Builtin().Find(provider, "some-model");
  const auto found =
      FindPromptDifference({.before = was,
                            .now = is,
                            .effects = CacheEffectsOf(provider, Endpoint::kMessages, &row->rules),
                            .read_tokens = read_tokens});
  return found ? std::string(BreakCauseName(found->cause)) + " " + found->path : "none";
}

Json With(const std::string& name, const char* value) {
  Json body = Body();
  body[name] = Json::parse(value);
  return body;
}

TEST(PromptDifferenceTest, TheFirstInTheOrderOfRenderingIsTold) {
  Json now = With("tool_choice", R"({"type":"any"})");
  EXPECT_EQ(Told(Body(), now), "parameter_changed tool_choice");
  now["messages"][0]["content"][0]["text"] = "another";
  EXPECT_EQ(Told(Body(), now), "parameter_changed tool_choice") << "it breaks all messages";
  now["system"][0]["text"] = "another";
  EXPECT_EQ(Told(Body(), now), "system_changed system[0].text");
  now["speed"] = "fast";
  EXPECT_EQ(Told(Body(), now), "parameter_changed speed");
  now["tools"][0]["description"] = "another";
  EXPECT_EQ(Told(Body(), now), "tool_changed tools[0].description");
  EXPECT_EQ(Told(Body(), now, "deepseek"), "system_changed system[0].text");
  now["model"] = "n";
  EXPECT_EQ(Told(Body(), now), "model_changed model");
}

TEST(PromptDifferenceTest, WhatNoCacheDependsOnIsNoDifference) {
  EXPECT_EQ(Told(Body(), With("max_tokens", "7")), "none");
  EXPECT_EQ(Told(With("temperature", "0.1"), With("temperature", "0.2")), "none");
  EXPECT_EQ(Told(Body(), With("tool_choice", R"({"type":"auto"})")), "none")
      << "what counts without it";
  EXPECT_EQ(Told(With("speed", "\"standard\""), Body()), "none");
  EXPECT_EQ(
      Told(With("tool_choice", R"({"type": "any"})"), With("tool_choice", R"({"type":"any"})")),
      "none");
}

TEST(PromptDifferenceTest, ParametersAreFollowedIntoTheirValue) {
  EXPECT_EQ(Told(With("thinking", R"({"type":"enabled","budget_tokens":1024})"),
                 With("thinking", R"({"type":"enabled","budget_tokens":2048})")),
            "parameter_changed thinking.budget_tokens");
  EXPECT_EQ(Told(With("text", R"({"format":{"type":"json_schema","schema":{"a":1}}})"),
                 With("text", R"({"format":{"type":"json_schema","schema":{"a":2}}})"), "openai"),
            "parameter_changed text.format.schema.a");
  EXPECT_EQ(Told(With("text", R"({"verbosity":"low"})"), With("text", R"({"verbosity":"high"})"),
                 "openai"),
            "parameter_changed text.verbosity");
}

TEST(PromptDifferenceTest, AParameterIsKnownToDifferBehindWhatIsKeptOfIt) {
  const std::string front = R"({"type":"json_schema","schema":{"x":")" + std::string(400, 'x');
  EXPECT_EQ(Told(With("response_format", (front + "a\"}}").c_str()),
                 With("response_format", (front + "b\"}}").c_str()), "openai"),
            "parameter_changed response_format");
}

TEST(PromptDifferenceTest, SearchAndCitationsSpareTheToolsOfAnthropic) {
  Json searches = Body();
  searches["tools"].push_back({{"type", "web_search_20250305"}, {"name", "web_search"}});
  EXPECT_EQ(Told(Body(), searches), "parameter_changed tools[1]");
  EXPECT_EQ(Told(Body(), searches, "openai"), "tool_added tools[1]");
  Json cites = Body();
  cites["messages"][0]["content"].push_back({{"type", "document"},
                                             {"source", {{"type", "text"}, {"data", "d"}}},
                                             {"citations", {{"enabled", false}}}});
  Json cites_on = cites;
  cites_on["messages"][0]["content"][1]["citations"]["enabled"] = true;
  EXPECT_EQ(Told(cites, cites_on), "parameter_changed messages[0].content[1].citations.enabled");
}

TEST(PromptDifferenceTest, TheFirstImageBreaksTheTurnsInFrontOfItWithAnthropic) {
  Json now = Body();
  now["messages"].push_back({{"role", "assistant"}, {"content", "seen"}});
  now["messages"].push_back(Json::parse(
      R"({"role":"user","content":[{"type":"image","source":{"type":"url","url":"https://x"}}]})"));
  EXPECT_EQ(Told(Body(), now), "parameter_changed messages[4].content[0]");
  EXPECT_EQ(Told(Body(), now, "openai"), "none");
}

TEST(PromptDifferenceTest, TurnsThatTheirProviderHoldsAreNotCompared) {
  const auto request = [](const char* system, const char* text, bool holds_history) {
    const std::string body = std::string(R"({"model":"m","instructions":")") + system +
                             R"(","input":[{"role":"user","content":")" + text + R"("}]})";
    SentRequest sent = SentAs(Endpoint::kResponses, body);
    sent.holds_history = holds_history;
    return sent;
  };
  const CacheEffects effects = CacheEffectsOf("openai", Endpoint::kResponses, nullptr);
  for (const bool first : {false, true}) {
    const SentRequest before = request("Be brief.", "one", first);
    const SentRequest now = request("Be brief.", "two", false);
    EXPECT_FALSE(FindPromptDifference({.before = before, .now = now, .effects = effects}));
    const SentRequest other = request("Be kind.", "two", false);
    const auto found = FindPromptDifference({.before = before, .now = other, .effects = effects});
    ASSERT_TRUE(found);
    EXPECT_EQ(found->cause, BreakCause::kSystemChanged);
  }
}

TEST(PromptDifferenceTest, AParameterThatWouldHaveBrokenWhatWasReadIsNotToBlame) {
  Json now = With("tool_choice", R"({"type":"any"})");
  now["messages"][1]["content"] = "another";
  EXPECT_EQ(Told(Body(), now, "anthropic", 5000), "history_edited messages[1].content");
}

}  // namespace
}  // namespace kvgate::prompt::diagnose
