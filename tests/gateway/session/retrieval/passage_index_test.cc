#include "gateway/session/retrieval/passage_index.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/gateway/session/session_turns.h"

namespace kvgate::session::retrieval {
namespace {

using test::Said;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

class PassageIndexTest : public ::testing::Test {
 protected:
  void Add(std::string_view said, std::string_view answered) {
    log::LoggedTurn turn = test::TurnOf(++num, {std::string(said)});
    turn.answer = {Said("assistant", answered)};
    index.Add(turn);
  }
  std::vector<std::string> Search(std::string_view question, std::string_view end_turn = "",
                                  uint64_t end_message = 0, size_t bytes_max = 4000) {
    std::vector<std::string> texts;
    for (const Found& found : index.Search({.question = question,
                              .end_turn = end_turn,
                              .end_message = end_message,
                              .exclude = exclude,
                              .bytes_max = bytes_max})) {
      texts.push_back(fmt::format("{} {}", found.id, found.text));
    }
    return texts;
  }

  PassageIndex index;
  std::set<std::string, std::less<>> exclude;
  int num = 0;
};

TEST_F(PassageIndexTest, WhatSharesRareWordsWithTheQuestionIsFound) {
  Add("My dog is called Biscuit.", "Nice.");
  Add("The cat sleeps all day.", "Cats do.");
  EXPECT_THAT(Search("What was the name of my dog?"),
              ElementsAre("turn_1#0 User: My dog is called Biscuit.", "turn_1#1 Assistant: Nice."));
  EXPECT_THAT(Search("How are you today?"), IsEmpty());
  EXPECT_THAT(Search("unheard words"), IsEmpty());
  EXPECT_THAT(Search(""), IsEmpty());
}

TEST_F(PassageIndexTest, AQuestionComesWithItsAnswer) {
  Add("Which port does staging use?", "8443.");
  Add("Fine.", "Good.");
  EXPECT_THAT(
      Search("the staging port, again?"),
      ElementsAre("turn_1#0 User: Which port does staging use?", "turn_1#1 Assistant: 8443."));
}

TEST_F(PassageIndexTest, ThePartsOfAQuestionAreFoundApart) {
  Add("My dog is called Biscuit.", "ok");
  for (int i = 0; i < 40; ++i) Add(fmt::format("Filler about topic{}.", i), "ok");
  Add("I live in Lisbon, near the harbour.", "ok");
  const auto found = Search("Where do I live, and what is my dog called?");
  EXPECT_THAT(found, ::testing::Contains("turn_1#0 User: My dog is called Biscuit."));
  EXPECT_THAT(found, ::testing::Contains("turn_42#0 User: I live in Lisbon, near the harbour."));
}

TEST_F(PassageIndexTest, OnlyWhatStandsBeforeTheEndIsFound) {
  Add("alpha one", "alpha two");
  Add("alpha three", "ok");
  EXPECT_THAT(Search("alpha", "turn_1", 0), IsEmpty());
  EXPECT_THAT(Search("alpha", "turn_1", 1), ElementsAre("turn_1#0 User: alpha one"));
  EXPECT_THAT(Search("alpha", "turn_2", 0),
              ElementsAre("turn_1#0 User: alpha one", "turn_1#1 Assistant: alpha two"));
  EXPECT_THAT(Search("alpha", "no such turn"), IsEmpty());
}

TEST_F(PassageIndexTest, WhatIsExcludedIsNotFoundAgain) {
  Add("alpha one", "ok");
  exclude = {"turn_1#0", "turn_7#0", "nonsense", "turn_1#x"};
  EXPECT_THAT(Search("alpha"), IsEmpty());
}

TEST_F(PassageIndexTest, TheBudgetIsKept) {
  for (int i = 0; i < 20; ++i) Add("alpha " + std::string(100, static_cast<char>('a' + i)), "ok");
  for (int i = 0; i < 80; ++i) Add(fmt::format("filler{}", i), "ok");
  size_t bytes = 0;
  for (const Found& found :
       index.Search({.question = "alpha", .exclude = exclude, .bytes_max = 250})) {
    bytes += found.text.size();
  }
  EXPECT_GT(bytes, 0u);
  EXPECT_LE(bytes, 250u);
}

TEST_F(PassageIndexTest, AWordOfManyPassagesIsNoReason) {
  for (int i = 0; i < 60; ++i) Add(fmt::format("The build failed at step{}.", i), "Look again.");
  EXPECT_THAT(Search("Did the build fail?"), IsEmpty());
  EXPECT_FALSE(Search("Did step33 fail?").empty());
}

TEST_F(PassageIndexTest, ATurnIsAddedOnce) {
  Add("alpha", "ok");
  index.Add(test::TurnOf(1, {"alpha"}));
  EXPECT_EQ(index.num_passages(), 2u);
  EXPECT_EQ(index.head(), "turn_1");
}

}  // namespace
}  // namespace kvgate::session::retrieval
