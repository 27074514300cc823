#include "gateway/session/compose.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "gateway/dialect/form/completion.h"
#include "tests/gateway/session/session_turns.h"

namespace kvgate::session {
namespace {

using log::LoggedTurn;
using test::Said;
using test::SaidOf;
using test::TurnOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using transcript::Dialect;
using transcript::RequestBody;
using Mode = SessionAsk::Mode;

std::string BodyOf(const std::vector<transcript::Message>& messages, std::string more = "") {
  return R"({"model":"m")" + more + R"(,"messages":)" + transcript::ToList(messages) + "}";
}

RequestBody Read(const std::string& body) {
  auto read = transcript::ReadBody(Dialect::kChatCompletions, body);
  EXPECT_TRUE(read) << read.error().ToString();
  return *read;
}

std::vector<LoggedTurn> Stored() {
  std::vector<LoggedTurn> turns = {TurnOf(1, {"a"}), TurnOf(2, {"b"}), TurnOf(3, {"c"})};
  turns[0].frame =
      transcript::Frame{.system = {}, .tools = R"([{"t":1}])", .head = {Said("system", "rules")}};
  return turns;
}

Composed Compose(Mode mode, const std::vector<transcript::Message>& messages,
                 const std::vector<LoggedTurn>& stored) {
  const auto composed = ComposeTurns(mode, Read(BodyOf(messages)), stored);
  EXPECT_TRUE(composed) << composed.error().ToString();
  return composed ? *composed : Composed();
}

TEST(ComposeTest, NewTurnsGoOnUnderTheSessionsFrame) {
  const Composed composed = Compose(Mode::kAuto, {Said("user", "d")}, Stored());
  EXPECT_THAT(SaidOf(composed.old), ElementsAre("a", "A1", "b", "A2", "c", "A3"));
  EXPECT_THAT(SaidOf(composed.input), ElementsAre("d"));
  EXPECT_THAT(SaidOf(composed.frame.head), ElementsAre("rules"));
  EXPECT_EQ(composed.frame.tools, R"([{"t":1}])");
  EXPECT_EQ(composed.history.head, "turn_3");
}

TEST(ComposeTest, ResultsOfToolsAreNewTurns) {
  const Composed composed =
      Compose(Mode::kAuto, {Said("tool", "r1"), Said("tool", "r2")}, Stored());
  EXPECT_THAT(SaidOf(composed.input), ElementsAre("r1", "r2"));
  EXPECT_EQ(composed.old.size(), 6u);
}

TEST(ComposeTest, AFirstMessageOfSomethingElseIsAConflict) {
  const std::vector<transcript::Message> other = {Said("system", "other rules"), Said("user", "x")};
  const auto refused = ComposeTurns(Mode::kAuto, Read(BodyOf(other)), Stored());
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().source, dialect::form::kSessionSource);
  const Composed appended = Compose(Mode::kAppend, other, Stored());
  EXPECT_THAT(SaidOf(appended.frame.head), ElementsAre("other rules"));
  EXPECT_EQ(appended.old.size(), 6u);
  const Composed same =
      Compose(Mode::kAuto, {Said("system", "rules"), Said("user", "x")}, Stored());
  EXPECT_THAT(SaidOf(same.input), ElementsAre("x"));
}

TEST(ComposeTest, ATranscriptGoesOnWhereItIsTheSame) {
  const Composed composed = Compose(
      Mode::kAuto,
      {Said("system", "rules"), Said("user", "a"), Said("assistant", "A1"), Said("user", "b"),
       Said("assistant", "A2"), Said("user", "c"), Said("assistant", "A3"), Said("user", "d")},
      Stored());
  EXPECT_EQ(composed.history.head, "turn_3");
  EXPECT_THAT(SaidOf(composed.input), ElementsAre("d"));
  EXPECT_EQ(composed.old.size(), 6u);
}

TEST(ComposeTest, ATranscriptBranchesWhereItDiverges) {
  const Composed edited = Compose(
      Mode::kAuto, {Said("user", "a"), Said("assistant", "A1"), Said("user", "other")}, Stored());
  EXPECT_EQ(edited.history.head, "turn_1");
  EXPECT_EQ(edited.history.depth, 1u);
  EXPECT_THAT(SaidOf(edited.input), ElementsAre("other"));
  const Composed answer = Compose(
      Mode::kAuto, {Said("user", "a"), Said("assistant", "mine"), Said("user", "b")}, Stored());
  EXPECT_EQ(answer.history.head, "");
  EXPECT_THAT(SaidOf(answer.input), ElementsAre("a", "mine", "b"));
  // To ask again for the last answer.
  const Composed again = Compose(
      Mode::kAuto, {Said("user", "a"), Said("assistant", "A1"), Said("user", "b")}, Stored());
  EXPECT_EQ(again.history.head, "turn_1");
  EXPECT_THAT(SaidOf(again.input), ElementsAre("b"));
}

TEST(ComposeTest, TheModeOverridesWhatTheListLooksLike) {
  const Composed first = Compose(Mode::kTranscript, {Said("user", "a")}, Stored());
  EXPECT_EQ(first.history.head, "");
  EXPECT_THAT(SaidOf(first.input), ElementsAre("a"));
  const Composed appended =
      Compose(Mode::kAppend, {Said("assistant", "x"), Said("user", "y")}, Stored());
  EXPECT_EQ(appended.history.head, "turn_3");
  EXPECT_THAT(SaidOf(appended.input), ElementsAre("x", "y"));
}

TEST(ComposeTest, ARequestSaysSomethingNew) {
  EXPECT_FALSE(ComposeTurns(Mode::kAuto, Read(BodyOf({})), Stored()));
  EXPECT_FALSE(ComposeTurns(Mode::kAuto, Read(BodyOf({Said("system", "s")})), {}));
}

// --- the window ---------------------------------------------------------------------------------

// One token for each byte of the messages' texts.
Result<int64_t> CountTexts(std::string_view body) {
  int64_t tokens = 0;
  const auto json = nlohmann::json::parse(body);
  for (const auto& message : json["messages"]) {
    tokens += static_cast<int64_t>(message["content"].get<std::string>().size());
  }
  return tokens;
}

std::string Long(char c) { return std::string(100, c); }

std::vector<LoggedTurn> LongTurns() {
  std::vector<LoggedTurn> turns;
  for (int i = 1; i <= 5; ++i) turns.push_back(TurnOf(i, {Long(static_cast<char>('a' + i))}));
  turns[0].frame = transcript::Frame{.system = {}, .tools = {}, .head = {Said("system", "rules")}};
  return turns;
}

struct Outcome {
  Result<Windowed> windowed = MakeError(ErrorCode::kInternal, "test", "");
  std::vector<std::string> said;  // that goes out
};

Outcome Window(const window::Settings& settings, const std::vector<LoggedTurn>& stored,
               const std::vector<transcript::Message>& messages, CountTokens count = CountTexts,
               int64_t context = 0) {
  const std::string body = BodyOf(messages);
  const RequestBody request = Read(body);
  const auto composed = ComposeTurns(Mode::kAuto, request, stored);
  EXPECT_TRUE(composed);
  Outcome outcome;
  outcome.windowed =
      ApplyWindow(request, body, *composed,
                  {.settings = settings, .context = context, .count = std::move(count)});
  if (!outcome.windowed) return outcome;
  const auto json = nlohmann::json::parse(outcome.windowed->body);
  for (const auto& message : json["messages"]) {
    outcome.said.push_back(message["content"].get<std::string>().substr(0, 2));
  }
  return outcome;
}

TEST(ComposeWindowTest, WhatFitsGoesOutWhole) {
  const Outcome outcome =
      Window({.high = 900, .low = 300, .hard = 1000}, LongTurns(), {Said("user", Long('x'))});
  ASSERT_TRUE(outcome.windowed);
  EXPECT_EQ(outcome.windowed->compaction, "none");
  EXPECT_FALSE(outcome.windowed->event);
  EXPECT_EQ(outcome.said.size(), 12u);
}

TEST(ComposeWindowTest, OldRoundsAreLeftOutAndTheSystemStays) {
  const Outcome outcome =
      Window({.high = 500, .low = 320, .hard = 600}, LongTurns(), {Said("user", Long('x'))});
  ASSERT_TRUE(outcome.windowed) << outcome.windowed.error().ToString();
  EXPECT_THAT(outcome.said, ElementsAre("ru", "ee", "A4", "ff", "A5", "xx"));
  EXPECT_EQ(outcome.windowed->compaction, "done;before=615;after=309");
  ASSERT_TRUE(outcome.windowed->event);
  EXPECT_EQ(outcome.windowed->event->from_turn, "turn_4");
  EXPECT_EQ(outcome.windowed->event->from_message, 0u);
  EXPECT_EQ(outcome.windowed->event->num_messages, 6u);
}

TEST(ComposeWindowTest, AnEventHoldsUntilTheNextOne) {
  std::vector<LoggedTurn> turns = LongTurns();
  const window::Settings settings{.high = 500, .low = 320, .hard = 600};
  Outcome outcome = Window(settings, turns, {Said("user", Long('x'))});
  LoggedTurn next = TurnOf(6, {Long('x')});
  next.compaction = outcome.windowed->event;
  turns.push_back(next);
  outcome = Window(settings, turns, {Said("user", Long('y'))});
  ASSERT_TRUE(outcome.windowed);
  EXPECT_THAT(outcome.said, ElementsAre("ru", "ee", "A4", "ff", "A5", "xx", "A6", "yy"));
  EXPECT_EQ(outcome.windowed->compaction, "none");
  turns.push_back(TurnOf(7, {Long('y')}));
  outcome = Window(settings, turns, {Said("user", Long('z'))});
  EXPECT_THAT(outcome.said, ElementsAre("ru", "xx", "A6", "yy", "A7", "zz"));
  EXPECT_EQ(outcome.windowed->event->num_messages, 10u);
}

TEST(ComposeWindowTest, ATranscriptLosesTheSameRounds) {
  std::vector<LoggedTurn> turns = LongTurns();
  LoggedTurn next = TurnOf(6, {Long('x')});
  next.compaction = log::Compaction{.from_turn = "turn_5", .from_message = 0, .num_messages = 8};
  turns.push_back(next);
  std::vector<transcript::Message> all = {Said("system", "rules")};
  for (const LoggedTurn& turn : turns) {
    all.push_back(turn.input.front());
    all.push_back(turn.answer.front());
  }
  all.push_back(Said("user", Long('y')));
  const Outcome outcome = Window({.high = 700, .low = 320, .hard = 800}, turns, all);
  EXPECT_THAT(outcome.said, ElementsAre("ru", "ff", "A5", "xx", "A6", "yy"));
}

TEST(ComposeWindowTest, TheFirstRoundsAndLaterSystemMessagesMayStay) {
  std::vector<LoggedTurn> turns = LongTurns();
  turns[1].input.push_back(Said("system", "note"));
  window::Settings settings{.high = 500, .low = 420, .hard = 600, .keep_first_turns = 1};
  Outcome outcome = Window(settings, turns, {Said("user", Long('x'))});
  EXPECT_THAT(outcome.said, ElementsAre("ru", "bb", "A1", "no", "ee", "A4", "ff", "A5", "xx"));
  const std::vector<transcript::Message> kept = outcome.windowed->event->kept;
  EXPECT_EQ(kept.size(), 3u);
  settings.keep_system = false;
  outcome = Window(settings, turns, {Said("user", Long('x'))});
  EXPECT_THAT(outcome.said, ElementsAre("ru", "bb", "A1", "ee", "A4", "ff", "A5", "xx"));
}

TEST(ComposeWindowTest, TheNewestRoundIsNeverTorn) {
  const Outcome fits = Window({.high = 150, .low = 50, .hard = 400}, LongTurns(),
                              {Said("tool", Long('r'))});  // of the call that turn 5 ended with
  EXPECT_THAT(fits.said, ElementsAre("ru", "ff", "A5", "rr"));
  const Outcome too_long =
      Window({.high = 150, .low = 50, .hard = 200}, LongTurns(), {Said("tool", Long('r'))});
  ASSERT_FALSE(too_long.windowed);
  EXPECT_EQ(too_long.windowed.error().source, dialect::form::kContextLengthSource);
  EXPECT_THAT(too_long.windowed.error().detail, HasSubstr("200 tokens"));
}

TEST(ComposeWindowTest, ARoundThatBeginsInItsOwnTurnIsNamedSo) {
  std::vector<transcript::Message> all;
  for (const char c : {'a', 'b', 'c'}) {
    all.push_back(Said("user", Long(c)));
    all.push_back(Said("assistant", Long(c)));
  }
  all.push_back(Said("user", Long('d')));
  const Outcome outcome = Window({.high = 500, .low = 320, .hard = 600}, {}, all);
  EXPECT_THAT(outcome.said, ElementsAre("cc", "cc", "dd"));
  EXPECT_EQ(outcome.windowed->event->from_turn, "");
  EXPECT_EQ(outcome.windowed->event->from_message, 4u);
}

TEST(ComposeWindowTest, SwitchedOffItOnlyAdvises) {
  const window::Settings off{.mode = window::Mode::kOff, .high = 500, .low = 320, .hard = 600};
  const Outcome outcome = Window(off, LongTurns(), {Said("user", Long('x'))});
  ASSERT_TRUE(outcome.windowed);
  EXPECT_EQ(outcome.windowed->compaction, "advised");
  EXPECT_EQ(outcome.said.size(), 12u);
}

TEST(ComposeWindowTest, WithoutACountItIsEstimatedByWhatTheProviderSaid) {
  std::vector<LoggedTurn> turns = LongTurns();
  const window::Settings settings{.high = 1000, .low = 500, .hard = 1200};
  // 1,300 bytes of a prompt are far fewer tokens than 1,000, as long as nobody says otherwise.
  EXPECT_EQ(Window(settings, turns, {Said("user", Long('x'))}, {}).windowed->compaction, "none");
  turns.back().tokens.input = 2000;
  turns.back().prompt_bytes = 1000;
  const Outcome corrected = Window(settings, turns, {Said("user", Long('x'))}, {});
  ASSERT_TRUE(corrected.windowed);
  EXPECT_THAT(corrected.windowed->compaction, HasSubstr("done;"));
}

TEST(ComposeWindowTest, WhatIsSentAsItCameIsNotWrittenAnew) {
  const std::string body = R"({ "messages" : [ {"role":"user","content":"a"} ],  "x": 1 })";
  const RequestBody request = Read(body);
  const auto composed = ComposeTurns(Mode::kAuto, request, {});
  ASSERT_TRUE(composed);
  const auto windowed = ApplyWindow(request, body, *composed, {});
  ASSERT_TRUE(windowed);
  EXPECT_EQ(windowed->body, body);
}

}  // namespace
}  // namespace kvgate::session
