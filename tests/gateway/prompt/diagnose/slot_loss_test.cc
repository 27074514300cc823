#include "gateway/prompt/diagnose/slot_loss.h"

#include <gtest/gtest.h>

#include <string>

#include "tests/gateway/prompt/conversations.h"
#include "tests/gateway/prompt/sent_request.h"

namespace kvgate::prompt::diagnose {
namespace {

using namespace test;  // NOLINT: the helpers of these tests
using templates::Place;

// A conversation's two requests, of which the second one has read nothing.
class Pair {
 public:
  Pair(const Request& before, const Request& now)
      : before_(SentAs(before.endpoint, before.Body())), now_(SentAs(now.endpoint, now.Body())) {
    found.cause = BreakCause::kSystemChanged;
    for (const history::SentSegment& segment : now_.segments) input_tokens += segment.num_tokens;
    found.lost_tokens = input_tokens;
    found.lost_nanodollars = 10 * input_tokens;
  }
  std::vector<SlotLoss> Losses() const {
    return FindSlotLosses(
        {.before = before_, .now = now_, .found = found, .input_tokens = input_tokens});
  }
  std::string LineOf(const SlotLoss& loss) const {
    return LineWithoutValues(now_.segments[loss.segment], loss.line);
  }
  int64_t TokensOf(size_t segment) const { return now_.segments[segment].num_tokens; }

  PrefixBreak found;
  int64_t input_tokens = 0;

 private:
  const history::SentRequest before_;
  const history::SentRequest now_;
};

std::string Words(size_t count) {
  std::string text;
  for (size_t i = 0; i < count; ++i) text += "Read the file before you edit it. ";
  return text;
}
Request Asked(const std::string& system, const std::vector<std::string>& more = {}) {
  Request request{.system = system, .turns = {Turn("user", Words(20))}};
  request.turns.insert(request.turns.end(), more.begin(), more.end());
  return request;
}
std::string Clock(std::string_view time) {
  return Words(30) + "\nIt is now " + std::string(time) + " on this machine.";
}

TEST(SlotLossTest, WhatALineCostsIsWhatWasLostWithoutTheLine) {
  const Pair pair(Asked(Clock("10:31:07")), Asked(Clock("10:32:09")));
  const std::vector<SlotLoss> losses = pair.Losses();
  ASSERT_EQ(losses.size(), 1U);
  EXPECT_EQ(losses[0].place, Place::kSystem);
  EXPECT_EQ(pair.LineOf(losses[0]), "It is now <*> on this machine.");
  EXPECT_LT(losses[0].tokens, pair.found.lost_tokens);
  EXPECT_GT(losses[0].tokens, pair.found.lost_tokens - 15);
  EXPECT_EQ(losses[0].nanodollars, 10 * losses[0].tokens);
}

TEST(SlotLossTest, OnlyLinesWhoseValuesChangeAreSaved) {
  const std::string clock = Clock("10:31:07");
  for (const std::string& other :
       {Clock("10:32:09") + "\nUse tabs.", Words(31) + "\nIt is now 10:32:09 on this machine.",
        Words(30) + "\nIt was then 10:31:07 on this machine.", Words(30)}) {
    EXPECT_TRUE(Pair(Asked(clock), Asked(other)).Losses().empty()) << other.substr(1000);
  }
  EXPECT_TRUE(Pair(Asked(clock), Asked(clock)).Losses().empty());
}

TEST(SlotLossTest, WhatStandsBehindAnotherChangeIsNotSaved) {
  const std::vector<std::string> turns = {Turn("assistant", Words(20)), Turn("user", Words(20))};
  std::vector<std::string> edited = turns;
  edited[0] = Turn("assistant", "Another answer. " + Words(19));
  const Pair whole(Asked(Clock("10:31:07"), turns), Asked(Clock("10:32:09"), turns));
  const Pair cut(Asked(Clock("10:31:07"), turns), Asked(Clock("10:32:09"), edited));
  ASSERT_EQ(whole.Losses().size(), 1U);
  ASSERT_EQ(cut.Losses().size(), 1U);
  EXPECT_NEAR(static_cast<double>(whole.Losses()[0].tokens - cut.Losses()[0].tokens),
              static_cast<double>(cut.TokensOf(2) + cut.TokensOf(3)), 8);
  // Nor is what a line in front of it could not have changed.
  edited[0] = turns[0];
  Request before = Asked("Be brief. " + Clock("10:31:07"));
  EXPECT_TRUE(Pair(before, Asked(Clock("10:32:09"))).Losses().empty());
}

TEST(SlotLossTest, LinesThatChangeTogetherShareTheLoss) {
  const auto system = [](std::string_view time, std::string_view call) {
    return Clock(time) + "\nThis is call number " + std::string(call) + " of it.";
  };
  const Pair pair(Asked(system("10:31:07", "7")), Asked(system("10:32:09", "8")));
  const std::vector<SlotLoss> losses = pair.Losses();
  ASSERT_EQ(losses.size(), 2U);
  EXPECT_NE(losses[0].mask, losses[1].mask);
  EXPECT_NEAR(static_cast<double>(losses[0].tokens), static_cast<double>(losses[1].tokens), 1);
  EXPECT_GT(losses[0].tokens + losses[1].tokens, pair.found.lost_tokens - 30);
}

TEST(SlotLossTest, LinesOfToolsAndOfAUsersFirstTextAreSlotsToo) {
  const auto with_tool = [](std::string_view time) {
    Request request = Asked(Words(30));
    request.tools = {R"({"name":"look","description":)" +
                     Quoted("Looks.\nThe index was built at " + std::string(time) + " today.") +
                     R"(,"input_schema":{"type":"object"}})"};
    return request;
  };
  const Pair tool(with_tool("10:31:07"), with_tool("10:32:09"));
  ASSERT_EQ(tool.Losses().size(), 1U);
  EXPECT_EQ(tool.Losses()[0].place, Place::kTool);
  EXPECT_EQ(tool.LineOf(tool.Losses()[0]), "The index was built at <*> today.");
  Request before = Asked(Words(30));
  Request now = before;
  before.turns[0] = Turn("user", Clock("10:31:07"));
  now.turns[0] = Turn("user", Clock("10:32:09"));
  const Pair user(before, now);
  ASSERT_EQ(user.Losses().size(), 1U);
  EXPECT_EQ(user.Losses()[0].place, Place::kFirstUser);
}

TEST(SlotLossTest, WithoutALossThereIsNothingToSave) {
  Pair pair(Asked(Clock("10:31:07")), Asked(Clock("10:32:09")));
  pair.found.lost_tokens = 0;
  EXPECT_TRUE(pair.Losses().empty());
  pair.found.lost_tokens = pair.input_tokens;
  pair.found.cause = BreakCause::kTtlLapsed;
  EXPECT_TRUE(pair.Losses().empty());
}

}  // namespace
}  // namespace kvgate::prompt::diagnose
