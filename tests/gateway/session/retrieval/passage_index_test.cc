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
                              .meaning = &meaning,
                              .end_turn = end_turn,
                              .end_message = end_message,
                              .exclude = exclude,
                              .bytes_max = bytes_max})) {
      texts.push_back(fmt::format("{} {}", found.id, found.text));
    }
    return texts;
  }

  // A vector that points along one of a hundred axes.
  static Meaning Along(size_t axis) {
    std::vector<float> values(100, 0.1F);
    values[axis] = 5;
    return Meaning::Of(values);
  }
  // Adds a turn whose passages mean what their axes say.
  void AddMeaning(std::string_view said, std::string_view answered, size_t axis) {
    Add(said, answered);
    index.SetMeanings(fmt::format("turn_{}", num), {Along(axis), Along(axis + 1)});
  }
  void AddFiller(int count) {
    for (int i = 0; i < count; ++i) {
      AddMeaning(fmt::format("Filler{} words{}", i, i), fmt::format("Answer{}", i),
                 20 + 2 * static_cast<size_t>(i) % 60);
    }
  }

  PassageIndex index;
  Meaning meaning;  // of the next question
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

TEST_F(PassageIndexTest, WhatMeansTheSameIsFoundInOtherWords) {
  AddMeaning("My dog is called Biscuit.", "Nice.", 0);
  AddFiller(20);
  EXPECT_THAT(Search("Puppy name?"), IsEmpty());
  meaning = Along(0);
  EXPECT_THAT(Search("Puppy name?"),
              ElementsAre("turn_1#0 User: My dog is called Biscuit.", "turn_1#1 Assistant: Nice."));
  // A question that means nothing that was said finds nothing.
  meaning = Along(90);
  EXPECT_THAT(Search("Weather?"), IsEmpty());
}

TEST_F(PassageIndexTest, WordsAndMeaningFindTogether) {
  AddMeaning("The port is 8443.", "Noted.", 0);
  AddMeaning("My dog is called Biscuit.", "Nice.", 4);
  AddFiller(20);
  meaning = Along(4);
  EXPECT_THAT(Search("Which port, and the puppy?"),
              ElementsAre("turn_1#0 User: The port is 8443.", "turn_1#1 Assistant: Noted.",
                          "turn_2#0 User: My dog is called Biscuit.", "turn_2#1 Assistant: Nice."));
  // Where there is room for one, both are asked: words first, of equals.
  EXPECT_THAT(Search("Which port, and the puppy?", "", 0, 30),
              ElementsAre("turn_1#0 User: The port is 8443."));
}

TEST_F(PassageIndexTest, WhatHasNoVectorIsFoundByWords) {
  AddFiller(20);
  Add("My dog is called Biscuit.", "Nice.");
  AddMeaning("It barks.", "Yes.", 8);
  meaning = Along(8);
  EXPECT_THAT(Search("Which dog?"),
              ElementsAre("turn_21#0 User: My dog is called Biscuit.", "turn_21#1 Assistant: Nice.",
                          "turn_22#0 User: It barks.", "turn_22#1 Assistant: Yes."));
  // Vectors of other dimensions say nothing.
  meaning = Meaning::Of(std::vector<float>{1, 2});
  EXPECT_THAT(Search("Which dog?"), ElementsAre("turn_21#0 User: My dog is called Biscuit.",
                                                "turn_21#1 Assistant: Nice."));
}

TEST_F(PassageIndexTest, WhatStandsInThePromptIsNotFoundByMeaningEither) {
  AddMeaning("My dog is called Biscuit.", "Nice.", 0);
  AddFiller(20);
  AddMeaning("The puppy is ill.", "Oh.", 0);
  meaning = Along(0);
  EXPECT_THAT(Search("Hound?", "turn_22"),
              ElementsAre("turn_1#0 User: My dog is called Biscuit.", "turn_1#1 Assistant: Nice."));
  exclude = {"turn_1#0", "turn_1#1"};
  EXPECT_THAT(Search("Hound?", "turn_22"), IsEmpty());
}

TEST_F(PassageIndexTest, TurnsWithoutVectorsAreKnown) {
  Add("a b", "c");
  AddMeaning("d", "e", 0);
  Add("f", "g");
  EXPECT_THAT(index.TurnsWithout(0), ElementsAre("turn_1", "turn_3"));
  EXPECT_THAT(index.TurnsWithout(100), ElementsAre("turn_1", "turn_3"));
  EXPECT_THAT(index.TurnsWithout(7), ElementsAre("turn_1", "turn_2", "turn_3"));
  EXPECT_THAT(index.TextsOf("turn_1"), ElementsAre("User: a b", "Assistant: c"));
  EXPECT_THAT(index.TextsOf("turn_9"), IsEmpty());
  const size_t before = index.bytes();
  index.SetMeanings("turn_1", {Along(0)});  // it has two passages
  index.SetMeanings("turn_9", {Along(0)});
  EXPECT_EQ(index.bytes(), before);
  index.SetMeanings("turn_1", {Along(0), Meaning()});
  EXPECT_EQ(index.bytes(), before + 100);
  EXPECT_EQ(index.num_meanings(), 3u);
  EXPECT_THAT(index.TurnsWithout(0), ElementsAre("turn_3"));
}

TEST_F(PassageIndexTest, VectorsTakeNoMoreThanTheirShareOfMemory) {
  const Meaning large = Meaning::Of(std::vector<float>(Meaning::kDimensionsMax, 1));
  int num_turns = 0;
  while (index.has_room() && num_turns < 5000) {
    Add("a", "b");
    index.SetMeanings(fmt::format("turn_{}", ++num_turns), {large, large});
  }
  EXPECT_LE(index.num_meanings() * large.dimensions(),
            PassageIndex::kMeaningBytesMax + 2 * large.dimensions());
  Add("a", "b");
  const size_t num_meanings = index.num_meanings();
  index.SetMeanings(fmt::format("turn_{}", num), {large, large});
  EXPECT_EQ(index.num_meanings(), num_meanings);
  EXPECT_THAT(index.TurnsWithout(0), IsEmpty());
}

}  // namespace
}  // namespace kvgate::session::retrieval
