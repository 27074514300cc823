#include "gateway/session/retrieval/passages.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/gateway/session/session_turns.h"

namespace kvgate::session::retrieval {
namespace {

using test::Said;
using ::testing::ElementsAre;

TEST(PassagesTest, ATurnIsCutByItsMessages) {
  log::LoggedTurn turn = test::TurnOf(1, {"a", "b"});
  turn.input.push_back(Said("system", "hidden"));
  turn.input.push_back(Said("tool", "42"));
  std::vector<std::string> said;
  for (const Passage& passage : PassagesOf(turn)) {
    said.push_back(
        fmt::format("{} {} {}", passage.message, passage.is_user ? "u" : "-", passage.text));
  }
  EXPECT_THAT(said,
              ElementsAre("0 u User: a", "1 u User: b", "3 - Result: 42", "4 - Assistant: A1"));
}

TEST(PassagesTest, AResultThatIsKeptBesideThePromptIsFoundWhole) {
  log::LoggedTurn turn = test::TurnOf(1, {"a"});
  turn.input.push_back(Said("tool", "a stub"));
  turn.results = {{.id = "res_1", .text = "the needle"}};
  const std::vector<Passage> passages = PassagesOf(turn);
  EXPECT_EQ(passages.back().text, "Result: the needle");
  EXPECT_EQ(passages.back().message, 1u);  // said where its stub stands
}

TEST(PassagesTest, PiecesEndWhereLinesOrSentencesDo) {
  EXPECT_THAT(CutUp("one two\nthree four\n\nfive", 18), ElementsAre("one two\nthree four", "five"));
  EXPECT_THAT(CutUp("One two. Three four. Five", 14),
              ElementsAre("One two.", "Three four.", "Five"));
  EXPECT_THAT(CutUp("aaaa bbbb cccc", 10), ElementsAre("aaaa bbbb", "cccc"));
  EXPECT_THAT(CutUp("\u6771\u4EAC\u90FD\u5E81", 7), ElementsAre("\u6771\u4EAC", "\u90FD\u5E81"));
  EXPECT_THAT(CutUp(" \n ", 7), ElementsAre());
}

TEST(PassagesTest, NothingOfALongMessageIsLostButItsEnd) {
  std::string text;
  for (int i = 0; text.size() < 2 * kMessageBytesMax; ++i) text += fmt::format("word{} ", i);
  log::LoggedTurn turn = test::TurnOf(1, {text});
  turn.answer.clear();
  size_t bytes = 0;
  for (const Passage& passage : PassagesOf(turn)) {
    EXPECT_LE(passage.text.size(), kPassageBytes + 10);
    EXPECT_TRUE(passage.text.starts_with("User: ")) << passage.text;
    bytes += passage.text.size();
  }
  EXPECT_GE(bytes, kMessageBytesMax * 95 / 100);
  EXPECT_LE(bytes, kMessageBytesMax * 105 / 100);
}

}  // namespace
}  // namespace kvgate::session::retrieval
