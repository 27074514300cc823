#include "engine/schedule/scheduler.h"

#include <random>

#include "tests/engine/schedule/scheduler_harness.h"

namespace kvgate::schedule {
namespace {

using SchedulerTest = SchedulerHarness;

TEST_F(SchedulerTest, ALargePromptWithoutRoomIsPassedAFewTimesAndThenWaitedFor) {
  options_.sequences_max = 4;
  Make(20, 512);
  const RequestId small_one = Add(Range(300));
  Turn();
  const RequestId large = Add(Range(500, 5000));
  int num_passed = 0;
  for (int i = 0; i < 100; ++i) {
    const RequestId id = Add(Range(40, 10000 + 100 * i));
    Turn();
    if (scheduler_->Find(id)->state == SequenceState::kRunning) ++num_passed;
    scheduler_->Remove(id);
  }
  EXPECT_EQ(num_passed, 16);
  scheduler_->Remove(small_one);
  Turn();
  EXPECT_EQ(scheduler_->Find(large)->state, SequenceState::kRunning);
}

TEST_F(SchedulerTest, KeepsItsBooksOverRandomTraffic) {
  options_.tenant_kv_share = 0.8;
  options_.step.short_prompt_tokens = 100;
  host_blocks_ = 10;
  Make(24, 96);
  std::mt19937 random(5);
  for (int turn = 0; turn < 20000; ++turn) {
    if (random() % 3 == 0 && scheduler_->Ids().size() < 20) {
      Tokens tokens = Range(1 + static_cast<int>(random() % 200));
      if (random() % 2 == 0) tokens[tokens.size() / 2] = 5000 + static_cast<TokenId>(random() % 4);
      Add(std::move(tokens), random() % 3 == 0 ? "b" : "a");
    }
    Turn();
    groups_.full().host()->CheckIntegrity();
    for (const RequestId id : scheduler_->Ids()) {
      const Sequence* sequence = scheduler_->Find(id);
      const bool too_long = sequence->num_tokens() > sequence->num_prompt_tokens + 60;
      if (too_long || random() % 50 == 0) scheduler_->Remove(id);
    }
  }
}

}  // namespace
}  // namespace kvgate::schedule
