#include "gateway/prompt/diagnose/prefix_break.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "base/utf8.h"
#include "gateway/dialect/form/json_writer.h"
#include "tests/gateway/prompt/sent_request.h"

namespace kvgate::prompt::diagnose {

using history::SentRequest;

namespace {

using dialect::form::Endpoint;
using Json = nlohmann::ordered_json;

// Returns about 900 tokens of meaningless words.
std::string Filler(const std::string& word) {
  std::string text;
  for (int i = 0; i < 900; ++i) text += word + " ";
  return text;
}

Json Block(const std::string& text) { return {{"type", "text"}, {"text", text}}; }
Json Blocks(std::initializer_list<Json> blocks) {
  Json list = Json::array();
  for (const Json& block : blocks) list.push_back(block);
  return list;
}
Json Turn(const std::string& role, const Json& content) {
  return {{"role", role}, {"content", content}};
}
Json Tool(const std::string& name) {
  return {{"name", name},
          {"description", Filler(name)},
          {"input_schema", {{"type", "object"}, {"properties", {{"q", {{"type", "string"}}}}}}}};
}

// Returns an agent's request to Anthropic, two turns long.
Json Agent() {
  Json body = {{"model", "claude-opus-5"}, {"max_tokens", 100}};
  body["tools"] = Blocks({Tool("read"), Tool("edit"), Tool("bash")});
  body["system"] = Blocks({Block("You are an agent."), Block(Filler("rule"))});
  body["messages"] = Blocks({Turn("user", Blocks({Block(Filler("task"))})),
                             Turn("assistant", Blocks({Block("I look at it.")})),
                             Turn("user", Blocks({Block("Go on.")}))});
  return body;
}
// Returns the same in Chat Completions, with the system prompt among the messages.
Json Chat() {
  Json body = {{"model", "gpt-6-sol"}};
  body["tools"] = Json::array();
  for (const char* name : {"read", "edit"}) {
    body["tools"].push_back(
        {{"type", "function"}, {"function", {{"name", name}, {"description", Filler(name)}}}});
  }
  body["messages"] =
      Blocks({Turn("system", Filler("rule")), Turn("user", Filler("task")),
              Turn("assistant", "I look at it."), Turn("user", "Go on with it, please, now.")});
  return body;
}
void GoOn(Json& body) {
  const bool strings = body["messages"][1]["content"].is_string();
  const auto turn = [&](const char* role, const std::string& text) {
    body["messages"].push_back(Turn(role, strings ? Json(text) : Blocks({Block(text)})));
  };
  turn("assistant", "Done with that, next comes the other part.");
  turn("user", "Good, then do the other part as well.");
}

struct Case {
  Endpoint endpoint = Endpoint::kMessages;
  std::string_view provider = "anthropic";
  int64_t stored = 8000;  // tokens stored by the request before
  int64_t read = 0;       // tokens read by this one
  int64_t gap_seconds = 10;
  std::string_view provider_reason = {};
  bool keep_text = true;
  bool same_conversation = true;
  std::string_view service_tier = {};
};
const Case kChatCase = {.endpoint = Endpoint::kChatCompletions, .provider = "openai"};

void Mark(Json& body) {
  body["messages"].back()["content"].back()["cache_control"]["type"] = "ephemeral";
}

PrefixBreak Told(Json before_body, Json now_body, const Case& it = {}) {
  if (it.endpoint == Endpoint::kMessages) {
    Mark(before_body);
    Mark(now_body);
  }
  SentRequest before = SentAs(it.endpoint, before_body.dump());
  SentRequest now = SentAs(it.endpoint, now_body.dump());
  now.time_us = it.gap_seconds * 1'000'000;
  before.ttl_seconds = 300;
  before.input_tokens = it.stored + 10;
  before.cached_tokens = 0;
  before.written_tokens = it.stored;
  const std::optional<ledger::reply::TokenUsage> usage = ledger::reply::TokenUsage{
      .cache_read_tokens = it.read, .cache_write_tokens = it.stored + 100 - it.read};
  return FindBreak({.before = &before,
                    .same_conversation = it.same_conversation,
                    .now = now,
                    .row = ledger::Prices::Builtin().Find(it.provider, now.model),
                    .usage = usage,
                    .provider = it.provider,
                    .service_tier = it.service_tier,
                    .provider_reason = it.provider_reason,
                    .keep_text = it.keep_text});
}

// Returns the break as "tool_added at tools[1]".
std::string Named(const PrefixBreak& found) {
  EXPECT_FALSE(found.message.empty());
  const std::string cause(BreakCauseName(found.cause));
  return found.path.empty() ? cause : cause + " at " + found.path;
}

TEST(PrefixBreakTest, V1ABillingHeaderThatDiffersIsNamedByItsKind) {
  Json before = Agent();
  Json now = Agent();
  GoOn(now);
  const std::string header = "x-anthropic-billing-header: cc_version=2.1.177.01c; cch=";
  before["system"][0]["text"] = header + "36ee5;";
  now["system"][0]["text"] = header + "41ab0;";
  const PrefixBreak found = Told(before, now);
  EXPECT_EQ(Named(found), "system_changed at system[0].text");
  EXPECT_EQ(found.volatile_kind, "billing_header");
  EXPECT_NE(found.before.find("36ee5"), std::string::npos);
  EXPECT_NE(found.after.find("41ab0"), std::string::npos);
}

TEST(PrefixBreakTest, V3ASystemMessageThatIsHoistedChangesTheSystemPrompt) {
  Json before = Chat();
  Json now = Chat();
  GoOn(now);
  now["messages"].insert(now["messages"].begin() + 1,
                         Turn("system", "<total_tokens>150000 tokens left</total_tokens>"));
  Case it = kChatCase;
  it.read = 6000;
  const PrefixBreak found = Told(before, now, it);
  EXPECT_EQ(Named(found), "system_changed at messages[1]");
  EXPECT_EQ(found.volatile_kind, "counter");
}

TEST(PrefixBreakTest, V4AMarkerOnAVolatileMessageIsToldByThatMessage) {
  Json before = Agent();
  before["messages"].push_back(
      Turn("system", Blocks({Block("<total_tokens>150000 tokens left</total_tokens>")})));
  Json now = Agent();
  GoOn(now);
  now["messages"].push_back(
      Turn("system", Blocks({Block("<total_tokens>140000 tokens left</total_tokens>")})));
  const PrefixBreak found = Told(before, now, {.read = 2700});
  EXPECT_EQ(Named(found), "block_moved at messages[3].content[0]");
  EXPECT_EQ(found.volatile_kind, "counter");
}

TEST(PrefixBreakTest, V5BlocksThatMigrateOnResumeAreMoved) {
  const Json skills = Block("<system-reminder>The following skills are there: " + Filler("skill") +
                            "</system-reminder>");
  Json before = Agent();
  before["messages"][0]["content"].insert(before["messages"][0]["content"].begin(), skills);
  Json now = Agent();
  GoOn(now);
  now["messages"].back()["content"].push_back(skills);
  EXPECT_EQ(Named(Told(before, now, {.read = 4000})), "block_moved at messages[0].content[0]");
}

TEST(PrefixBreakTest, V6AGitStatusInTheLastSystemBlockIsNamedByItsKind) {
  const auto with = [](const std::string& status) {
    Json body = Agent();
    body["system"].push_back(
        Block("gitStatus: This is the git status.\nCurrent branch: main\n\n"
              "Status:\n" +
              status + "\n\nRecent commits:\nabc1234 first"));
    return body;
  };
  Json now = with(" M a.cc\n?? b.cc");
  GoOn(now);
  const PrefixBreak found = Told(with(" M a.cc"), now);
  EXPECT_EQ(Named(found), "system_changed at system[2].text");
  EXPECT_EQ(found.volatile_kind, "git_status");
}

TEST(PrefixBreakTest, V7AReminderInAnOldToolResultIsAnEditOfHistory) {
  const auto with = [](const std::string& count) {
    Json body = Agent();
    const std::string text = Filler("line") + "\n<system-reminder>Token usage: " + count +
                             "/200000; 1 remaining</system-reminder>";
    body["messages"][2]["content"] = Blocks(
        {{{"type", "tool_result"}, {"tool_use_id", "x"}, {"content", text}}, Block("Go on.")});
    return body;
  };
  Json now = with("2000");
  GoOn(now);
  const PrefixBreak found = Told(with("1000"), now, {.read = 4000});
  EXPECT_EQ(Named(found), "history_edited at messages[2].content[0].content");
  EXPECT_FALSE(found.volatile_kind.empty());
}

TEST(PrefixBreakTest, V9AReminderThatWandersWithTheNewestTurnIsMoved) {
  const Json reminder = Block(
      "<system-reminder>Plan mode is on: change nothing, look only, and "
      "say what you would do.</system-reminder>");
  Json before = Agent();
  before["messages"].back()["content"].push_back(reminder);
  Json now = Agent();
  GoOn(now);
  now["messages"].back()["content"].push_back(reminder);
  EXPECT_EQ(Named(Told(before, now, {.read = 4000})), "block_moved at messages[2].content[1]");
}

TEST(PrefixBreakTest, V10ReasoningThatIsNotReplayedIsAnEditOfHistory) {
  Json before = Chat();
  before["messages"].push_back(Turn("assistant", Filler("more")));
  Json now = before;
  before["messages"][2]["reasoning_content"] = "First I have to look at it.";
  GoOn(now);
  Case it = kChatCase;
  it.read = 6000;
  const PrefixBreak found = Told(before, now, it);
  EXPECT_EQ(Named(found), "history_edited at messages[2].reasoning_content");
  EXPECT_EQ(found.before, "First I have to look at it.");
  EXPECT_EQ(found.after, "");
}

TEST(PrefixBreakTest, V12APrunedToolOutputIsPriced) {
  Json before = Agent();
  before["messages"][2]["content"] =
      Blocks({{{"type", "tool_result"}, {"tool_use_id", "x"}, {"content", Filler("out")}}});
  Json now = before;
  GoOn(now);
  now["messages"][2]["content"][0]["content"] = "[Old tool result content cleared]";
  const PrefixBreak found = Told(before, now, {.stored = 219'140, .read = 0});
  EXPECT_EQ(Named(found), "history_edited at messages[2].content[0].content");
  // At most the stored tokens are lost: written again at 1.25 instead of read at 0.1, of 5 dollars
  // per million.
  EXPECT_GT(found.lost_tokens, 150'000);
  EXPECT_LE(found.lost_tokens, 219'140);
  EXPECT_EQ(found.lost_nanodollars, found.lost_tokens * 5'750);
}

TEST(PrefixBreakTest, V13AModeThatSwitchesToolsRemovesOrAddsThem) {
  Json plan = Agent();
  plan["tools"].erase(1);
  Json plan_on = plan;
  Json build_on = Agent();
  GoOn(plan_on);
  GoOn(build_on);
  EXPECT_EQ(Named(Told(Agent(), plan_on)), "tool_removed at tools[1]");
  EXPECT_EQ(Named(Told(plan, build_on)), "tool_added at tools[1]");
}

TEST(PrefixBreakTest, V14WhatADateInTheSystemPromptCostsDependsOnTheOrderOfRendering) {
  Json before = Chat();
  before["model"] = "deepseek-v4";
  Json now = before;
  GoOn(now);
  for (Json* body : {&before, &now}) {
    std::string text = (*body)["messages"][0]["content"];
    text += body == &before ? "\nToday's date: 2026-11-21" : "\nToday's date: 2026-11-22";
    (*body)["messages"][0]["content"] = text;
  }
  const PrefixBreak tools_first =
      Told(before, now, {.endpoint = Endpoint::kChatCompletions, .provider = "openai"});
  const PrefixBreak system_first =
      Told(before, now, {.endpoint = Endpoint::kChatCompletions, .provider = "deepseek"});
  EXPECT_EQ(Named(tools_first), "system_changed at messages[0].content");
  EXPECT_EQ(Named(system_first), "system_changed at messages[0].content");
  EXPECT_EQ(tools_first.volatile_kind, "time");
  EXPECT_GT(tools_first.reusable_tokens, 2000);
  EXPECT_EQ(system_first.reusable_tokens, 0);
}

TEST(PrefixBreakTest, V16ATurnThatIsInsertedIsAnEditOfHistory) {
  Json now = Agent();
  GoOn(now);
  now["messages"].insert(now["messages"].begin() + 1,
                         Turn("user", Blocks({Block("It is Sunday, 22 November, about ten.")})));
  EXPECT_EQ(Named(Told(Agent(), now, {.read = 4000})), "history_edited at messages[1]");
}

TEST(PrefixBreakTest, V17AnIdInAnInstructionIsNamedByItsKind) {
  const auto with = [](const std::string& id) {
    Json body = Agent();
    body["system"][1]["text"] = Filler("rule") + "\nReply to comment " + id + " when done.";
    return body;
  };
  Json now = with("5b8de0aa-1f0c-4d57-8a4e-6e41b0c2d9f3");
  GoOn(now);
  const PrefixBreak found = Told(with("0d9fce3a-7a53-4a39-9f2a-0a6d1b4f7e11"), now);
  EXPECT_EQ(Named(found), "system_changed at system[1].text");
  EXPECT_EQ(found.volatile_kind, "uuid");
}

TEST(PrefixBreakTest, V18AnotherEffortIsAParameterThatBreaksWhatItsProviderSays) {
  Json before = Agent();
  before["output_config"]["effort"] = "low";
  Json now = before;
  GoOn(now);
  now["output_config"]["effort"] = "medium";
  const PrefixBreak found = Told(before, now, {.read = 4500});
  EXPECT_EQ(Named(found), "parameter_changed at output_config.effort");
  EXPECT_GT(found.reusable_tokens, 4000) << "tools and system stay";
  before.erase("output_config");
  now["output_config"]["effort"] = "high";
  EXPECT_EQ(Named(Told(before, now)), "provider_miss") << "high is what counts without it";
  Json chat = Chat();
  chat["reasoning_effort"] = "low";
  Json chat_on = chat;
  GoOn(chat_on);
  chat_on["reasoning_effort"] = "high";
  const PrefixBreak all = Told(chat, chat_on, kChatCase);
  EXPECT_EQ(Named(all), "parameter_changed at reasoning_effort");
  EXPECT_EQ(all.reusable_tokens, 0);
}

TEST(PrefixBreakTest, V19AnAnchorThatComesAndGoesIsAnEditOfHistory) {
  Json before = Agent();
  before["messages"][0]["content"].push_back(Block(" "));
  Json now = Agent();
  GoOn(now);
  EXPECT_EQ(Named(Told(before, now, {.read = 4000})), "history_edited at messages[0].content[1]");
}

TEST(PrefixBreakTest, G4G13ToolsInAnotherOrderAreReorderedOnly) {
  Json now = Agent();
  GoOn(now);
  std::swap(now["tools"][0], now["tools"][2]);
  EXPECT_EQ(Named(Told(Agent(), now)), "tools_reordered at tools[0]");
  now["tools"].insert(now["tools"].begin(), Tool("fetch"));
  EXPECT_EQ(Named(Told(Agent(), now)), "tool_added at tools[0]")
      << "the first in the order of rendering";
}

TEST(PrefixBreakTest, G14KeysInAnotherOrderMeanTheSameAndAreToldSo) {
  Json before = Agent();
  Json now = Agent();
  GoOn(now);
  now["tools"][1]["input_schema"] = {{"properties", {{"q", {{"type", "string"}}}}},
                                     {"type", "object"}};
  const PrefixBreak found = Told(before, now);
  EXPECT_EQ(Named(found), "tool_changed at tools[1].input_schema");
  EXPECT_NE(found.message.find("means the same"), std::string::npos);
  now["tools"][1]["input_schema"] = {{"type", "object"},
                                     {"properties", {{"q", {{"type", "integer"}}}}}};
  EXPECT_EQ(Named(Told(before, now)), "tool_changed at tools[1].input_schema.properties.q.type");
}

TEST(PrefixBreakTest, G16AMissOfTheProvidersIsNotBlamedOnTheCaller) {
  Json now = Agent();
  GoOn(now);
  const PrefixBreak found = Told(Agent(), now);
  EXPECT_EQ(Named(found), "provider_miss");
  EXPECT_TRUE(found.message.starts_with("Nothing you did"));
  EXPECT_EQ(found.lost_tokens, 8000);
  EXPECT_EQ(found.reusable_tokens, 8000);
  Json chat_on = Chat();
  GoOn(chat_on);
  EXPECT_EQ(Named(Told(Chat(), chat_on, kChatCase)), "provider_miss");
}

TEST(PrefixBreakTest, NothingIsBlamedOnAProviderThatHadNotAnsweredYet) {
  Json now_body = Agent();
  GoOn(now_body);
  Json before_body = Agent();
  Mark(before_body);
  Mark(now_body);
  const SentRequest before = SentAs(Endpoint::kMessages, before_body.dump());
  const SentRequest now = SentAs(Endpoint::kMessages, now_body.dump());
  const std::optional<ledger::reply::TokenUsage> usage =
      ledger::reply::TokenUsage{.cache_write_tokens = 8000};
  const PrefixBreak found = FindBreak({.before = &before,
                                       .now = now,
                                       .row = ledger::Prices::Builtin().Find("anthropic", "claude"),
                                       .usage = usage,
                                       .provider = "anthropic"});
  EXPECT_EQ(Named(found), "provider_miss");
  EXPECT_NE(found.message.find("had not been answered"), std::string::npos);
}

TEST(PrefixBreakTest, AMissOfARequestWithThinkingDoesNotClaimToKnow) {
  Json before = Agent();
  before["messages"][1]["content"].insert(
      before["messages"][1]["content"].begin(),
      {{{"type", "thinking"}, {"thinking", "Hm."}, {"signature", "abc"}}});
  Json now = before;
  GoOn(now);
  const PrefixBreak found = Told(before, now);
  EXPECT_EQ(Named(found), "provider_miss");
  EXPECT_EQ(found.message.find("Nothing you did"), std::string::npos);
}

TEST(PrefixBreakTest, AFullHitIsNoBreakWhateverDiffers) {
  Json now = Agent();
  GoOn(now);
  now["system"][0]["text"] = "something else";
  const PrefixBreak found = Told(Agent(), now, {.read = 8000});
  EXPECT_EQ(Named(found), "none");
  EXPECT_EQ(found.lost_tokens, 0);
}

TEST(PrefixBreakTest, TimeThatHasPassedIsNamedWhereTheEqualFrontWasNotReadEither) {
  Json now = Agent();
  GoOn(now);
  EXPECT_EQ(Named(Told(Agent(), now, {.gap_seconds = 301})), "ttl_lapsed");
  EXPECT_EQ(Named(Told(Agent(), now, {.gap_seconds = 299})), "provider_miss");
  now["messages"][2]["content"][0]["text"] = "Go on, but otherwise.";
  EXPECT_EQ(Named(Told(Agent(), now, {.gap_seconds = 301})), "ttl_lapsed");
  EXPECT_EQ(Named(Told(Agent(), now, {.read = 4000, .gap_seconds = 301})),
            "history_edited at messages[2].content[0].text");
}

TEST(PrefixBreakTest, MoreBlocksThanAreLookedBackNeedABreakpointInBetween) {
  Json now = Agent();
  for (int i = 0; i < 11; ++i) GoOn(now);
  const PrefixBreak found = Told(Agent(), now);
  EXPECT_EQ(Named(found), "not_marked");
  EXPECT_NE(found.message.find("in between"), std::string::npos);
}

TEST(PrefixBreakTest, WhatConversationsShareIsNotReadUnlessAMarkerEndsIt) {
  Json before = Agent();
  Json now = Agent();
  now["messages"] = Blocks({Turn("user", Blocks({Block("Do something else.")}))});
  PrefixBreak found = Told(before, now, {.stored = 4800, .same_conversation = false});
  EXPECT_EQ(Named(found), "not_marked");
  EXPECT_NE(found.message.find("No marker ends"), std::string::npos);
  EXPECT_GT(found.lost_tokens, 4000);
  for (Json* body : {&before, &now}) {
    (*body)["system"][1]["cache_control"]["type"] = "ephemeral";
  }
  found = Told(before, now, {.stored = 4800, .same_conversation = false});
  EXPECT_EQ(Named(found), "provider_miss");
  EXPECT_NE(found.message.find("another conversation"), std::string::npos);
  now["system"][0]["text"] = "You are another agent.";
  found = Told(before, now, {.stored = 4800, .same_conversation = false});
  EXPECT_EQ(Named(found), "system_changed at system[0].text");
}

TEST(PrefixBreakTest, ALossCostsWhatItsServiceTierCharges) {
  Json now = Chat();
  GoOn(now);
  Case it = kChatCase;
  const int64_t plain = Told(Chat(), now, it).lost_nanodollars;
  EXPECT_GT(plain, 0);
  it.service_tier = "flex";
  EXPECT_EQ(Told(Chat(), now, it).lost_nanodollars, plain / 2);
}

TEST(PrefixBreakTest, TheLineOfALongTextIsSaid) {
  Json before = Agent();
  Json now = Agent();
  GoOn(now);
  before["system"][1]["text"] = "One.\nTwo.\nBranch: main\n" + Filler("rule");
  now["system"][1]["text"] = "One.\nTwo.\nBranch: topic\n" + Filler("rule");
  EXPECT_NE(Told(before, now).message.find("in line 3 of the text"), std::string::npos);
}

TEST(PrefixBreakTest, TheProvidersOwnReasonIsHeldAgainstTheCause) {
  Json now = Agent();
  GoOn(now);
  const std::string plain = Told(Agent(), now).message;
  const std::string disputed = Told(Agent(), now, {.provider_reason = "tools_changed"}).message;
  EXPECT_NE(plain, disputed);
  EXPECT_NE(disputed.find("the provider says"), std::string::npos);
  EXPECT_EQ(Told(Agent(), now, {.provider_reason = "unavailable"}).message, plain);
  now["tools"].erase(0);
  const std::string removed = Told(Agent(), now).message;
  EXPECT_EQ(Told(Agent(), now, {.provider_reason = "tools_changed"}).message, removed);
  EXPECT_NE(Told(Agent(), now, {.provider_reason = "system_changed"}).message, removed);
}

TEST(PrefixBreakTest, ExcerptsAreShortWholeCharactersAndOnlyWhereTextMayBeKept) {
  Json before = Agent();
  Json now = Agent();
  GoOn(now);
  std::string text;
  for (int i = 0; i < 400; ++i) text += "é€😀";
  before["system"][1]["text"] = text + "alt" + text;
  now["system"][1]["text"] = text + "neu" + text;
  const PrefixBreak found = Told(before, now);
  for (const std::string& excerpt : {found.before, found.after}) {
    EXPECT_LE(excerpt.size(), 120u);
    EXPECT_GT(excerpt.size(), 100u);
    EXPECT_TRUE(IsValidUtf8(excerpt)) << excerpt;
  }
  EXPECT_NE(found.before.find("alt"), std::string::npos);
  const PrefixBreak silent = Told(before, now, {.keep_text = false});
  EXPECT_EQ(silent.before + silent.after, "");
}

TEST(PrefixBreakTest, SegmentsWhoseBytesAreNotKeptAreToldByTheirPlace) {
  Json now_body = Agent();
  GoOn(now_body);
  now_body["system"][1]["text"] = "other";
  SentRequest before = SentAs(Endpoint::kMessages, Agent().dump());
  SentRequest now = SentAs(Endpoint::kMessages, now_body.dump());
  for (SentRequest* request : {&before, &now}) {
    history::SentSegments without_bytes;
    for (history::SentSegment segment : request->segments) {
      segment.bytes = nullptr;
      without_bytes.push_back(std::move(segment));
    }
    request->segments = std::move(without_bytes);
  }
  const std::optional<ledger::reply::TokenUsage> unknown;
  const PrefixBreak found =
      FindBreak({.before = &before, .now = now, .usage = unknown, .provider = "anthropic"});
  EXPECT_EQ(Named(found), "system_changed at system[1]");
  EXPECT_EQ(found.lost_tokens, 0) << "without usage nothing is known to be lost";
}

}  // namespace
}  // namespace kvgate::prompt::diagnose
