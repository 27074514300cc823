#include "gateway/prompt/rewrite/system_turn.h"

#include <gtest/gtest.h>

#include "tests/gateway/prompt/conversations.h"

namespace kvgate::prompt::rewrite {
namespace {

using namespace test;  // NOLINT: the helpers of these tests

// A model, and the turn that it takes.
struct Kind {
  const char* name;
  Endpoint endpoint;
  const char* provider;
  const char* model;
  const char* begin;  // of the turn, up to its text
  const char* end;
};
constexpr Kind kKinds[] = {
    {"chat", Endpoint::kChatCompletions, "openai", "gpt-5.5", R"({"role":"developer","content":")",
     R"("})"},
    {"responses", Endpoint::kResponses, "openai", "gpt-6-sol",
     R"({"type":"message","role":"developer","content":[{"type":"input_text","text":")", R"("}]})"},
    {"plain", Endpoint::kMessages, "anthropic", "claude-opus-5", R"({"role":"system","content":")",
     R"("})"},
    {"clear_at", Endpoint::kMessages, "anthropic", "claude-opus-5-5-20261001",
     R"({"role":"system","clear_at":"next_user_message","content":")", R"("})"}};

std::string SystemOf(std::string_view time) {
  return "Be brief.\nCurrent time: 2026-11-22 " + std::string(time);
}
std::string LineOf(std::string_view time) {
  return "Current time: 2026-11-22 " + std::string(time);
}

// A conversation of an agent that calls tools.
class Loop {
 public:
  explicit Loop(const Kind& kind, Mode mode = Mode::kStabilize)
      : kind_(kind), caller(mode, kind.provider) {
    request.endpoint = kind.endpoint;
    request.model = kind.model;
    request.turns = {Turn("user", "look")};
  }
  // Adds a call and its result.
  void Call(std::string_view result) {
    const std::string id = "c" + std::to_string(++num_calls_);
    if (kind_.endpoint == Endpoint::kMessages) {
      request.turns.push_back(TurnOf(
          "assistant", {R"({"type":"tool_use","id":")" + id + R"(","name":"f","input":{}})"}));
      request.turns.push_back(TurnOf("user", {R"({"type":"tool_result","tool_use_id":")" + id +
                                              R"(","content":)" + Quoted(result) + "}"}));
    } else if (kind_.endpoint == Endpoint::kResponses) {
      request.turns.push_back(R"({"type":"function_call","call_id":")" + id +
                              R"(","name":"f","arguments":"{}"})");
      request.turns.push_back(R"({"type":"function_call_output","call_id":")" + id +
                              R"(","output":)" + Quoted(result) + "}");
    } else {
      request.turns.push_back(R"({"role":"assistant","content":null,"tool_calls":[{"id":")" + id +
                              R"(","type":"function","function":{"name":"f","arguments":"{}"}}]})");
      request.turns.push_back(R"({"role":"tool","tool_call_id":")" + id + R"(","content":)" +
                              Quoted(result) + "}");
    }
  }
  std::string Send(std::string_view time) { return SendSystem(SystemOf(time)); }
  std::string SendSystem(const std::string& system) {
    request.system = system;
    return caller.Send(request);
  }
  std::string OwnTurn(const std::string& text) const { return kind_.begin + text + kind_.end; }
  bool HasBeta() const {
    for (const Header& header : caller.last.headers) {
      if (header.name == kBetaHeader && header.value == kClearAtBeta) return true;
    }
    return false;
  }

  Request request;

 private:
  const Kind kind_;
  int num_calls_ = 0;

 public:
  Caller caller;
};

class SystemTurns : public ::testing::TestWithParam<Kind> {};

TEST_P(SystemTurns, LinesOfTheSystemPromptFollowResultsInATurnOfTheirOwn) {
  Loop loop(GetParam());
  const bool is_clear_at = std::string_view(GetParam().name) == "clear_at";
  std::string before = loop.Send("10:00:00");
  EXPECT_NE(before.find("look\\n\\n" + LineOf("10:00:00")), std::string::npos) << before;
  EXPECT_EQ(loop.HasBeta(), is_clear_at);
  std::vector<std::string> own;
  for (const char* time : {"10:00:05", "10:00:09", "10:00:11"}) {
    loop.Call("ok");
    const std::string after = loop.Send(time);
    EXPECT_TRUE(GoesOn(before, after));
    own.push_back(loop.OwnTurn(LineOf(time)));
    EXPECT_TRUE(after.ends_with("," + own.back() + "]}")) << after;
    EXPECT_EQ(after.find("system-reminder"), std::string::npos) << "results stay as they are";
    EXPECT_TRUE(loop.caller.Used(parse::Rule::kSystemTurn));
    EXPECT_EQ(loop.HasBeta(), is_clear_at) << "it is constant";
    before = after;
  }
  // The words of a user take the line themselves.
  loop.request.turns.push_back(Turn("assistant", "done"));
  loop.request.turns.push_back(Turn("user", "more"));
  const std::string last = loop.Send("10:00:20");
  EXPECT_TRUE(GoesOn(before, last));
  EXPECT_NE(last.find("more\\n\\n" + LineOf("10:00:20")), std::string::npos);
  for (const std::string& turn : own) EXPECT_NE(last.find(turn), std::string::npos) << turn;
}

