#include "gateway/session/summary/folds.h"

#include <gtest/gtest.h>

#include <array>
#include <string>

namespace kvgate::session::summary {
namespace {

using Outcome = Folds::Outcome;
const Folds::Session kSession{.tenant = "t", .key = "k"};

TEST(FoldsTest, ASessionIsFoldedOnceAtATime) {
  Folds folds;
  auto ticket = folds.Begin(kSession, 1);
  ASSERT_NE(ticket, nullptr);
  EXPECT_FALSE(folds.IsDue(kSession, 1));
  EXPECT_EQ(folds.Begin(kSession, 1, Folds::Trigger::kClient), nullptr);
  EXPECT_NE(folds.Begin({.tenant = "other", .key = "k"}, 1), nullptr);
  EXPECT_EQ(folds.counts().num_running, 1u);
  ticket->End(Outcome::kStored);
  EXPECT_TRUE(folds.IsDue(kSession, 1));
  EXPECT_EQ(folds.counts().num_stored, 1u);
}

TEST(FoldsTest, WhoWaitsIsWokenOnceAtItsEnd) {
  Folds folds;
  int num_woken = 0;
  EXPECT_FALSE(folds.Await(kSession, [&] { ++num_woken; }));
  auto ticket = folds.Begin(kSession, 1);
  EXPECT_TRUE(folds.Await(kSession, [&] { ++num_woken; }));
  EXPECT_TRUE(folds.Await(kSession, [&] { ++num_woken; }));
  EXPECT_EQ(num_woken, 0);
  ticket.reset();
  EXPECT_EQ(num_woken, 2);
  EXPECT_EQ(folds.counts().num_failed, 1u);
}

TEST(FoldsTest, AfterAFailureTurnsGoByAndEachTimeMore) {
  Folds folds;
  uint64_t depth = 10;
  uint64_t before = 0;
  for (uint32_t failures = 0; failures < 10; ++failures) {
    auto ticket = folds.Begin(kSession, depth);
    ASSERT_NE(ticket, nullptr);
    EXPECT_EQ(ticket->num_failures, failures);
    ticket.reset();
    const uint64_t failed_at = depth;
    while (!folds.IsDue(kSession, depth)) ++depth;
    const uint64_t pause = depth - failed_at;
    EXPECT_TRUE(pause == 256 || pause >= 2 * before) << pause;
    before = pause;
  }
  EXPECT_EQ(before, 256u);
  // Somebody who asks is not kept waiting, and a success makes good.
  folds.Begin(kSession, depth)->End(Outcome::kFailed);
  folds.Begin(kSession, depth, Folds::Trigger::kClient)->End(Outcome::kStored);
  EXPECT_TRUE(folds.IsDue(kSession, depth));
}

TEST(FoldsTest, StoredSummariesAreCountedByWhatMadeThemBegin) {
  Folds folds;
  folds.Begin(kSession, 1)->End(Outcome::kStored);
  folds.Begin(kSession, 2, Folds::Trigger::kIdle)->End(Outcome::kStored);
  folds.Begin(kSession, 3, Folds::Trigger::kIdle)->End(Outcome::kStored);
  folds.Begin(kSession, 4, Folds::Trigger::kClient)->End(Outcome::kStale);
  EXPECT_EQ(folds.counts().num_stored_by, (std::array<uint64_t, Folds::kNumTriggers>{1, 2, 0}));
}

TEST(FoldsTest, OneThatIsStaleOrPutOffIsNoFailure) {
  Folds folds;
  folds.Begin(kSession, 5)->End(Outcome::kStale);
  EXPECT_TRUE(folds.IsDue(kSession, 5));
  folds.PutOff(kSession, 5);
  EXPECT_FALSE(folds.IsDue(kSession, 6));
  EXPECT_EQ(folds.counts().num_failed, 0u);
  EXPECT_EQ(folds.counts().num_stale, 1u);
}

}  // namespace
}  // namespace kvgate::session::summary
