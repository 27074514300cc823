#include "engine/schedule/step_planner.h"

#include <map>

#include "tests/engine/schedule/scheduler_harness.h"

namespace kvgate::schedule {
namespace {

using StepPlannerTest = SchedulerHarness;

TEST_F(StepPlannerTest, ALongPromptIsPrefilledInChunksThatEndOnBlockBoundaries) {
  Make(64, 100);
  const RequestId id = Add(Range(300));
  std::vector<int> chunks;
  for (int turn = 0; turn < 4; ++turn) {
    const auto step = Turn();
    ASSERT_EQ(step.size(), 1u);
    chunks.push_back(step[0].num_tokens);
    EXPECT_EQ(step[0].wants_logits, turn == 3);
  }
  EXPECT_EQ(chunks, (std::vector<int>{96, 96, 96, 12}));
  EXPECT_EQ(scheduler_->Find(id)->num_prefilled_tokens, 300);
}

TEST_F(StepPlannerTest, DecodingSequencesComeFirstAndPrefillFillsTheRest) {
  Make(64, 64);
  Add(Range(10));
  Turn();
  Add(Range(200, 1000));
  const auto step = Turn();
  ASSERT_EQ(step.size(), 2u);
  EXPECT_EQ(step[0].num_tokens, 1);
  EXPECT_TRUE(step[0].wants_logits);
  EXPECT_EQ(step[1].num_tokens, 32);  // 63 tokens of the budget are left: one whole block
}

TEST_F(StepPlannerTest, AShortPromptBehindALongOneHasItsTokenAfterTheNextStep) {
  options_.step.short_prompt_tokens = 100;
  Make(1024, 512);
  Add(Range(20000));
  Turn();
  const RequestId shorty = Add(Range(90, 50000));
  const std::vector<StepItem> step = Turn();
  ASSERT_EQ(step.size(), 2u);
  EXPECT_EQ(step[0].sequence->id, shorty);
  EXPECT_TRUE(step[0].wants_logits);
  EXPECT_EQ(step[1].num_tokens, 160) << "the long one goes on, in a smaller step";
}

TEST_F(StepPlannerTest, AFloodOfShortPromptsLeavesALongOneAQuarter) {
  options_.step.short_prompt_tokens = 100;
  Make(2048, 256);
  const RequestId long_one = Add(Range(4000));
  int num_turns = 0;
  while (scheduler_->Find(long_one)->num_prefilled_tokens < 4000) {
    ASSERT_LT(++num_turns, 4000 / 64 + 4);
    for (int i = 0; i < 7; ++i) Add(Range(60, 10000 + 100 * (num_turns * 7 + i)));
    for (const StepItem& item : Turn()) {
      if (item.sequence->id != long_one && item.wants_logits) scheduler_->Remove(item.sequence->id);
    }
  }
}

TEST_F(StepPlannerTest, PrefillTakesLessOfAStepInWhichOthersDecode) {
  options_.step.mixed_tokens_max = 96;
  Make(256, 512);
  Add(Range(10));
  Turn();
  Add(Range(2000, 100));
  const auto step = Turn();
  ASSERT_EQ(step.size(), 2u);
  EXPECT_EQ(step[1].num_tokens, 64);  // 95 tokens are left: two blocks
}

TEST_F(StepPlannerTest, AStepTakesNoLongerThanItMay) {
  costs_.ObserveStep(512, 0, 512 * 1e-3);
  // At position 3000 a token costs four times as much, and the cost grows linearly up to there.
  costs_.ObserveStep(512, 3000, 512 * 4e-3);
  options_.step.seconds_max = 0.4;
  Make(256, 512);
  Add(Range(7000));
  std::vector<int> chunks;
  for (int turn = 0; turn < 20; ++turn) chunks.push_back(Turn().front().num_tokens);
  EXPECT_EQ(chunks.front(), 320);
  EXPECT_EQ(chunks.back(), 96);
  // With a second request, a step gets a quarter of the time, and that request's ten tokens use a
  // part of it.
  Add(Range(10, 9000));
  const auto step = Turn();
  ASSERT_EQ(step.size(), 1u);  // too little time is left for a block of the long one
  EXPECT_EQ(Turn().back().num_tokens, 32) << "beside a decode it goes on by a block in any case";
}

TEST_F(StepPlannerTest, TheYoungestGivesWayAndAllFinish) {
  Make(8, 256);
  std::map<RequestId, int> wanted;
  for (int i = 0; i < 4; ++i) wanted[Add(Range(40, i * 1000))] = 150;
  int num_turns = 0;
  while (!wanted.empty()) {
    ASSERT_LT(++num_turns, 3000) << "no progress";
    Turn();
    for (auto it = wanted.begin(); it != wanted.end();) {
      const bool done = scheduler_->Find(it->first)->num_tokens() >= it->second;
      if (done) scheduler_->Remove(it->first);
      it = done ? wanted.erase(it) : std::next(it);
    }
  }
  EXPECT_GT(scheduler_->num_preemptions(), 0u);
}

}  // namespace
}  // namespace kvgate::schedule