TEST_P(SystemTurns, ALineThatIsShownIsNotRepeatedAndOneThatIsClearedIs) {
  Loop loop(GetParam());
  const bool is_cleared = std::string_view(GetParam().name) == "clear_at";
  loop.Send("10:00:00");
  loop.Call("one");
  std::string before = loop.Send("10:00:05");
  loop.Call("two");
  const std::string after = loop.Send("10:00:05");
  EXPECT_TRUE(GoesOn(before, after));
  EXPECT_EQ(after.ends_with(loop.OwnTurn(LineOf("10:00:05")) + "]}"), is_cleared) << after;
  // A value that comes back is said again, because another one was said behind it.
  loop.Call("three");
  EXPECT_TRUE(loop.Send("10:00:00").ends_with(loop.OwnTurn(LineOf("10:00:00")) + "]}"));
}

TEST_P(SystemTurns, ARequestThatComesAgainGoesOutAsItDid) {
  Loop loop(GetParam());
  loop.Send("10:00:00");
  loop.Call("ok");
  const std::string first = loop.Send("10:00:05");
  EXPECT_EQ(loop.Send("10:00:05"), first);
  loop.Call("ok");
  EXPECT_TRUE(GoesOn(first, loop.Send("10:00:09")));
}

TEST_P(SystemTurns, WhatAClientTakesOutOfTheSystemPromptIsNotSent) {
  Loop loop(GetParam());
  loop.Send("10:00:00");
  loop.Call("ok");
  EXPECT_NE(loop.Send("10:00:05").find(LineOf("10:00:05")), std::string::npos);
  loop.Call("ok");
  const std::string after = loop.SendSystem("Be brief.");
  EXPECT_EQ(after.find("Current time"), std::string::npos) << after;
}

// A user's lines, and those of reminders and results, would be obeyed like the system's own.
TEST_P(SystemTurns, NoTextOfAUserStandsInOne) {
  Loop loop(GetParam());
  const auto first = [](std::string_view branch) {
    return Turn("user", "Please fix the build of branch north-" + std::string(branch) +
                            " before noon.\nThen stop.");
  };
  std::string sent;
  for (const char* branch : {"1", "2", "3", "4"}) {
    loop.request.turns[0] = first(branch);
    sent = loop.Send("10:00:0" + std::string(branch));
    if (std::string_view(branch) != "4") loop.Call("ok");
  }
  const size_t own = sent.rfind(GetParam().begin);
  ASSERT_NE(own, std::string::npos) << sent;
  EXPECT_EQ(sent.find("north-", own), std::string::npos) << sent;
  EXPECT_NE(sent.find("north-4"), std::string::npos) << "it is said elsewhere";
}

TEST_P(SystemTurns, TheRuleCanBeSwitchedOff) {
  Loop loop(GetParam());
  loop.caller.rules_off = parse::Bit(parse::Rule::kSystemTurn);
  const std::string before = loop.Send("10:00:00");
  EXPECT_FALSE(loop.HasBeta());
  loop.Call("ok");
  const std::string after = loop.Send("10:00:05");
  EXPECT_TRUE(GoesOn(before, after));
  EXPECT_NE(after.find("ok\\n\\n<system-reminder>\\n" + LineOf("10:00:05")), std::string::npos);
}

TEST_P(SystemTurns, AModelThatDoesNotTakeThemGetsNone) {
  Loop loop(GetParam());
  loop.caller.session = "s";
  loop.Send("10:00:00");
  loop.Call("ok");
  loop.Send("10:00:05");
  loop.request.model = "another-model";
  loop.Call("ok");
  const std::string after = loop.Send("10:00:09");
  EXPECT_EQ(after.find(GetParam().begin), std::string::npos) << after;
  EXPECT_NE(after.find(LineOf("10:00:09")), std::string::npos);
  EXPECT_FALSE(loop.HasBeta());
}

