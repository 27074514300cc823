#include "gateway/prompt/planner/plan_stability.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/gateway/prompt/plan_simulation.h"

namespace kvgate::prompt::planner {
namespace {

using namespace simulation;  // NOLINT: all of it is meant

// A conversation of tools, a system prompt and turns, each of 1,000 tokens.
class StabilityTest : public testing::Test {
 protected:
  // Sends `tools`, `system` and the first `num_turns` turns, and lets all come again.
  void Send(const std::string& tools, const std::string& system, int num_turns,
            bool in_time = true) {
    std::vector<Block> blocks = {Tool(tools, 1000), System(system, 1000)};
    for (int i = 0; i < num_turns; ++i) blocks.push_back(User("turn " + std::to_string(i), 1000));
    const std::vector<PlanSegment> segments = SegmentsOf(blocks);
    stability_.Arrive({.segments = segments, .in_time = in_time, .minimum_tokens = 1000});
    const bool earns = stability_.EarnsWrite();
    const size_t end = segments.size() - 1;
    stability_.Send({.segments = segments,
                     .num_shared = 2,
                     .end = end,
                     .earned = earns ? std::optional(end) : std::nullopt,
                     .time_us = ++time_us_});
  }

  Stability stability_;
  int64_t time_us_ = 0;
};

TEST_F(StabilityTest, ARequestThatContinuesTheLastOneRepeatsAllOfIt) {
  Send("t", "s", 1);
  EXPECT_FALSE(stability_.EarnsWrite()) << "it has come once";
  Send("t", "s", 3);
  EXPECT_EQ(stability_.num_repeated(), 3U);
  EXPECT_TRUE(stability_.TrustsNewest());
  EXPECT_TRUE(stability_.EarnsWrite());
}

TEST_F(StabilityTest, AfterTwoChangesOnlyWhatStandsInFrontOfThemIsTrusted) {
  Send("t", "at 1", 1);
  Send("t", "at 2", 2);
  EXPECT_TRUE(stability_.TrustsNewest()) << "it may stay from now on";
  EXPECT_FALSE(stability_.EarnsWrite());
  Send("t", "at 3", 3);
  EXPECT_FALSE(stability_.TrustsNewest());
  EXPECT_EQ(stability_.num_repeated(), 1U);
  EXPECT_TRUE(stability_.EarnsWrite()) << "of the tools, which have held";
  Send("t", "at 3", 4);
  EXPECT_TRUE(stability_.TrustsNewest()) << "two requests began alike";
  EXPECT_EQ(stability_.num_repeated(), 5U);
}

// A reminder that leaves its turn changes that turn once; what stands in front stays.
TEST_F(StabilityTest, WhereOnlyTheNewestTurnChangesAllInFrontOfItIsTrusted) {
  std::vector<Block> blocks = {Tool("t", 1000), System("s", 1000), User("one, with a note", 1000)};
  const auto send = [&] {
    const std::vector<PlanSegment> segments = SegmentsOf(blocks);
    stability_.Arrive({.segments = segments, .in_time = true, .minimum_tokens = 1000});
    stability_.Send(
        {.segments = segments, .num_shared = 2, .end = segments.size() - 1, .time_us = ++time_us_});
    return segments;
  };
  send();
  for (const char* text : {"two", "three", "four"}) {
    blocks.back() = User("said without its note", 1000);
    blocks.push_back(Assistant("an answer", 1000));
    blocks.push_back(User(std::string(text) + ", with a note", 1000));
    const std::vector<PlanSegment> segments = send();
    EXPECT_EQ(stability_.num_repeated(), segments.size() - 3);
    EXPECT_EQ(stability_.NumTrusted(segments), segments.size() - 1);
  }
  EXPECT_FALSE(stability_.TrustsNewest());
  // What changes in front of it takes the trust away.
  blocks[1] = System("another", 1000);
  const std::vector<PlanSegment> segments = send();
  EXPECT_EQ(stability_.NumTrusted(segments), 1U);
}

TEST_F(StabilityTest, WhatIsShorterThanTheProvidersMinimumEarnsNothing) {
  for (int i = 0; i < 3; ++i) {
    const std::vector<PlanSegment> segments =
        SegmentsOf({Tool("t", 500), System(std::to_string(i), 4000)});
    stability_.Arrive({.segments = segments, .in_time = true, .minimum_tokens = 1000});
    stability_.Send({.segments = segments, .num_shared = 2, .end = 1, .time_us = i});
  }
  EXPECT_FALSE(stability_.EarnsWrite());
}

TEST_F(StabilityTest, APauseOverTheLifetimeEarnsNothing) {
  Send("t", "s", 1);
  Send("t", "s", 2, false);
  EXPECT_FALSE(stability_.EarnsWrite());
  Send("t", "s", 3);
  EXPECT_TRUE(stability_.EarnsWrite());
}

TEST_F(StabilityTest, EachEarnedWriteThatIsLostMakesTheNextOneDearer) {
  Send("t", "s", 1);
  std::vector<int> earned;
  int num_turns = 1;
  for (int round = 0; round < 3; ++round) {
    int num_requests = 0;
    do {
      Send("t", "s", ++num_turns);
      ++num_requests;
    } while (!stability_.EarnsWrite());
    earned.push_back(num_requests);
    Send("t", "s", ++num_turns, false);  // the write has lapsed
  }
  EXPECT_EQ(earned, (std::vector<int>{1, 4, 16}));
}

TEST_F(StabilityTest, AnEarnedWriteThatIsReadPaysOffWhatWasLost) {
  Send("t", "s", 1);
  Send("t", "s", 2);
  stability_.Read(false, true);
  EXPECT_FALSE(stability_.EarnsWrite());
  stability_.Read(true, false);
  EXPECT_FALSE(stability_.EarnsWrite()) << "another entry was read";
  stability_.Read(true, true);
  EXPECT_TRUE(stability_.EarnsWrite());
}

TEST_F(StabilityTest, ParallelRequestsOfOneConversationDoNotCountAsChanges) {
  std::vector<Block> first = {System("s", 1000), User("a", 100)};
  std::vector<Block> second = {System("s", 1000), User("b", 100)};
  for (int i = 0; i < 6; ++i) {
    for (std::vector<Block>* blocks : {&first, &second}) {
      blocks->push_back(User((blocks == &first ? "a" : "b") + std::to_string(i), 100));
      const std::vector<PlanSegment> segments = SegmentsOf(*blocks);
      stability_.Arrive({.segments = segments, .in_time = true});
      EXPECT_EQ(stability_.HasBroken(), i == 0 && blocks == &second) << i;
      stability_.Send({.segments = segments,
                       .num_shared = 1,
                       .end = blocks->size() - 1,
                       .time_us = ++time_us_});
    }
  }
}

TEST_F(StabilityTest, ARequestWithoutAnAnswerIsNoEvidence) {
  Send("t", "s", 1);
  stability_.Withdraw(time_us_);
  Send("t", "s", 1);
  EXPECT_FALSE(stability_.EarnsWrite());
  EXPECT_EQ(stability_.num_repeated(), 0U);
}

TEST_F(StabilityTest, AChangeDeepInALongConversationIsFoundNearby) {
  std::vector<Block> blocks = {System("s", 1000)};
  for (int i = 0; i < 2000; ++i) blocks.push_back(User("turn " + std::to_string(i), 10));
  std::vector<PlanSegment> segments = SegmentsOf(blocks);
  stability_.Send({.segments = segments, .num_shared = 1, .end = 2000, .time_us = 1});
  blocks[1990].text = "changed";
  segments = SegmentsOf(blocks);
  stability_.Arrive({.segments = segments, .in_time = true});
  EXPECT_TRUE(stability_.HasBroken());
  EXPECT_LE(stability_.num_repeated(), 1990U);
  EXPECT_GE(stability_.num_repeated(), 1980U);
}

}  // namespace
}  // namespace kvgate::prompt::planner
