#include "gateway/prompt/rewrite/stabilize.h"

#include <gtest/gtest.h>

#include "tests/gateway/prompt/conversations.h"

namespace kvgate::prompt::rewrite {
namespace {

using namespace test;  // NOLINT: the helpers of these tests

// Returns the texts of a request's turns, in order.
std::vector<std::string> Texts(const std::string& body) {
  const json parsed = json::parse(body);
  std::vector<std::string> texts;
  for (const json& turn : parsed[parsed.contains("input") ? "input" : "messages"]) {
    if (turn["content"].is_string()) texts.push_back(turn["content"]);
    if (!turn["content"].is_array()) continue;
    for (const json& block : turn["content"]) texts.push_back(block.value("text", "?"));
  }
  return texts;
}

class Stabilized : public ::testing::TestWithParam<Endpoint> {
 protected:
  Request Start(const std::string& system) const {
    return {.endpoint = GetParam(), .system = system, .turns = {Turn("user", "fix the bug")}};
  }
  static void Answer(Request& request, const std::string& user) {
    request.turns.push_back(Turn("assistant", "I did."));
    request.turns.push_back(Turn("user", user));
  }
  Caller caller_{Mode::kStabilize, GetParam() == Endpoint::kMessages ? "vllm" : "openai"};
};

TEST_P(Stabilized, ACleanCallersBytesAreIdentical) {
  Request request = Start("You are an agent. Version 2.1.177, $5 a month.");
  for (int turn = 0; turn < 4; ++turn) {
    EXPECT_EQ(caller_.Send(request), request.Body());
    Answer(request, "more");
  }
}

TEST_P(Stabilized, V1ABillingHeaderKeepsItsFirstValueForOtherProviders) {
  const auto system = [](std::string_view cch) {
    return "x-anthropic-billing-header: cc_version=2.1.177.01c; cch=" + std::string(cch) +
           ";\nYou are an agent.";
  };
  Request request = Start(system("36ee5"));
  const std::string before = caller_.Send(request);
  EXPECT_EQ(before, request.Body());
  request.system = system("77aa1");
  Answer(request, "go on");
  EXPECT_TRUE(GoesOn(before, caller_.Send(request)));
  EXPECT_TRUE(caller_.Used(parse::Rule::kVolatileHeld));
}

TEST_P(Stabilized, V2ABillingHeaderIsNeverTouchedForAnthropic) {
  Caller caller(Mode::kStabilize, "anthropic");
  Request request = Start("x-anthropic-billing-header: cch=36ee5;\nYou are an agent.");
  caller.Send(request);
  request.system = "x-anthropic-billing-header: cch=77aa1;\nYou are an agent.";
  Answer(request, "go on");
  EXPECT_EQ(caller.Send(request), request.Body());
}

TEST_P(Stabilized, V14ADateAndCwdAtTheEndOfTheSystemPromptMoveBehindIt) {
  const auto system = [](std::string_view time) {
    return "You are an agent.\nWorking directory: /src/app\nCurrent time: " + std::string(time);
  };
  Request request = Start(system("2026-11-22T10:31:07Z"));
  const std::string first = caller_.Send(request);
  EXPECT_TRUE(caller_.Used(parse::Rule::kVolatileMoved));
  EXPECT_EQ(Texts(first).back(),
            "fix the bug\n\nWorking directory: /src/app\nCurrent time: 2026-11-22T10:31:07Z");
  std::string before = first;
  for (int turn = 0; turn < 4; ++turn) {
    request.system = system("2026-11-22T10:4" + std::to_string(turn) + ":00Z");
    Answer(request, "more");
    const std::string after = caller_.Send(request);
    EXPECT_TRUE(GoesOn(before, after));
    EXPECT_EQ(Texts(after).back(),
              "more\n\nCurrent time: 2026-11-22T10:4" + std::to_string(turn) + ":00Z");
    before = after;
  }
}

TEST_P(Stabilized, ALineThatDidNotChangeIsNotSentAgain) {
  Request request = Start("Today's date: 2026-11-22\nYou are an agent.");
  const std::string before = caller_.Send(request);
  Answer(request, "more");
  const std::string after = caller_.Send(request);
  EXPECT_TRUE(GoesOn(before, after));
  EXPECT_EQ(Texts(after).back(), "more");
}

TEST_P(Stabilized, V16AnHourGranularTimestampMoves) {
  Request request = Start("It is currently 2026-11-22 10:00\nYou are an agent.");
  const std::string before = caller_.Send(request);
  request.system = "It is currently 2026-11-22 11:00\nYou are an agent.";
  Answer(request, "more");
  EXPECT_TRUE(GoesOn(before, caller_.Send(request)));
}

TEST_P(Stabilized, V17AUuidOnALineOfItsOwnKeepsItsFirstValue) {
  const auto system = [](char digit) {
    return "Rules.\n<!-- run 3f2504e0-4f89-11d3-9a0c-0305e82c330" + std::string(1, digit) +
           " -->\nMore rules.";
  };
  Request request = Start(system('1'));
  const std::string before = caller_.Send(request);
  EXPECT_EQ(before, request.Body());
  request.system = system('2');
  Answer(request, "more");
  EXPECT_TRUE(GoesOn(before, caller_.Send(request)));
}

// A value beside other text does not move by its form; once it has changed, its whole line follows.
TEST_P(Stabilized, AValueBesideOtherTextIsLeftAloneUntilItChanges) {
  Request request = Start("Meetings on 2026-11-22 count for ticket 5 only.");
  const std::string before = caller_.Send(request);
  EXPECT_EQ(before, request.Body());
  EXPECT_FALSE(caller_.last.notes.empty());
  request.system = "Meetings on 2026-11-23 count for ticket 5 only.";
  Answer(request, "more");
  const std::string after = caller_.Send(request);
  EXPECT_TRUE(GoesOn(before, after));
  EXPECT_EQ(Texts(after).back(),
            "more\n\n<system-reminder>\nMeetings on 2026-11-23 count for ticket 5 only.\n"
            "</system-reminder>");
}

TEST_P(Stabilized, ADateThatAUserCorrectsReachesTheModel) {
  Request request = Start("Be brief.");
  request.turns[0] = Turn("user", "book the room for 2026-11-22");
  caller_.Send(request);
  request.turns[0] = Turn("user", "book the room for 2026-11-23");
  Answer(request, "more");
  EXPECT_EQ(caller_.Send(request), request.Body());
}

TEST_P(Stabilized, VolatileTextNeverCrossesConversations) {
  Request request = Start("Request-Id: req_0123456789abcdef\nToday's date: 2026-11-22\nBe brief.");
  caller_.Send(request);
  Request other = request;
  other.system = "Request-Id: req_fedcba9876543210\nToday's date: 2026-11-23\nBe brief.";
  other.turns[0] = Turn("user", "something else");
  const std::string sent = caller_.Send(other);
  EXPECT_EQ(sent.find("0123456789abcdef"), std::string::npos);
  EXPECT_EQ(sent.find("2026-11-22"), std::string::npos);
  EXPECT_NE(sent.find("2026-11-23"), std::string::npos);
  // It does not cross between two conversations that begin alike, either.
  other.turns = request.turns;
  const std::string again = caller_.Send(other);
  EXPECT_EQ(again.find("0123456789abcdef"), std::string::npos);
}

TEST_P(Stabilized, ATurnThatComesAgainGoesOutAsItDidButForWhatIsNew) {
  caller_.session = "s";
  Request request = Start("Current time: 2026-11-22T10:31:07Z\nBe brief.");
  const std::string before = caller_.Send(request);
  EXPECT_EQ(caller_.Send(request), before);
  request.system = "Current time: 2026-11-22T10:31:09Z\nBe brief.";
  const std::string after = caller_.Send(request);
  EXPECT_EQ(Texts(after).back(), "fix the bug\n\nCurrent time: 2026-11-22T10:31:09Z");
  EXPECT_EQ(after.find("10:31:07"), std::string::npos);
}

TEST_P(Stabilized, ALineThatLeavesTheSystemPromptIsTakenBack) {
  Request request = Start("Be brief.\nWorking directory: /src/app\nCurrent time: 2026-11-22 10:31");
  EXPECT_NE(caller_.Send(request).find("/src/app"), std::string::npos);
  request.system = "Be brief.\nCurrent time: 2026-11-22 10:32";
  Answer(request, "more");
  const std::string after = caller_.Send(request);
  EXPECT_EQ(after.find("/src/app"), std::string::npos);
  EXPECT_EQ(Texts(after).back(), "more\n\nCurrent time: 2026-11-22 10:32");
  Answer(request, "and more");
  EXPECT_TRUE(GoesOn(after, caller_.Send(request)));
}

TEST_P(Stabilized, ATimeAloneOnItsLineStaysUntilItChangesAndIsSaidBehindItsWords) {
  Request request = Start(
      "The offer ends on\n2026-11-30\nat noon. Order:\n"
      "0f8fad5b-d9cb-469f-a165-70867728950e\nBe brief.");
  EXPECT_EQ(caller_.Send(request), request.Body());
  request.system =
      "The offer ends on\n2026-12-30\nat noon. Order:\n"
      "7c9e6679-7425-40de-944b-e07fc1f90ae7\nBe brief.";
  Answer(request, "more");
  const std::string sent = caller_.Send(request);
  EXPECT_NE(sent.find("The offer ends on\\n2026-11-30\\nat noon"), sent.npos) << sent;
  EXPECT_NE(sent.find("more\\n\\n<system-reminder>\\nThe offer ends on\\n2026-12-30\\n"),
            sent.npos);
  EXPECT_NE(sent.find("at noon. Order:\\n7c9e6679-7425-40de-944b-e07fc1f90ae7"), sent.npos) << sent;
}

TEST_P(Stabilized, AValueThatIsHeldIsSaid) {
  const auto system = [](char digit) {
    return "Be brief.\nRequest id: 3f2504e0-4f89-11d3-9a0c-0305e82c330" + std::string(1, digit);
  };
  Request request = Start(system('1'));
  std::string before = caller_.Send(request);
  EXPECT_EQ(before, request.Body());
  // The first value comes back and is sent again, because another one was said after it.
  for (const char digit : {'2', '2', '1'}) {
    const bool is_new = before.rfind("330") == before.find("330") || digit == '1';
    request.system = system(digit);
    Answer(request, "more");
    const std::string after = caller_.Send(request);
    EXPECT_TRUE(GoesOn(before, after));
    const std::string line = "\n\nRequest id: 3f2504e0-4f89-11d3-9a0c-0305e82c330";
    EXPECT_EQ(Texts(after).back(), is_new ? "more" + line + digit : "more");
    before = after;
  }
}

INSTANTIATE_TEST_SUITE_P(Dialects, Stabilized,
                         ::testing::Values(Endpoint::kMessages, Endpoint::kChatCompletions,
                                           Endpoint::kResponses),
                         DialectOf);

std::string Result(std::string_view text) {
  return R"({"type":"tool_result","tool_use_id":"toolu_1","content":)" + Quoted(text) + "}";
}
std::string Call() {
  return TurnOf("assistant", {R"({"type":"tool_use","id":"toolu_1","name":"f","input":{}})"});
}
std::string System(std::string_view time) {
  return "Be brief.\nCurrent time: 2026-11-22 " + std::string(time);
}

TEST(Stabilize, ATurnOfToolResultsCarriesALineInItsLastResult) {
  Caller caller(Mode::kStabilize, "anthropic");
  Request request{.system = System("10:00:00"), .turns = {Turn("user", "look")}};
  std::string before = caller.Send(request);
  request.system = System("10:00:05");
  request.turns.push_back(Call());
  request.turns.push_back(TurnOf("user", {Result("one"), Result("ok")}));
  std::string after = caller.Send(request);
  EXPECT_TRUE(GoesOn(before, after));
  EXPECT_NE(after.find("ok\\n\\n<system-reminder>\\nCurrent time: 2026-11-22 10:00:05\\n"
                       "</system-reminder>\"}]}]}"),
            std::string::npos)
      << after;
  before = after;
  request.system = System("10:00:09");
  request.turns.push_back(Turn("assistant", "done"));
  request.turns.push_back(Turn("user", "more"));
  after = caller.Send(request);
  EXPECT_TRUE(GoesOn(before, after));
  EXPECT_NE(after.find("more\\n\\nCurrent time: 2026-11-22 10:00:09"), std::string::npos);
}

std::string Image() {
  return TurnOf("user",
                {R"({"type":"image","source":{"type":"url","url":"https://example.com/a.png"}})"});
}

const std::vector<std::string> kHeld = {
    "held_stale: no text of this request can take the new values of 1 line(s); the provider keeps "
    "the earlier ones until one can"};

TEST(Stabilize, WhereNothingNewIsATextAValueIsHeldAndSaidToBe) {
  Caller caller(Mode::kStabilize, "anthropic");
  caller.step_us = 10'000'000;
  Request request{.system = System("10:00:00"), .turns = {Turn("user", "look")}};
  std::string before = caller.Send(request);
  EXPECT_EQ(Texts(before)[0], "look\n\nCurrent time: 2026-11-22 10:00:00");
  EXPECT_FALSE(caller.last.held_stale);
  int64_t seconds = 10;
  for (const char* time : {"10:00:05", "10:00:09"}) {
    request.system = System(time);
    request.turns.push_back(Turn("assistant", "at what?"));
    request.turns.push_back(Image());
    const std::string after = caller.Send(request);
    EXPECT_TRUE(GoesOn(before, after));
    EXPECT_EQ(after.find(time), std::string::npos);
    EXPECT_EQ(caller.last.notes, kHeld);
    ASSERT_TRUE(caller.last.held_stale);
    EXPECT_EQ(caller.last.held_stale->num_lines, 1U);
    EXPECT_EQ(caller.last.held_stale->seconds, seconds);
    seconds += 10;
    before = after;
  }
  request.system = System("10:00:20");
  request.turns.push_back(Turn("assistant", "at what?"));
  request.turns.push_back(Turn("user", "at this"));
  const std::string after = caller.Send(request);
  EXPECT_TRUE(GoesOn(before, after));
  EXPECT_EQ(Texts(after).back(), "at this\n\nCurrent time: 2026-11-22 10:00:20");
  EXPECT_FALSE(caller.last.held_stale);
}

// Words may be a permission or a secret, and what was taken back may not be sent.
TEST(Stabilize, OnlyValuesAreHeld) {
  for (const char* gone : {"", "Current folder: /srv/b"}) {
    Caller caller(Mode::kStabilize, "anthropic");
    Request request{.system = System("10:00:00"), .turns = {Turn("user", "look")}};
    EXPECT_EQ(Texts(caller.Send(request))[0], "look\n\nCurrent time: 2026-11-22 10:00:00");
    request.system = "Be brief.\n" + std::string(gone);
    request.turns.push_back(Turn("assistant", "at what?"));
    request.turns.push_back(Image());
    const std::string sent = caller.Send(request);
    EXPECT_EQ(sent.find("10:00:00"), std::string::npos) << sent;
    EXPECT_NE(sent.find(gone), std::string::npos) << sent;
    EXPECT_FALSE(caller.last.held_stale);
  }
}

TEST(Stabilize, AValueIsNotHeldWhereNothingWouldEverSayIt) {
  Caller caller(Mode::kStabilize, "anthropic");
  caller.rules_off = parse::Bit(parse::Rule::kVolatileMoved);
  Request request{.system = "Be brief.\nRequest id: 0f8fad5b-d9cb-469f-a165-000000000001",
                  .turns = {Turn("user", "look")}};
  caller.Send(request);
  request.system.back() = '2';
  request.turns.push_back(Turn("assistant", "at what?"));
  request.turns.push_back(Image());
  EXPECT_NE(caller.Send(request).find("000000000002"), std::string::npos);
  EXPECT_FALSE(caller.last.held_stale);
}

TEST(Stabilize, WhatNothingCanCarryKeepsItsFirstValueUntilATextSaysTheNewOne) {
  Caller caller(Mode::kStabilize, "anthropic");
  Request request{.system = System("10:00:00"), .turns = {Image()}};
  const std::string first = caller.Send(request);
  EXPECT_EQ(first, request.Body());
  request.system = System("10:00:05");
  request.turns.push_back(Turn("assistant", "I see."));
  request.turns.push_back(Image());
  const std::string before = caller.Send(request);
  EXPECT_TRUE(GoesOn(first, before));
  EXPECT_EQ(caller.last.notes, kHeld);
  request.system = System("10:00:09");
  request.turns.push_back(Turn("assistant", "I see."));
  request.turns.push_back(Turn("user", "more"));
  const std::string after = caller.Send(request);
  EXPECT_TRUE(GoesOn(before, after));
  EXPECT_EQ(Texts(after).back(), "more\n\nCurrent time: 2026-11-22 10:00:09");
}

TEST(Stabilize, AConversationFirstSeenInATurnOfToolResultsKeepsItsLineInPlace) {
  Caller caller(Mode::kStabilize, "anthropic");
  Request request{.system = System("10:00:00"),
                  .turns = {Turn("user", "look"), Call(), TurnOf("user", {Result("ok")})}};
  const std::string before = caller.Send(request);
  EXPECT_EQ(before, request.Body());
  request.system = System("10:00:05");
  request.turns.push_back(Call());
  request.turns.push_back(TurnOf("user", {Result("ok")}));
  EXPECT_TRUE(GoesOn(before, caller.Send(request)));
}

TEST(Stabilize, V3CountersInSystemTurnsStayWhereTheyAreWhileTheirCallerSendsThem) {
  for (const Endpoint endpoint : {Endpoint::kMessages, Endpoint::kChatCompletions}) {
    Caller caller(Mode::kStabilize, "vllm");
    const auto left = [](int n) {
      return Turn("system", "<total_tokens>" + std::to_string(n) + " tokens left</total_tokens>");
    };
    Request request{
        .endpoint = endpoint, .system = "Be brief.", .turns = {Turn("user", "one"), left(900)}};
    std::string before = caller.Send(request);
    EXPECT_EQ(before, request.Body());
    // The next turn's counter follows it; the caller first rewrites the old one, then leaves it
    // out.
    request.turns = {Turn("user", "one"), left(800), Turn("assistant", "a"), Turn("user", "two"),
                     left(800)};
    std::string after = caller.Send(request);
    EXPECT_TRUE(GoesOn(before, after));
    // A counter before other turns stays; the one that came last goes when its caller drops it.
    before = after.substr(0, after.rfind("," + left(800))) + "]}";
    request.turns = {Turn("user", "one"),    Turn("assistant", "a"), Turn("user", "two"),
                     Turn("assistant", "b"), Turn("user", "three"),  left(700)};
    const std::string last = caller.Send(request);
    EXPECT_TRUE(GoesOn(before, last));
    EXPECT_NE(last.find("900 tokens"), std::string::npos);
    EXPECT_EQ(last.find("800 tokens"), std::string::npos);
  }
}

TEST(Stabilize, V3ACounterThatCameLastIsLetGoWhenAnotherTakesItsPlace) {
  for (const bool as_block : {false, true}) {
    Caller caller(Mode::kStabilize, "anthropic");
    const auto turns = [&](const std::vector<std::string>& said, int tokens) {
      const std::string text =
          "<total_tokens>" + std::to_string(tokens) + " tokens left</total_tokens>";
      std::vector<std::string> all;
      for (size_t i = 0; i < said.size(); ++i) {
        std::vector<std::string> blocks = {Block(said[i])};
        if (as_block && i + 1 == said.size()) blocks.push_back(Block(text));
        all.push_back(TurnOf(i % 2 == 0 ? "user" : "assistant", blocks));
      }
      if (!as_block) all.push_back(TurnOf("system", {Block(text)}));
      return all;
    };
    Request request{.turns = turns({"one"}, 900)};
    caller.Send(request);
    for (const int tokens : {800, 700, 600}) {
      std::vector<std::string> said = {"one"};
      for (int left = 900; left > tokens; left -= 100) said.insert(said.end(), {"yes", "more"});
      request.turns = turns(said, tokens);
      EXPECT_EQ(caller.Send(request), request.Body());
    }
  }
}

TEST(Stabilize, V5RemindersThatMigrateStayWhereTheyWereFirstSeen) {
  Caller caller(Mode::kStabilize, "anthropic");
  const std::string skills = Block("<system-reminder>Skills: a, b</system-reminder>");
  Request request{.turns = {TurnOf("user", {skills, Block("fix it")})}};
  const std::string before = caller.Send(request);
  request.turns = {TurnOf("user", {Block("fix it")}), Turn("assistant", "done"),
                   TurnOf("user", {skills, Block("more")})};
  const std::string after = caller.Send(request);
  EXPECT_TRUE(GoesOn(before, after));
  EXPECT_TRUE(caller.Used(parse::Rule::kReminderKept));
  const std::vector<std::string> texts = Texts(after);
  EXPECT_EQ(
      std::count(texts.begin(), texts.end(), "<system-reminder>Skills: a, b</system-reminder>"), 1);
  // The client keeps it in the turn that it migrated to, and the request that goes out keeps it
  // where it was first seen.
  request.turns.push_back(Turn("assistant", "done"));
  request.turns.push_back(Turn("user", "and more"));
  EXPECT_TRUE(GoesOn(after, caller.Send(request)));
}

TEST(Stabilize, V9AReminderThatFollowsTheNewestTurnStaysInItsFirst) {
  for (const Endpoint endpoint : {Endpoint::kMessages, Endpoint::kChatCompletions}) {
    Caller caller(Mode::kStabilize, "vllm");
    const std::string mode = Block("<system-reminder>You may build now.</system-reminder>");
    Request request{.endpoint = endpoint, .turns = {TurnOf("user", {Block("turn 0"), mode})}};
    std::string before = caller.Send(request);
    for (int turn = 1; turn < 5; ++turn) {
      request.turns.back() = TurnOf("user", {Block("turn " + std::to_string(turn - 1))});
      request.turns.push_back(Turn("assistant", "done"));
      request.turns.push_back(TurnOf("user", {Block("turn " + std::to_string(turn)), mode}));
      const std::string after = caller.Send(request);
      EXPECT_TRUE(GoesOn(before, after));
      before = after;
    }
  }
}

TEST(Stabilize, V9AMessageThatBecomesAStringWhenItsReminderLeavesGoesOutAsItWas) {
  for (const Endpoint endpoint : {Endpoint::kMessages, Endpoint::kChatCompletions}) {
    Caller caller(Mode::kStabilize, "openai");
    const std::string mode = Block("<system-reminder>You may build now.</system-reminder>");
    const auto system = [](int turn) {
      return "Be brief.\nCurrent time: 2026-11-22T10:31:0" + std::to_string(turn) + "Z";
    };
    Request request{.endpoint = endpoint,
                    .system = system(0),
                    .turns = {TurnOf("user", {Block("turn 0"), mode})}};
    std::string before = caller.Send(request);
    for (int turn = 1; turn < 5; ++turn) {
      request.system = system(turn);
      request.turns.back() = Turn("user", "turn " + std::to_string(turn - 1));
      request.turns.push_back(Turn("assistant", "done"));
      request.turns.push_back(TurnOf("user", {Block("turn " + std::to_string(turn)), mode}));
      const std::string after = caller.Send(request);
      EXPECT_FALSE(caller.last.first_of_conversation);
      EXPECT_TRUE(GoesOn(before, after));
      before = after;
    }
  }
}

TEST(Stabilize, V5AStringThatBecomesAListWhenAReminderComesToItGoesOutAsItWas) {
  Caller caller(Mode::kStabilize, "openai");
  const std::string skills = Block("<system-reminder>Skills: a, b</system-reminder>");
  Request request{.endpoint = Endpoint::kChatCompletions,
                  .turns = {TurnOf("user", {skills, Block("fix it")}), Turn("assistant", "done"),
                            Turn("user", "more"), Turn("assistant", "done")}};
  caller.Send(request);
  request.turns.push_back(Turn("user", "and more"));
  const std::string before = caller.Send(request);
  request.turns[0] = Turn("user", "fix it");
  request.turns[2] = TurnOf("user", {skills, Block("more")});
  request.turns.push_back(Turn("assistant", "done"));
  request.turns.push_back(Turn("user", "the end"));
  EXPECT_TRUE(GoesOn(before, caller.Send(request)));
}

TEST(Stabilize, AMessageOfAnotherFormThatSaysAnotherThingGoesOutAsItCame) {
  Caller caller(Mode::kStabilize, "openai");
  const std::string mode = Block("<system-reminder>You may build now.</system-reminder>");
  Request request{.endpoint = Endpoint::kChatCompletions,
                  .turns = {TurnOf("user", {Block("look at 10:31:07"), mode}),
                            Turn("assistant", "a"), Turn("user", "more")}};
  caller.Send(request);
  request.turns[0] = Turn("user", "look at 10:31:08");
  request.turns.push_back(Turn("assistant", "b"));
  request.turns.push_back(Turn("user", "and more"));
  EXPECT_EQ(caller.Send(request), request.Body());
}

TEST(Stabilize, V9AReminderInATextStaysWithTheTurnThatHadItWhileItIsSaid) {
  Caller caller(Mode::kStabilize, "openai");
  const std::string plan = "\n\n<system-reminder>Read only.</system-reminder>";
  Request request{.endpoint = Endpoint::kChatCompletions, .turns = {Turn("user", "plan" + plan)}};
  const std::string before = caller.Send(request);
  request.turns = {Turn("user", "plan"), Turn("assistant", "done"), Turn("user", "go on" + plan)};
  EXPECT_TRUE(GoesOn(before, caller.Send(request)));
  request.turns = {Turn("user", "plan"), Turn("assistant", "done"), Turn("user", "go on"),
                   Turn("assistant", "done"), Turn("user", "build")};
  EXPECT_EQ(caller.Send(request), request.Body());
}

TEST(Stabilize, WhatAUserDeletesInAnEarlierTurnIsNotSent) {
  const std::vector<std::string> deleted = {
      "2026-11-22",
      "Current date: 2026-11-22",
      "0f8fad5b-d9cb-469f-a165-70867728950e",
      "Token usage: 5/9",
      "<system-reminder>Use tabs.</system-reminder>",
      "<total_tokens>9 tokens left</total_tokens>",
      "gitStatus: now\nStatus:\nM a.c",
      "<environment_details>\nMode: ACT\n</environment_details>"};
  for (const std::string& text : deleted) {
    const std::vector<std::pair<std::vector<std::string>, std::vector<std::string>>> edits = {
        {{Turn("user", text + "\nGo.")}, {Turn("user", "Go.")}},
        {{Turn("user", "Go.\n\n" + text)}, {Turn("user", "Go.")}},
        {{TurnOf("user", {Block(text), Block("Go.")})}, {TurnOf("user", {Block("Go.")})}},
        {{TurnOf("user", {Block(text), Block("Go.")})}, {Turn("user", "Go.")}},
        {{Turn("user", text), Turn("user", "Go.")}, {Turn("user", "Go.")}}};
    for (const auto& [before, after] : edits) {
      Caller caller(Mode::kStabilize, "openai");
      caller.session = "s";
      Request request{.endpoint = Endpoint::kChatCompletions, .turns = before};
      request.turns.push_back(Turn("assistant", "a"));
      request.turns.push_back(Turn("user", "b"));
      caller.Send(request);
      request.turns = after;
      for (const char* more : {"a", "b", "c", "d"}) {
        request.turns.push_back(Turn(more[0] % 2 == 1 ? "assistant" : "user", more));
      }
      EXPECT_EQ(caller.Send(request), request.Body()) << text;
    }
  }
}

TEST(Stabilize, ACounterThatIsGoneIsKeptOnlyInFrontOfANewerOne) {
  const auto left = [](int n) {
    return Turn("system", "<total_tokens>" + std::to_string(n) + " tokens left</total_tokens>");
  };
  for (const bool has_newer : {true, false}) {
    Caller caller(Mode::kStabilize, "vllm");
    Request request{
        .endpoint = Endpoint::kChatCompletions,
        .turns = {Turn("user", "one"), left(900), Turn("assistant", "a"), Turn("user", "two")}};
    const std::string before = caller.Send(request);
    request.turns = {Turn("user", "one"), Turn("assistant", "a"), Turn("user", "two"),
                     Turn("assistant", "b"), Turn("user", "three")};
    if (has_newer) request.turns.push_back(left(800));
    const std::string after = caller.Send(request);
    EXPECT_EQ(GoesOn(before, after), has_newer);
    if (!has_newer) {
      EXPECT_EQ(after, request.Body());
    }
  }
}

TEST(Stabilize, V16AMessageOfTheMomentStaysWhereItWasFirstSeen) {
  for (const Endpoint endpoint : {Endpoint::kMessages, Endpoint::kChatCompletions}) {
    Caller caller(Mode::kStabilize, "vllm");
    const auto moment = [](int minute) {
      return Turn("user", "<info-msg>\nIt is currently 2026-11-22 10:0" + std::to_string(minute) +
                              ":00\nWorking directory: /src\n</info-msg>");
    };
    Request request{.endpoint = endpoint,
                    .turns = {Turn("user", "one"), moment(0), Turn("assistant", "a")}};
    std::vector<std::string> plain = {Turn("user", "one"), Turn("assistant", "a")};
    std::string before = caller.Send(request);
    for (int turn = 1; turn < 5; ++turn) {
      plain.push_back(Turn("user", "go on " + std::to_string(turn)));
      request.turns = plain;
      request.turns.push_back(moment(turn));
      plain.push_back(Turn("assistant", "b" + std::to_string(turn)));
      request.turns.push_back(plain.back());
      const std::string after = caller.Send(request);
      EXPECT_TRUE(GoesOn(before, after));
      before = after;
    }
  }
}

TEST(Stabilize, V6AGitStatusOfItsOwnBlockMovesBehindTheStablePrefix) {
  Caller caller(Mode::kStabilize, "anthropic");
  const auto status = [](std::string_view file) {
    return Block("gitStatus: This is the git status.\nCurrent branch: main\n\nStatus:\nM " +
                 std::string(file) + "\n\nRecent commits:\nabc1234 first");
  };
  Request request{.system_blocks = {Block("Be brief."), status("a.c")},
                  .turns = {Turn("user", "look")}};
  const std::string before = caller.Send(request);
  EXPECT_EQ(json::parse(before)["system"].size(), 1U);
  EXPECT_NE(Texts(before)[0].find("M a.c"), std::string::npos);
  request.system_blocks[1] = status("b.c");
  request.turns.push_back(Turn("assistant", "done"));
  request.turns.push_back(Turn("user", "more"));
  const std::string after = caller.Send(request);
  EXPECT_TRUE(GoesOn(before, after));
  EXPECT_NE(Texts(after).back().find("M b.c"), std::string::npos);
}

TEST(Stabilize, V6AGitStatusInsideTheSystemTextMoves) {
  Caller caller(Mode::kStabilize, "openai");
  const auto system = [](std::string_view file) {
    return "Be brief.\n\ngitStatus: now\nCurrent branch: main\n\nStatus:\nM " + std::string(file) +
           "\n\nRecent commits:\nabc1234 first\n\nAnd be kind.";
  };
  Request request{.endpoint = Endpoint::kChatCompletions,
                  .system = system("a.c"),
                  .turns = {Turn("user", "look")}};
  const std::string before = caller.Send(request);
  EXPECT_NE(Texts(before)[0].find("And be kind."), std::string::npos);
  EXPECT_EQ(Texts(before)[0].find("a.c"), std::string::npos);
  request.system = system("b.c");
  request.turns.push_back(Turn("assistant", "done"));
  request.turns.push_back(Turn("user", "more"));
  EXPECT_TRUE(GoesOn(before, caller.Send(request)));
}

TEST(Stabilize, V7CountersInOldToolResultsKeepWhatWasSent) {
  Caller caller(Mode::kStabilize, "anthropic");
  const auto result = [](int n) {
    return TurnOf("user", {Result("file.c: 3 lines\n<system-reminder>Token usage: " +
                                  std::to_string(n) + "/200000</system-reminder>")});
  };
  Request request{.turns = {Turn("user", "look"), Call(), result(100)}};
  const std::string before = caller.Send(request);
  request.turns[2] = result(200);
  request.turns.push_back(Turn("assistant", "done"));
  request.turns.push_back(Turn("user", "more"));
  EXPECT_TRUE(GoesOn(before, caller.Send(request)));
}

TEST(Stabilize, V8ListsOfFilesAndEnvironmentsMoveBehindTheSystemPrompt) {
  for (const std::string_view tag :
       {"files", "env", "environment_details", "directory_structure", "file_tree"}) {
    Caller caller(Mode::kStabilize, "openai");
    const auto system = [&](std::string_view file) {
      const std::string name(tag);
      return "Be brief.\n<" + name + ">\n  src/\n    " + std::string(file) + "\n</" + name +
             ">\nBe kind.";
    };
    Request request{.endpoint = Endpoint::kChatCompletions,
                    .system = system("a.c"),
                    .turns = {Turn("user", "look")}};
    const std::string before = caller.Send(request);
    EXPECT_EQ(Texts(before)[0], "Be brief.\nBe kind.");
    request.system = system("b.c");
    request.turns.push_back(Turn("assistant", "done"));
    request.turns.push_back(Turn("user", "more"));
    const std::string after = caller.Send(request);
    EXPECT_TRUE(GoesOn(before, after));
    EXPECT_NE(Texts(after).back().find("b.c"), std::string::npos);
  }
}

TEST(Stabilize, V12PrunedToolOutputsGoOutAsTheyCame) {
  Caller caller(Mode::kStabilize, "anthropic");
  Request request{.turns = {Turn("user", "look"), Call(), TurnOf("user", {Result("long output")})}};
  caller.Send(request);
  request.turns[2] = TurnOf("user", {Result("[old output cleared]")});
  request.turns.push_back(Turn("assistant", "done"));
  request.turns.push_back(Turn("user", "more"));
  EXPECT_EQ(caller.Send(request), request.Body());
}

TEST(Stabilize, V19AnAnchorThatCarriedAMarkerStaysWhenItIsGone) {
  Caller caller(Mode::kStabilize, "anthropic");
  Request request{.turns = {TurnOf("user", {Block("one"), Block(" ", kBreakpoint)})}};
  const std::string before = caller.Send(request);
  request.turns = {TurnOf("user", {Block("one")}), Turn("assistant", "yes"),
                   TurnOf("user", {Block("two", kBreakpoint)})};
  EXPECT_TRUE(GoesOn(before, caller.Send(request)));
}

TEST(Stabilize, ThinkingAndItsSignatureAreNeverTouched) {
  Caller caller(Mode::kStabilize, "anthropic");
  const auto thinking = [](std::string_view time) {
    return TurnOf("assistant", {R"({"type":"thinking","thinking":"It is 2026-11-22 )" +
                                std::string(time) + R"(","signature":"s"})"});
  };
  Request request{.turns = {Turn("user", "one"), thinking("10:00:00"), Turn("user", "two")}};
  caller.Send(request);
  request.turns[1] = thinking("10:00:01");
  request.turns.push_back(Turn("assistant", "yes"));
  request.turns.push_back(Turn("user", "three"));
  EXPECT_EQ(caller.Send(request), request.Body());
}

}  // namespace
}  // namespace kvgate::prompt::rewrite
