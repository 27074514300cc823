#include "gateway/session/log/history.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/gateway/session/session_turns.h"

namespace kvgate::session::log {
namespace {

using test::SaidOf;
using test::TurnOf;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(HistoryTest, EmptyLogsSayNothing) {
  const History history = HistoryOf({});
  EXPECT_EQ(history.head, "");
  EXPECT_EQ(history.depth, 0u);
  EXPECT_THAT(history.messages, IsEmpty());
}

TEST(HistoryTest, TurnsFollowEachOtherUnderTheNewestFrame) {
  std::vector<LoggedTurn> turns = {TurnOf(1, {"a"}), TurnOf(2, {"b", "c"})};
  turns[0].frame = Frame{.system = R"("old")", .tools = {}, .head = {}};
  turns[0].tokens.input = 10;
  turns[0].prompt_bytes = 50;
  const History history = HistoryOf(turns);
  EXPECT_EQ(history.head, "turn_2");
  EXPECT_EQ(history.depth, 2u);
  EXPECT_EQ(history.frame.system, R"("old")");
  EXPECT_THAT(SaidOf(history.messages), ElementsAre("a", "A1", "b", "c", "A2"));
  EXPECT_EQ(history.PlaceOf(3).turn, "turn_2");
  EXPECT_EQ(history.PlaceOf(3).message, 1u);
  EXPECT_EQ(history.PlaceOf(0).turn, "turn_1");
  EXPECT_EQ(history.prompt_tokens, 10);
  EXPECT_EQ(history.prompt_bytes, 50u);
}

TEST(HistoryTest, WhatWasSaidBesidesStaysWhereItStood) {
  std::vector<LoggedTurn> turns = {TurnOf(1, {"a"}), TurnOf(2, {"b", "c"}), TurnOf(3, {"d"})};
  turns[0].memory = memory::Shown{.is_whole = true, .entries = {{"n", "1"}}};
  turns[1].memory = memory::Shown{.entries = {{"m", "2"}}};
  turns[1].recalled = Recalled{.text = "R", .passages = {"turn_1#0"}};
  History history = HistoryOf(turns);
  EXPECT_EQ(history.memory, (memory::Entries{{"n", "1"}}));
  EXPECT_EQ(history.memory_shown, (memory::Entries{{"n", "1"}, {"m", "2"}}));
  ASSERT_EQ(history.notes.size(), 1u);
  EXPECT_EQ(history.notes[0].message, 3u);  // a A1 b [c]
  EXPECT_EQ(history.notes[0].changes, memory::ChangesText(turns[1].memory->entries));
  EXPECT_EQ(history.notes[0].recalled, "R");
  EXPECT_THAT(history.recalled, ElementsAre("turn_1#0"));
  // Said as a whole, changes before it are said no more.
  turns[2].memory = memory::Shown{.is_whole = true, .entries = {{"m", "2"}}};
  history = HistoryOf(turns);
  EXPECT_EQ(history.memory, (memory::Entries{{"m", "2"}}));
  EXPECT_EQ(history.notes[0].changes, "");
  EXPECT_EQ(history.notes[0].text(), "R");
  // With its event undone, what it said of memory is taken back.
  turns.push_back(TurnOf(4, {}));
  turns[3].answer.clear();
  turns[3].undoes = "turn_3";
  EXPECT_EQ(HistoryOf(turns).memory, (memory::Entries{{"n", "1"}}));
}

TEST(HistoryTest, ANoteGoesWithItsMessage) {
  std::vector<LoggedTurn> turns = {TurnOf(1, {"a", "b"}), TurnOf(2, {"c"})};
  turns[0].recalled = Recalled{.text = "R", .passages = {"x#0"}};
  turns[1].compaction = Compaction{.from_turn = "turn_1", .from_message = 1};
  EXPECT_EQ(HistoryOf(turns).notes.size(), 1u);
  EXPECT_EQ(HistoryOf(turns).notes[0].message, 0u);
  turns[1].compaction->from_message = 2;
  EXPECT_THAT(HistoryOf(turns).notes, IsEmpty());
  EXPECT_THAT(HistoryOf(turns).recalled, IsEmpty());
}

TEST(HistoryTest, ACompactionLeavesOutWhatIsBeforeIt) {
  std::vector<LoggedTurn> turns = {TurnOf(1, {"a"}), TurnOf(2, {"b", "c"}), TurnOf(3, {"d"})};
  turns[2].compaction = Compaction{
      .from_turn = "turn_2", .from_message = 1, .kept = turns[0].input, .num_messages = 3};
  for (const size_t known : {0, 1}) {
    // What was left out need not be read.
    const History history = HistoryOf(std::span(turns).subspan(known));
    EXPECT_THAT(SaidOf(history.kept), ElementsAre("a"));
    EXPECT_THAT(SaidOf(history.messages), ElementsAre("c", "A2", "d", "A3"));
    EXPECT_EQ(history.num_left_out, 3u);
    EXPECT_EQ(history.PlaceOf(0).message, 1u);
    EXPECT_EQ(history.PlaceOf(2).turn, "turn_3");
  }
}

TEST(HistoryTest, TheNewestCompactionHolds) {
  std::vector<LoggedTurn> turns = {TurnOf(1, {"a"}), TurnOf(2, {"b"}), TurnOf(3, {"c", "d"})};
  turns[1].compaction = Compaction{.from_turn = "turn_1", .from_message = 1, .num_messages = 1};
  turns[2].compaction = Compaction{.from_turn = "", .from_message = 1, .num_messages = 5};
  EXPECT_THAT(SaidOf(HistoryOf(turns).messages), ElementsAre("d", "A3"));
  EXPECT_THAT(SaidOf(HistoryOf(std::span(turns).first(2)).messages), ElementsAre("A1", "b", "A2"));
}

LoggedTurn FoldOf(std::string id, std::string parent, std::string from, std::string text) {
  LoggedTurn entry{.id = std::move(id), .parent = std::move(parent), .depth = 3};
  entry.compaction = Compaction{.from_turn = std::move(from),
                                .num_messages = 2,
                                .tokens_before = 9,
                                .tokens_after = 4,
                                .summary = Summary{.text = std::move(text)},
                                .is_fold = true};
  return entry;
}

TEST(HistoryTest, AnEntryBetweenTurnsHoldsUntilItIsUndone) {
  std::vector<LoggedTurn> turns = {TurnOf(1, {"a"}), TurnOf(2, {"b"}), TurnOf(3, {"c"})};
  turns.push_back(FoldOf("fold_1", "turn_3", "turn_2", "one"));
  History history = HistoryOf(turns);
  EXPECT_EQ(history.summary->text, "one");
  EXPECT_THAT(SaidOf(history.messages), ElementsAre("b", "A2", "c", "A3"));
  EXPECT_TRUE(history.is_event_new);
  EXPECT_EQ(history.tokens_before, 9);
  EXPECT_EQ(history.depth, 3u);
  EXPECT_EQ(history.PlaceOf(4).turn, "fold_1");
  EXPECT_EQ(history.PlaceOf(4).message, 0u);
  turns.push_back(TurnOf(4, {"d"}));
  EXPECT_FALSE(HistoryOf(turns).is_event_new);
  turns.push_back(FoldOf("fold_2", "turn_4", "turn_4", "two"));
  EXPECT_EQ(HistoryOf(turns).event, "fold_2");
  turns.push_back({.id = "undo", .parent = "fold_2", .depth = 4, .undoes = "fold_2"});
  history = HistoryOf(turns);
  EXPECT_EQ(history.event, "fold_1");
  EXPECT_EQ(history.summary->text, "one");
  EXPECT_FALSE(history.is_event_new);
  turns.push_back({.id = "undo_2", .parent = "undo", .depth = 4, .undoes = "fold_1"});
  history = HistoryOf(turns);
  EXPECT_FALSE(history.is_compacted());
  EXPECT_FALSE(history.summary);
  EXPECT_EQ(history.messages.size(), 8u);
}

TEST(HistoryTest, ACompactionThatLeadsNowhereLeavesNothing) {
  std::vector<LoggedTurn> turns = {TurnOf(1, {"a"})};
  turns[0].compaction = Compaction{.from_turn = "turn_9", .from_message = 4, .num_messages = 1};
  EXPECT_THAT(HistoryOf(turns).messages, IsEmpty());
  turns[0].compaction = Compaction{.from_turn = "turn_1", .from_message = 99, .num_messages = 1};
  EXPECT_THAT(HistoryOf(turns).messages, IsEmpty());
}

TEST(HistoryTest, TranscriptsSayWhereTurnsEnd) {
  const std::vector<LoggedTurn> turns = {TurnOf(1, {"a"}), TurnOf(2, {"b", "c"})};
  const Transcript transcript = TranscriptOf(turns);
  EXPECT_THAT(SaidOf(transcript.messages), ElementsAre("a", "A1", "b", "c", "A2"));
  EXPECT_THAT(transcript.ends, ElementsAre(2, 5));
}

}  // namespace
}  // namespace kvgate::session::log
