#include "engine/schedule/bounded_context.h"

#include <random>

#include "tests/engine/schedule/scheduler_harness.h"

namespace kvgate::schedule {
namespace {

using BoundedContextTest = SchedulerHarness;

TEST_F(BoundedContextTest, ABoundedContextKeepsItsBlocksAndGoesOn) {
  for (const ContextPolicy policy : {ContextPolicy::kSlidingWindow, ContextPolicy::kAttentionSink,
                                     ContextPolicy::kLeastAttended}) {
    options_.context_policy = policy;
    options_.context_policy_tokens = 128;
    Make(60, 512);
    const RequestId id = Add(Range(2000));
    int num_turns = 0;
    while (scheduler_->Find(id)->num_tokens() < 2300) {
      ASSERT_LT(++num_turns, 500) << "no progress";
      Turn();
      const Sequence* sequence = scheduler_->Find(id);
      ASSERT_LE(sequence->full().blocks.size(), 4u + 8u);
      ASSERT_EQ(sequence->num_dropped_tokens % 32, 0);
      ASSERT_LE(sequence->num_slots(), 128 + 256);
      // Drops happen at fixed positions, whatever the chunks were: 256 tokens at once at position
      // 384 and every 256 tokens after it.
      ASSERT_EQ(sequence->num_dropped_tokens,
                sequence->num_computed < 384 ? 0 : (sequence->num_computed - 128) / 256 * 256);
      ASSERT_EQ(sequence->block_mass.size(),
                policy == ContextPolicy::kLeastAttended ? sequence->full().blocks.size() : 0u);
    }
    EXPECT_EQ(scheduler_->Find(id)->num_prefilled_tokens, 2000);
    scheduler_->Remove(id);
    // Blocks computed before the first drop hold valid KV of their prefix; none after it may be a
    // hit.
    const RequestId again = Add(Range(2000));
    Turn();
    EXPECT_GT(scheduler_->Find(again)->num_device_tokens, 0);
    EXPECT_LE(scheduler_->Find(again)->num_device_tokens, 128 + 256);
    scheduler_->Remove(again);
    scheduler_.reset();
  }
}

// Requests arrive, are cancelled and end in any order; the harness checks pool and cache after each
// turn.
TEST_F(BoundedContextTest, KeepsItsBooksOverRandomTrafficOfBoundedContexts) {
  options_.context_policy = ContextPolicy::kAttentionSink;
  options_.context_policy_tokens = 128;
  Make(40, 96);
  std::mt19937 random(6);
  for (int turn = 0; turn < 10000; ++turn) {
    if (random() % 3 == 0 && scheduler_->Ids().size() < 12) {
      Add(Range(1 + static_cast<int>(random() % 600), random() % 2 == 0 ? 0 : 5000));
    }
    Turn();
    for (const RequestId id : scheduler_->Ids()) {
      const Sequence* sequence = scheduler_->Find(id);
      const bool too_long = sequence->num_tokens() > sequence->num_prompt_tokens + 100;
      if (too_long || random() % 100 == 0) scheduler_->Remove(id);
    }
  }
}

}  // namespace
}  // namespace kvgate::schedule
