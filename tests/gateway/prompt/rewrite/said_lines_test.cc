#include "gateway/prompt/rewrite/said_lines.h"

#include <gtest/gtest.h>

#include "gateway/prompt/parse/segment_memo.h"
#include "tests/gateway/prompt/conversations.h"

namespace kvgate::prompt::rewrite {
namespace {

using namespace test;  // NOLINT: the helpers of these tests

TEST(SaidLinesTest, ALineIsFoundAsAWholeOnly) {
  EXPECT_TRUE(HasLine(R"("look\n\nIt is 10:31")", "It is 10:31"));
  EXPECT_TRUE(HasLine(R"("<note>It is 10:31</note>")", "It is 10:31"));
  EXPECT_FALSE(HasLine(R"("It is 10:31 now")", "It is 10:31"));
  EXPECT_FALSE(HasLine(R"("xIt is 10:31")", "It is 10:31"));
}

TEST(SaidLinesTest, LinesOfOneSlotDifferInValuesOnly) {
  EXPECT_TRUE(AreOfOneSlotJson("Current time: 10:31:07", "Current time: 10:32:09"));
  EXPECT_FALSE(AreOfOneSlotJson("Current time: 10:31:07", "You may push to main."));
  EXPECT_FALSE(AreOfOneSlotJson("Mode is read only", "Mode is full access"));
}

class SaidLinesInDraft : public ::testing::Test {
 protected:
  explicit SaidLinesInDraft()
      : body_(Request{.system = "Be brief.\nTime: 9",
                      .turns = {Turn("user", "look\n\nTime: 10"), Turn("assistant", "Time: 11")}}
                  .Body()),
        layout_(*parse::ReadRequestLayout(Endpoint::kMessages, body_, memo_)),
        draft_(MakeDraft(body_, layout_, nullptr, 0)) {}

  parse::SegmentMemo memo_{100};
  const std::string body_;
  const parse::RequestLayout layout_;
  Draft draft_;
};

TEST_F(SaidLinesInDraft, TextsOfUsersSayALineAndAnswersAndTheSystemPromptDoNot) {
  const TailLines none;
  const SaidLines said(draft_, none);
  EXPECT_TRUE(said.IsSaid("Time: 10", false));
  EXPECT_TRUE(said.IsSaid("Time: 10", true));
  EXPECT_FALSE(said.IsSaid("Time: 9", false));
  EXPECT_FALSE(said.IsSaid("Time: 11", false));
}

TEST_F(SaidLinesInDraft, ALineHasTheAuthorWhoseTextSaysIt) {
  const TailLines lines = {
      .moved = {"Time: 9"},
      .slots = {{.json = "a", .slot = 1, .first = {}, .place = templates::Place::kSystem},
                {.json = "b", .slot = 2, .first = {}, .place = templates::Place::kTool},
                {.json = "c", .slot = 3, .first = {}, .place = templates::Place::kFirstUser}}};
  draft_.segments.front().unsaid = {{.json = "held"}};
  const SaidLines said(draft_, lines);
  EXPECT_TRUE(said.IsSystems({.json = "Time: 9"}));
  EXPECT_TRUE(said.IsSystems({.json = "held"}));
  EXPECT_FALSE(said.IsSystems({.json = "Time: 10"}));
  EXPECT_TRUE(said.IsSystems({.json = "a", .slot = 1}));
  for (const uint64_t slot : {2U, 3U, 4U})
    EXPECT_FALSE(said.IsSystems({.json = "x", .slot = slot}));
  EXPECT_TRUE(said.IsUsers({.json = "c", .slot = 3}));
  EXPECT_FALSE(said.IsUsers({.json = "a", .slot = 1}));
}

TEST_F(SaidLinesInDraft, ALineHasAnEarlierValueIfOneStandsInItsPlace) {
  const TailLines lines = {
      .moved = {},
      .slots = {{.json = "It is 10:31 now", .slot = 1, .first = "It is 10:30 now"},
                {.json = "Mode is full access", .slot = 2, .first = "Mode is read only"},
                {.json = "It is 10:31 here", .slot = 3, .first = {}}}};
  const SaidLines said(draft_, lines);
  EXPECT_TRUE(said.HasEarlier({.json = "It is 10:31 now", .slot = 1}));
  EXPECT_FALSE(said.HasEarlier({.json = "Mode is full access", .slot = 2})) << "words are not held";
  EXPECT_FALSE(said.HasEarlier({.json = "It is 10:31 here", .slot = 3})) << "it was never said";
  EXPECT_FALSE(said.HasEarlier({.json = "Time: 10"}));
}

}  // namespace
}  // namespace kvgate::prompt::rewrite
