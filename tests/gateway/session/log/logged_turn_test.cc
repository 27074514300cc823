#include "gateway/session/log/logged_turn.h"

#include <gtest/gtest.h>

namespace kvgate::session::log {
namespace {

using transcript::Kind;

LoggedTurn Sample() {
  return {
      .id = "turn_2",
      .parent = "turn_1",
      .model = "m",
      .depth = 2,
      .created_us = 5,
      .prompt_bytes = 99,
      .frame =
          Frame{.system = R"("s")",
                .tools = "[ 1.0 ]",
                .head = {{.kind = Kind::kSystem, .json = R"({"role":"system","content":"h"})"}}},
      .prompt = TurnPrompt{.name = "a", .version = "1", .values = R"({"x":"\n"})"},
      .input = {{.kind = Kind::kUser, .json = R"({ "role":"user", "content":"\u00e9" })"}},
      .answer = {{.kind = Kind::kAssistant, .json = R"({"role":"assistant","content":"a"})"}},
      .compaction =
          Compaction{.from_turn = "turn_1",
                     .from_message = 1,
                     .kept = {{.kind = Kind::kUser, .json = R"({"role":"user","content":"k"})"}},
                     .num_messages = 7,
                     .tokens_before = 100,
                     .tokens_after = 40},
      .tokens = {.input = 40, .cached = 30, .output = 5}};
}

store::meta::Turn Stored(const LoggedTurn& turn) {
  store::meta::Turn stored;
  stored.id = turn.id;
  stored.parent = turn.parent;
  stored.items = ToItems(turn);
  stored.tokens = turn.tokens;
  stored.created_us = turn.created_us;
  return stored;
}

TEST(LoggedTurnTest, AStoredTurnComesBackByteForByte) {
  const LoggedTurn turn = Sample();
  const auto back = FromStored(Dialect::kChatCompletions, Stored(turn));
  ASSERT_TRUE(back) << back.error().ToString();
  EXPECT_TRUE(*back == turn);
  LoggedTurn plain = turn;
  plain.frame.reset();
  plain.prompt = TurnPrompt();
  plain.compaction.reset();
  const auto other = FromStored(Dialect::kChatCompletions, Stored(plain));
  ASSERT_TRUE(other);
  EXPECT_TRUE(*other == plain);
}

TEST(LoggedTurnTest, WhatItsPromptSaysBesidesComesBackUnderARoleOfItsOwn) {
  LoggedTurn turn = Sample();
  turn.memory = memory::Shown{.is_whole = true, .entries = {{"b", "\"x\""}, {"a", "[1,2]"}}};
  turn.recalled = Recalled{.text = "<retrieved>\n\u00e9", .passages = {"turn_1#0", "turn_1#1"}};
  const store::meta::Turn stored = Stored(turn);
  EXPECT_EQ(stored.items.front().role, "session.turn.3");
  const auto back = FromStored(Dialect::kChatCompletions, stored);
  ASSERT_TRUE(back) << back.error().ToString();
  EXPECT_TRUE(*back == turn);
  const auto line = FromLine(Dialect::kChatCompletions, ToLine(turn));
  ASSERT_TRUE(line) << line.error().ToString();
  EXPECT_TRUE(*line == turn);
  turn.recalled.reset();
  turn.memory = memory::Shown{.entries = {{"a", "1"}}};
  EXPECT_TRUE(*FromStored(Dialect::kChatCompletions, Stored(turn)) == turn);
}

TEST(LoggedTurnTest, ItsKvIsKnownWhereItWasStoredOnly) {
  LoggedTurn turn = Sample();
  turn.kv_block = {.low = 7, .high = 9};
  const auto back = FromStored(Dialect::kChatCompletions, Stored(turn));
  ASSERT_TRUE(back);
  EXPECT_EQ(back->kv_block, turn.kv_block);
  const std::string line = ToLine(turn);
  EXPECT_EQ(line, ToLine(Sample()));
  // A line from outside names no KV, which may be somebody else's.
  const auto said = FromLine(Dialect::kChatCompletions,
                             R"({"kv_block":"00000000000000090000000000000007",)" + line.substr(1));
  ASSERT_TRUE(said);
  EXPECT_EQ(said->kv_block, BlockHash());
}

TEST(LoggedTurnTest, ALineComesBackToo) {
  LoggedTurn turn = Sample();
  const auto back = FromLine(Dialect::kChatCompletions, ToLine(turn));
  ASSERT_TRUE(back) << back.error().ToString();
  EXPECT_TRUE(*back == turn);
  turn.input.front().json = "{\n\"role\":\"user\",\r\n\"content\":\"u\"}";
  EXPECT_EQ(ToLine(turn).find_first_of("\r\n"), std::string::npos);
}

TEST(LoggedTurnTest, EventsBetweenTurnsComeBackAndAnEarlierVersionRefusesThem) {
  LoggedTurn fold = Sample();
  EXPECT_EQ(ToItems(fold).front().role, "session.turn");
  fold.compaction->is_fold = true;
  fold.compaction->summary = Summary{.text = "a\n\"b\"",
                                     .model = "m-1",
                                     .prompt = "builtin@1",
                                     .request_id = "r",
                                     .tokens = {.input = 9, .cached = 8, .output = 7},
                                     .nanodollars = 0};
  LoggedTurn carrying = fold;  // a turn that leaves out more keeps the summary
  fold.input.clear();
  fold.answer.clear();
  LoggedTurn undo{.id = "undo", .parent = "turn_2", .depth = 2, .undoes = "turn_2"};
  for (const LoggedTurn& entry : {fold, carrying, undo}) {
    EXPECT_EQ(ToItems(entry).front().role, "session.turn.2");
    const auto stored = FromStored(Dialect::kChatCompletions, Stored(entry));
    ASSERT_TRUE(stored) << stored.error().ToString();
    EXPECT_TRUE(*stored == entry);
    const auto line = FromLine(Dialect::kChatCompletions, ToLine(entry));
    ASSERT_TRUE(line) << line.error().ToString();
    EXPECT_TRUE(*line == entry);
  }
  carrying.compaction->summary->nanodollars.reset();
  EXPECT_TRUE(*FromStored(Dialect::kChatCompletions, Stored(carrying)) == carrying);
}

TEST(LoggedTurnTest, WhatIsNoTurnIsRefused) {
  store::meta::Turn stored = Stored(Sample());
  stored.items.front().role = "response";
  EXPECT_FALSE(FromStored(Dialect::kChatCompletions, stored));
  for (const char* line : {"", "[]", "{}", R"({"id":"x","input":[{"role":"robot"}]})",
                           R"({"input":[{"role":"user","content":"u"}]})", R"({"id":"x"})"}) {
    EXPECT_FALSE(FromLine(Dialect::kChatCompletions, line)) << line;
  }
}

TEST(LoggedTurnTest, DialectsHaveNames) {
  for (const Dialect dialect :
       {Dialect::kChatCompletions, Dialect::kMessages, Dialect::kResponses}) {
    EXPECT_EQ(DialectNamed(NameOf(dialect)), dialect);
  }
  EXPECT_FALSE(DialectNamed("other"));
}

}  // namespace
}  // namespace kvgate::session::log
