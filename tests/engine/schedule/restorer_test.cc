#include "engine/schedule/restorer.h"

#include <chrono>

#include "tests/engine/schedule/scheduler_harness.h"
#include "tests/manual_clock.h"

namespace kvgate::schedule {
namespace {

using std::chrono::milliseconds;
using RestorerTest = SchedulerHarness;

TEST_F(RestorerTest, StoredBlocksAreRestoredAndTheRestIsComputed) {
  Make(16, 512, true);
  const RequestId first = Add(Range(130));
  Turn();
  Sequence* sequence = scheduler_->Find(first);
  const UnstoredBlocks unstored(groups_, tier_.get(), nullptr);
  std::vector<tier::WriteItem> items = unstored.Take(*sequence);
  ASSERT_EQ(items.size(), 4u);
  EXPECT_TRUE(unstored.Take(*sequence).empty());
  auto held = unstored.Hold(*sequence, items);
  ASSERT_TRUE(tier_->Write(99, items));
  EXPECT_EQ(WaitForCompletion().num_ok, 4u);
  kv::ReleaseLastToFirst(held);
  scheduler_->Remove(first);
  cache_->Clear();

  store_.fail_gets_from_depth = 3;  // the fourth block is damaged
  const RequestId second = Add(Range(130));
  EXPECT_TRUE(Turn().empty());  // the sequence waits for the store
  EXPECT_EQ(scheduler_->Find(second)->state, SequenceState::kRestoring);
  scheduler_->OnRestored(WaitForCompletion());
  const auto step = Turn();
  ASSERT_EQ(step.size(), 1u);
  EXPECT_EQ(step[0].num_tokens, 130 - 96);
  EXPECT_EQ(scheduler_->Find(second)->num_disk_tokens, 96);
  EXPECT_EQ(scheduler_->Find(second)->given_up.reason, GivenUpLoad::Reason::kDamaged);
  EXPECT_EQ(scheduler_->Find(second)->given_up.num_tokens, 32);
}

// When the process gets no processor time, neither loading nor computing progresses.
TEST_F(RestorerTest, TimeInWhichNobodyCouldLookIsNotCountedAgainstALoad) {
  costs_.ObserveStep(512, 0, 512 * 1e-3);
  Make(40, 512, true);
  Store(Range(330));
  const test::ManualClock clock;
  store_.holds_gets = true;
  const RequestId id = Add(Range(330));
  EXPECT_TRUE(Turn().empty());
  ASSERT_TRUE(test::WaitUntil([&] { return store_.num_gets_held > 0; }, "a reader reads"));
  for (int look = 0; look < 3; ++look) {
    test::ManualClock::Advance(milliseconds(100));
    scheduler_->GiveUpLateRestores();
  }
  EXPECT_EQ(scheduler_->Find(id)->state, SequenceState::kRestoring);
  // If a step took as long, computing would have progressed, so that time counts against the load.
  test::ManualClock::Advance(milliseconds(90));
  scheduler_->GiveUpLateRestores(true);
  EXPECT_EQ(scheduler_->Find(id)->state, SequenceState::kRunning);
  EXPECT_EQ(scheduler_->restorer().num_cut(), 1u);
  store_.holds_gets = false;
  scheduler_->Remove(id);
  scheduler_->OnRestored(WaitForCompletion());
}

// The numbers were measured in 4 of 24 restarts of a loaded machine: the first read took 45 ms, the
// other 1500 blocks 8 ms, and computing the prompt would have taken 2.8 s.
TEST_F(RestorerTest, AFirstReadThatTakesAWhileIsWaitedFor) {
  costs_.ObserveStep(128, 64, 128 * 14e-6);
  costs_.SetSlope(2.2e-9);
  Make(330, 10'240, true);
  Store(Range(10'000));
  const test::ManualClock clock;
  // All reads together take 3 ms, so that a reader which the machine lets wait sees no first read
  // of more than 50 ms.
  store_.get_takes_us = 10;
  store_.holds_gets = true;
  const RequestId id = Add(Range(10'000));
  EXPECT_TRUE(Turn().empty());
  ASSERT_TRUE(test::WaitUntil([&] { return store_.num_gets_held == 2; }, "both readers read"));
  for (int ms = 0; ms < 45; ++ms) {
    test::ManualClock::Advance(milliseconds(1));
    scheduler_->GiveUpLateRestores();
  }
  store_.holds_gets = false;
  const auto has_ended = [&] {
    scheduler_->GiveUpLateRestores();
    if (HasCompletion()) scheduler_->OnRestored(WaitForCompletion());
    return !scheduler_->restoring();
  };
  ASSERT_TRUE(test::WaitUntil(has_ended, "the load ends"));
  EXPECT_EQ(scheduler_->restorer().num_cut(), 0u);
  EXPECT_EQ(scheduler_->Find(id)->num_disk_tokens, 9984);
  EXPECT_EQ(scheduler_->Find(id)->given_up.reason, GivenUpLoad::Reason::kNone);
  // The slow first read does not count against the next load, either.
  scheduler_->Remove(id);
  cache_->Clear();
  const RequestId second = Add(Range(10'000));
  Turn();
  EXPECT_EQ(scheduler_->Find(second)->state, SequenceState::kRestoring);
  EXPECT_EQ(scheduler_->restorer().num_skipped(), 0u);
  scheduler_->OnRestored(WaitForCompletion());
}

TEST_F(RestorerTest, ALoadThatFallsBehindComputingIsGivenUp) {
  costs_.ObserveStep(512, 0, 512 * 1e-3);  // a block takes 32 ms to compute
  Make(40, 512, true);
  Store(Range(330));
  const test::ManualClock clock;
  store_.holds_gets = true;
  const RequestId id = Add(Range(330));
  EXPECT_TRUE(Turn().empty());
  ASSERT_TRUE(test::WaitUntil([&] { return store_.num_gets_held == 2; }, "both readers read"));
  int waited_ms = 0;
  while (scheduler_->Find(id)->state == SequenceState::kRestoring && waited_ms < 1000) {
    test::ManualClock::Advance(milliseconds(1));
    ++waited_ms;
    scheduler_->GiveUpLateRestores();
  }
  // A load may lag by a twentieth of the 320 ms of computing, and by the time that a first read may
  // take.
  EXPECT_GE(waited_ms, 16);
  EXPECT_LT(waited_ms, 150);
  EXPECT_EQ(scheduler_->restorer().num_cut(), 1u);
  const GivenUpLoad& given_up = scheduler_->Find(id)->given_up;
  EXPECT_EQ(given_up.reason, GivenUpLoad::Reason::kLate);
  EXPECT_EQ(given_up.num_tokens, 320);
  EXPECT_GT(given_up.load_seconds, 0.010);
  EXPECT_NEAR(given_up.compute_seconds, 0.32, 1e-6);
  EXPECT_TRUE(scheduler_->restoring()) << "two readers are still at it";
  const auto step = Turn();
  ASSERT_EQ(step.size(), 1u);
  EXPECT_EQ(step[0].num_tokens, 330);
  const std::vector<BlockId> table = scheduler_->Find(id)->full().block_table;
  store_.get_takes_us = 200'000;
  store_.holds_gets = false;
  scheduler_->OnRestored(WaitForCompletion());
  EXPECT_FALSE(scheduler_->restoring());
  EXPECT_EQ(scheduler_->Find(id)->full().block_table, table);
  // The disk is known to be slow from here on, so no request waits for it.
  const RequestId second = Add(Range(330, 0), "");
  scheduler_->Remove(id);
  cache_->Clear();
  Turn();
  EXPECT_EQ(scheduler_->Find(second)->state, SequenceState::kRunning);
  EXPECT_EQ(scheduler_->restorer().num_skipped(), 1u);
  EXPECT_EQ(scheduler_->Find(second)->given_up.reason, GivenUpLoad::Reason::kNotWorthIt);
  EXPECT_GT(scheduler_->Find(second)->given_up.load_seconds, 0.33);
}

TEST_F(RestorerTest, ASequenceThatEndsDuringItsLoadLeavesTheReadersTheirBlocks) {
  Make(40, 512, true);
  Store(Range(330));
  store_.holds_gets = true;
  const RequestId id = Add(Range(330));
  Turn();
  ASSERT_EQ(scheduler_->Find(id)->state, SequenceState::kRestoring);
  ASSERT_TRUE(test::WaitUntil([&] { return store_.num_gets_held == 2; }, "both readers read"));
  EXPECT_NE(scheduler_->Remove(id), nullptr);
  EXPECT_EQ(pool_->num_used(), 2u);
  store_.holds_gets = false;
  scheduler_->OnRestored(WaitForCompletion());
  EXPECT_EQ(pool_->num_used(), 0u);
}

}  // namespace
}  // namespace kvgate::schedule
