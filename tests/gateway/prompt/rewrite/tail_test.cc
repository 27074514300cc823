#include "gateway/prompt/rewrite/tail.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <set>

#include "gateway/prompt/templates/masked_line.h"
#include "tests/gateway/prompt/rewriting_client.h"

namespace kvgate::prompt::rewrite {

using parse::Rule;

namespace {

using namespace test;  // NOLINT: the helpers of these tests

class Tail : public ::testing::TestWithParam<Endpoint> {};

// Returns the number of seeds of a property; KVGATE_TEST_FULL runs `many`.
uint32_t SeedsOf(uint32_t few, uint32_t many) {
  return std::getenv("KVGATE_TEST_FULL") != nullptr ? many : few;
}

// Succeeds if all that the client says at present is in what is sent. Where values are held, lines
// of values may be missing.
::testing::AssertionResult SaysAll(const RewritingClient& client, const std::string& sent,
                                   bool holds) {
  for (const std::string& text : client.texts()) {
    for (const std::string& piece : PiecesOf(text)) {
      const bool may_be_held = holds && (!FormOf(piece).empty() || client.WasInBlock(piece));
      if (sent.find(piece) == std::string::npos && !may_be_held) {
        return ::testing::AssertionFailure() << "not sent: " << piece;
      }
    }
  }
  return ::testing::AssertionSuccess();
}

// Succeeds if all that is sent is said at present, except an earlier value of a line whose current
// value follows it, and a block of the system prompt that has since been replaced. A line of the
// first turn may be followed by one that has other values only. Where values are held, an earlier
// value may be sent of a line that the client says with another one.
::testing::AssertionResult SaysNothingElse(const RewritingClient& client, const std::string& body,
                                           const std::string& sent, bool holds) {
  const std::vector<std::string> said = PiecesOf(AllTexts(json::parse(body)));
  std::set<std::string> now(said.begin(), said.end());
  std::set<std::string> held;
  if (holds) {
    for (const std::string& piece : said) held.insert(templates::MaskLine(piece).text);
  }
  // A counter's message has these words, and may be the only one of its form.
  now.insert({"user", "text", "input_text"});
  std::set<std::string> behind;  // the forms of lines whose current values follow
  std::set<std::string> masks;   // and the lines without their values
  std::vector<std::string> pieces = PiecesOf(sent);
  std::reverse(pieces.begin(), pieces.end());
  for (const std::string& piece : pieces) {
    const std::string form = FormOf(piece);
    if (now.contains(piece)) {
      if (!form.empty()) behind.insert(form);
      masks.insert(templates::MaskLine(piece).text);
    } else if (!behind.contains(form) && !client.WasInBlock(piece) &&
               !masks.contains(templates::MaskLine(piece).text) &&
               !held.contains(templates::MaskLine(piece).text)) {
      return ::testing::AssertionFailure() << "said no more: " << piece;
    }
  }
  return ::testing::AssertionSuccess();
}

TEST_P(Tail, WhatACallerSaysNowIsSentAndNothingElse) {
  size_t num_held = 0;
  size_t num_kept = 0;
  size_t num_in_results = 0;
  size_t num_stale = 0;
  for (uint32_t seed = 0; seed < SeedsOf(300, 30'000); ++seed) {
    RewritingClient client(seed, GetParam());
    Caller caller(Mode::kStabilize, "openai");
    caller.session = "s";
    for (int step = 0; step < 8; ++step) {
      const std::string body = client.Body();
      const std::string out = caller.SendBody(GetParam(), body);
      const std::string sent = AllTexts(json::parse(out));
      const bool holds = caller.last.held_stale.has_value();
      num_stale += holds ? 1 : 0;
      ASSERT_TRUE(SaysAll(client, sent, holds))
          << "seed " << seed << " step " << step << "\nof " << body << "\nsent " << out;
      ASSERT_TRUE(SaysNothingElse(client, body, sent, holds))
          << "seed " << seed << " step " << step << "\nof " << body << "\nsent " << out;
      num_held += caller.Used(Rule::kVolatileHeld) ? 1 : 0;
      num_kept += caller.Used(Rule::kReminderKept) ? 1 : 0;
      num_in_results += client.ends_with_results() && caller.Used(Rule::kVolatileMoved) ? 1 : 0;
      client.Rewrite();
    }
  }
  // The rules were at work all the time.
  EXPECT_GT(num_held, 20U);
  EXPECT_GT(num_kept, 10U);
  EXPECT_GT(num_in_results, 50U);
  EXPECT_GT(num_stale, 10U);
}

TEST_P(Tail, WhatWasSentStaysTheFrontOfAClientThatAppends) {
  size_t num_moved = 0;
  size_t num_broken = 0;
  for (uint32_t seed = 0; seed < SeedsOf(100, 10'000); ++seed) {
    RewritingClient client(seed, GetParam());
    Caller caller(Mode::kStabilize, "openai");
    caller.session = "s";
    std::string before = caller.SendBody(GetParam(), client.Body());
    for (int step = 0; step < 8; ++step) {
      client.GoOn();
      const std::string after = caller.SendBody(GetParam(), client.Body());
      // A turn without a text cannot carry lines, and a note says what that costs.
      const bool breaks = std::any_of(
          caller.last.notes.begin(), caller.last.notes.end(),
          [](const std::string& note) { return note.find("breaks the prefix") != note.npos; });
      if (!breaks) {
        ASSERT_TRUE(GoesOn(before, after)) << "seed " << seed << " step " << step << "\nof "
                                           << client.Body() << "\nsent " << after;
      }
      num_broken += breaks ? 1 : 0;
      num_moved += caller.Used(Rule::kVolatileMoved) ? 1 : 0;
      before = after;
    }
  }
  EXPECT_GT(num_moved, 50U);
  EXPECT_LT(num_broken * 4, num_moved);
}

TEST_P(Tail, AValueThatComesBackIsSaidAgain) {
  Caller caller(Mode::kStabilize, "openai");
  caller.session = "s";
  Request request{.endpoint = GetParam()};
  const auto send = [&](const std::string& day) {
    request.turns.front() = Turn("user", "Current date: 2026-11-" + day + "\nPlan my week.");
    return caller.Send(request);
  };
  request.turns = {""};
  std::string before = send("22");
  for (const char* day : {"23", "22", "22", "24"}) {
    request.turns.push_back(Turn("assistant", "done"));
    request.turns.push_back(Turn("user", "more"));
    const bool is_new = before.rfind("2026-11-") == std::string::npos ||
                        before.substr(before.rfind("2026-11-") + 8, 2) != day;
    const std::string after = send(day);
    EXPECT_TRUE(GoesOn(before, after));
    const std::string told = "more\\n\\nCurrent date: 2026-11-" + std::string(day);
    EXPECT_EQ(after.find(told, before.size() - 2) != std::string::npos, is_new) << after;
    before = after;
  }
}

TEST_P(Tail, ALineIsSaidAgainWhereTheTextThatSaidItIsGone) {
  Caller caller(Mode::kStabilize, "openai");
  caller.session = "s";
  Request request{.endpoint = GetParam(),
                  .system = "Be brief.\nCurrent date: 2026-11-22",
                  .turns = {Turn("user", "hi"), Turn("assistant", "a"), Turn("user", "look")}};
  EXPECT_NE(caller.Send(request).find("look\\n\\nCurrent date: 2026-11-22"), std::string::npos);
  request.turns.back() = Turn("user", "look there");
  EXPECT_NE(caller.Send(request).find("look there\\n\\nCurrent date: 2026-11-22"),
            std::string::npos);
}

INSTANTIATE_TEST_SUITE_P(Dialects, Tail,
                         ::testing::Values(Endpoint::kMessages, Endpoint::kChatCompletions,
                                           Endpoint::kResponses),
                         DialectOf);

TEST(TailTest, WhatAUserCorrectsInAnEarlierTurnReachesTheProvider) {
  const std::vector<std::array<std::string, 3>> edits = {
      {"Remind me at 10:30 to call Bob.", "Remind me at 11:45 to call Bob.", "11:45"},
      {"2026-11-22", "2026-11-23", "2026-11-23"},
      {"The train leaves\n2026-11-22 10:30:00\nfrom Berlin.",
       "The train leaves\n2026-11-22 12:45:00\nfrom Berlin.", "12:45"},
      {"Order:\n0f8fad5b-d9cb-469f-a165-70867728950e\nPlease cancel.",
       "Order:\n7c9e6679-7425-40de-944b-e07fc1f90ae7\nPlease cancel.", "7c9e6679"},
      {"Tokens left: 1200\nGo.", "Tokens left: 50\nGo.", "Tokens left: 50"},
      {"<system-reminder>\nUse spaces.\n</system-reminder>\nGo.",
       "<system-reminder>\nUse tabs.\n</system-reminder>\nGo.", "Use tabs"}};
  for (const auto& [first, edited, wanted] : edits) {
    Caller caller(Mode::kStabilize, "openai");
    Request request{.endpoint = Endpoint::kChatCompletions, .turns = {Turn("user", first)}};
    caller.Send(request);
    request.turns = {Turn("user", edited), Turn("assistant", "a"), Turn("user", "What did I say?")};
    EXPECT_EQ(caller.Send(request), request.Body()) << wanted;
  }
}

TEST(TailTest, AnEditedMemoryFileGoesOutAndADayThatPassesIsSaidBehindIt) {
  Caller caller(Mode::kStabilize, "anthropic");
  const auto memory = [](std::string_view rule, std::string_view day) {
    return Block("<system-reminder>\n# claudeMd\n" + std::string(rule) +
                 "\n# currentDate\nToday's date is 2026-11-" + std::string(day) +
                 ".\n</system-reminder>");
  };
  Request request{.turns = {TurnOf("user", {memory("Be brief.", "22"), Block("fix it")})}};
  const std::string before = caller.Send(request);
  request.turns[0] = TurnOf("user", {memory("Be brief.", "23"), Block("fix it")});
  request.turns.push_back(Turn("assistant", "done"));
  request.turns.push_back(Turn("user", "more"));
  const std::string after = caller.Send(request);
  EXPECT_TRUE(GoesOn(before, after));
  EXPECT_NE(after.find("more\\n\\nToday's date is 2026-11-23."), std::string::npos);
  request.turns[0] = TurnOf("user", {memory("Use tabs.", "23"), Block("fix it")});
  request.turns.push_back(Turn("assistant", "done"));
  request.turns.push_back(Turn("user", "go on"));
  EXPECT_NE(caller.Send(request).find("Use tabs."), std::string::npos);
}

TEST(TailTest, AReminderThatComesToAnEarlierTurnGoesOutUnlessAnotherTurnSaysIt) {
  Caller caller(Mode::kStabilize, "anthropic");
  Request request{.turns = {TurnOf("user", {Block("one"), Block("two")})}};
  caller.Send(request);
  request.turns = {TurnOf("user", {Block("<system-reminder>New rule.</system-reminder>"),
                                   Block("one"), Block("two")}),
                   Turn("assistant", "a"), Turn("user", "more")};
  EXPECT_EQ(caller.Send(request), request.Body());
}

}  // namespace
}  // namespace kvgate::prompt::rewrite
