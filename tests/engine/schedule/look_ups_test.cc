#include "engine/schedule/look_ups.h"

#include <gtest/gtest.h>

#include "tests/engine/memory_shared_store.h"
#include "tests/engine/schedule/scheduler_harness.h"

namespace kvgate::schedule {
namespace {

class LookUpsTest : public SchedulerHarness {
 protected:
  LookUpsTest() {
    Make(16);
    shared_ = std::make_unique<tier::StoreTier>(
        tier::StoreTier::Options{.store = tier::StoreName::kShared,
                                 .fingerprint = {},
                                 .groups = {{.arena = &groups_.full().arena(), .shape_tag = 0}},
                                 .is_driven = true,
                                 .on_completion = [](tier::Completion) {}},
        store_of_many_, *backend_);
    finder_ = std::make_unique<tier::BlockFinder>(
        tier::BlockFinder::Options{
            .fingerprint = {},
            .is_driven = true,
            .on_answer = [this](uint64_t ticket) { look_ups_->OnAnswer(ticket); }},
        store_of_many_);
    look_ups_.emplace(tier::StoreTiers{.shared = shared_.get(), .finder = finder_.get()}, costs_,
                      groups_);
  }
  std::unique_ptr<Sequence> MakeSequence(uint8_t num_blocks) {
    auto sequence = std::make_unique<Sequence>();
    for (uint8_t i = 0; i < num_blocks; ++i) {
      kv::BlockKey key{.hash = {.low = i, .high = 7}, .digest = {}};
      key.digest.bytes[0] = i;
      sequence->keys.push_back(key);
    }
    return sequence;
  }
  size_t Answer() {
    const auto question = finder_->Take();
    if (!question) return 0;
    finder_->Perform(*question);
    return question->items.size();
  }

  store::SharedBlocks blocks_;
  store::MemorySharedStore store_of_many_{blocks_};
  std::unique_ptr<tier::StoreTier> shared_;
  std::unique_ptr<tier::BlockFinder> finder_;
  std::optional<LookUps> look_ups_;
};

TEST_F(LookUpsTest, ASequenceWaitsForOneAnswer) {
  const auto sequence = MakeSequence(5);
  blocks_.blocks[{sequence->keys[2].digest, 0}] = {};
  EXPECT_TRUE(look_ups_->Await(*sequence, 2));
  EXPECT_NE(sequence->look_up_ticket, 0u);
  EXPECT_TRUE(look_ups_->Await(*sequence, 2));
  EXPECT_EQ(Answer(), 3u);  // blocks 2 to 4, asked for once
  EXPECT_EQ(sequence->look_up_ticket, 0u);
  EXPECT_FALSE(look_ups_->Await(*sequence, 2));
  EXPECT_EQ(Answer(), 0u);
  EXPECT_TRUE(shared_->Contains(sequence->keys[2]));
  EXPECT_FALSE(shared_->Contains(sequence->keys[3]));
}

TEST_F(LookUpsTest, WhatIsAllThereOrKnownIsNotAskedFor) {
  const auto whole = MakeSequence(3);
  EXPECT_FALSE(look_ups_->Await(*whole, 3));
  blocks_.blocks[{whole->keys[0].digest, 0}] = {};
  EXPECT_TRUE(look_ups_->Await(*whole, 0));
  Answer();
  const auto other = MakeSequence(1);  // begins with the same block
  EXPECT_FALSE(look_ups_->Await(*other, 0));
}

TEST_F(LookUpsTest, NobodyAsksAPausedStoreOrForWhatIsComputedSooner) {
  store_of_many_.paused = true;
  const auto sequence = MakeSequence(3);
  EXPECT_FALSE(look_ups_->Await(*sequence, 0));
  EXPECT_FALSE(sequence->was_looked_up);  // it may be back later
  store_of_many_.paused = false;
  EXPECT_TRUE(look_ups_->Await(*sequence, 0));
  Answer();
  // A block takes less time than the answer took.
  costs_.ObserveStep(512, 0, 512 * 1e-9);
  const auto quick = MakeSequence(9);
  EXPECT_FALSE(look_ups_->Await(*quick, 8));
}

TEST_F(LookUpsTest, AnAnswerForASequenceThatHasEndedIsIgnored) {
  auto sequence = MakeSequence(3);
  EXPECT_TRUE(look_ups_->Await(*sequence, 0));
  look_ups_->Forget(*sequence);
  EXPECT_EQ(sequence->look_up_ticket, 0u);
  sequence.reset();
  EXPECT_EQ(Answer(), 3u);
}

}  // namespace
}  // namespace kvgate::schedule
