#include "engine/schedule/admission.h"

#include <algorithm>

#include "tests/engine/schedule/scheduler_harness.h"

namespace kvgate::schedule {
namespace {

using AdmissionTest = SchedulerHarness;

TEST_F(AdmissionTest, ASecondPromptSharesTheBlocksOfTheFirst) {
  Make(64);
  const RequestId first = Add(Range(100));
  Turn();
  scheduler_->Remove(first);
  const RequestId second = Add(Range(100));
  Turn();
  EXPECT_EQ(scheduler_->Find(second)->num_device_tokens, 99);
  EXPECT_EQ(scheduler_->Find(second)->num_prefilled_tokens, 1);
}

// A request that comes second waits until the first has computed their common prefix.
TEST_F(AdmissionTest, EqualColdPromptsAreComputedOnce) {
  Make(64, 64);
  const RequestId first = Add(Range(200));
  std::vector<RequestId> others;
  for (int i = 0; i < 3; ++i) others.push_back(Add(Range(200)));
  int num_computed = 0;
  for (int turn = 0; turn < 8; ++turn) {
    for (const StepItem& item : Turn()) {
      if (!item.sequence->is_decoding() || item.num_tokens > 1) num_computed += item.num_tokens;
    }
  }
  EXPECT_GE(num_computed, 200);
  EXPECT_LE(num_computed, 203) << "of the others only the last token is computed";
  const Sequence* leader = scheduler_->Find(first);
  EXPECT_EQ(leader->num_prefilled_tokens, 200);
  for (const RequestId id : others) {
    const Sequence* sequence = scheduler_->Find(id);
    EXPECT_EQ(sequence->num_prefilled_tokens, 1) << "the unfinished last block is copied, too";
    EXPECT_TRUE(std::equal(sequence->full().block_table.begin(),
                           sequence->full().block_table.begin() + 6,
                           leader->full().block_table.begin()));
  }
  EXPECT_EQ(scheduler_->num_single_flight(), 3u);
}

TEST_F(AdmissionTest, AFollowerIsNotLeftWaitingWhenItsLeaderIsCancelled) {
  Make(64, 64);
  const RequestId first = Add(Range(200));
  Turn();
  const RequestId second = Add(Range(200));
  Turn();
  EXPECT_EQ(scheduler_->Find(second)->state, SequenceState::kWaiting);
  scheduler_->Remove(first);
  Turn();
  EXPECT_EQ(scheduler_->Find(second)->state, SequenceState::kRunning);
  EXPECT_GE(scheduler_->Find(second)->num_device_tokens, 64);
}

TEST_F(AdmissionTest, TenantsDoNotWaitForEachOthersPrefixes) {
  Make(64, 64);
  Add(Range(200), "a");
  const RequestId other = Add(Range(200), "b");
  Turn();
  EXPECT_EQ(scheduler_->Find(other)->state, SequenceState::kRunning);
  EXPECT_EQ(scheduler_->Find(other)->num_device_tokens, 0);
  EXPECT_EQ(scheduler_->num_single_flight(), 0u);
}

TEST_F(AdmissionTest, ATenantHoldsNoMoreThanItsShareWhileItHasOthersRunning) {
  options_.tenant_kv_share = 0.5;
  Make(16, 512);
  std::vector<RequestId> greedy;
  for (int i = 0; i < 4; ++i) greedy.push_back(Add(Range(120, 1000 * i), "greedy"));
  const RequestId other = Add(Range(120, 9000), "other");
  Turn();
  int num_running = 0;
  for (const RequestId id : greedy) {
    num_running += scheduler_->Find(id)->state == SequenceState::kRunning;
  }
  EXPECT_EQ(num_running, 2);  // four blocks each, and its share is eight
  EXPECT_EQ(scheduler_->Find(other)->state, SequenceState::kRunning);
}

TEST_F(AdmissionTest, WhatThePoolLostComesBackFromTheHostArena) {
  host_blocks_ = 32;
  Make(8, 512);
  const RequestId first = Add(Range(200));
  Turn();
  scheduler_->Remove(first);
  const RequestId second = Add(Range(250, 7000));  // takes the whole pool
  Turn();
  scheduler_->Remove(second);
  const RequestId again = Add(Range(200));
  Turn();
  const Sequence* sequence = scheduler_->Find(again);
  EXPECT_EQ(sequence->num_host_tokens, 192);
  EXPECT_EQ(sequence->num_prefilled_tokens, 8);
  groups_.full().host()->CheckIntegrity();
}

}  // namespace
}  // namespace kvgate::schedule