TEST_P(SystemTurns, OneThatWasRefusedIsSentOnceMoreWithoutAndIsOffFromThenOn) {
  Loop loop(GetParam());
  const bool is_clear_at = std::string_view(GetParam().name) == "clear_at";
  loop.Send("10:00:00");
  if (!is_clear_at) {
    EXPECT_FALSE(loop.caller.last.MayBeRefused());
    loop.Call("ok");
    loop.Send("10:00:05");
  }
  ASSERT_TRUE(loop.caller.last.MayBeRefused());
  const Prepared refused = loop.caller.last;
  loop.caller.optimizer().Abandon(refused);
  loop.caller.no_system_turn = true;
  const std::string again = loop.Send("10:00:05");
  EXPECT_EQ(again.find(GetParam().begin), std::string::npos) << again;
  EXPECT_NE(again.find(LineOf("10:00:05")), std::string::npos);
  EXPECT_FALSE(loop.caller.last.MayBeRefused());
  EXPECT_NE(loop.caller.optimizer().NoteRefused(refused), "");
  EXPECT_EQ(loop.caller.optimizer().NoteRefused(refused), "") << "it is said once";
  loop.caller.no_system_turn = false;
  // The conversation goes on without, and so does another one; but where only the header was
  // refused, other conversations get turns that need none.
  loop.Call("ok");
  const std::string later = loop.Send("10:00:09");
  EXPECT_TRUE(GoesOn(again, later));
  EXPECT_EQ(later.find(GetParam().begin), std::string::npos) << later;
  loop.caller.session = "another";
  loop.request.turns = {Turn("user", "look again")};
  loop.Send("10:01:00");
  EXPECT_FALSE(loop.HasBeta());
  loop.Call("ok");
  const std::string other = loop.Send("10:01:05");
  const std::string plain = R"({"role":"system","content":")" + LineOf("10:01:05");
  EXPECT_EQ(other.find(plain) != std::string::npos, is_clear_at) << other;
  EXPECT_EQ(other.find("system-reminder") == std::string::npos, is_clear_at) << other;
}

INSTANTIATE_TEST_SUITE_P(Kinds, SystemTurns, ::testing::ValuesIn(kKinds),
                         [](const auto& test) { return std::string(test.param.name); });

TEST(SystemTurn, ItFollowsAUsersTurnOnly) {
  Loop loop(kKinds[2]);
  loop.Send("10:00:00");
  loop.Call("ok");
  loop.request.turns.push_back(Turn("system", "Two calls are left."));
  const std::string after = loop.Send("10:00:05");
  EXPECT_TRUE(after.ends_with(Turn("system", "Two calls are left.") + "]}")) << after;
  EXPECT_NE(after.find("ok\\n\\n<system-reminder>\\n" + LineOf("10:00:05")), std::string::npos);
}

TEST(SystemTurn, OtherModesAddNone) {
  for (const Mode mode : {Mode::kObserve, Mode::kPin}) {
    Loop loop(kKinds[3], mode);
    loop.Send("10:00:00");
    EXPECT_FALSE(loop.HasBeta());
    loop.Call("ok");
    loop.Send("10:00:05");
    EXPECT_FALSE(loop.caller.last.MayBeRefused());
  }
}

TEST(SystemTurn, WhatAModelTakesDependsOnTheEndpoint) {
  using ledger::SystemTurn;
  ledger::PriceRow row;
  row.system_turn = SystemTurn::kDeveloper;
  EXPECT_EQ(SystemTurnOf(&row, Endpoint::kResponses), SystemTurn::kDeveloper);
  EXPECT_EQ(SystemTurnOf(&row, Endpoint::kMessages), SystemTurn::kNone);
  row.system_turn = SystemTurn::kClearAt;
  EXPECT_EQ(SystemTurnOf(&row, Endpoint::kMessages), SystemTurn::kClearAt);
  EXPECT_EQ(SystemTurnOf(&row, Endpoint::kChatCompletions), SystemTurn::kNone);
  EXPECT_EQ(SystemTurnOf(nullptr, Endpoint::kMessages), SystemTurn::kNone);
  EXPECT_EQ(LesserOf(SystemTurn::kClearAt, SystemTurn::kPlain), SystemTurn::kPlain);
  EXPECT_EQ(LesserOf(SystemTurn::kDeveloper, SystemTurn::kPlain), SystemTurn::kNone);
  EXPECT_EQ(LesserOf(SystemTurn::kDeveloper, SystemTurn::kDeveloper), SystemTurn::kDeveloper);
}

}  // namespace
}  // namespace kvgate::prompt::rewrite
