#include "gateway/session/log/session_locks.h"

#include <gtest/gtest.h>

namespace kvgate::session::log {
namespace {

TEST(SessionLocksTest, OneWriterAtATimeAndOthersLearnWhose) {
  SessionLocks locks;
  auto first = locks.TryLock({.tenant = "t", .key = "k", .turn = "turn_1"});
  ASSERT_TRUE(first.lock);
  const auto second = locks.TryLock({.tenant = "t", .key = "k", .turn = "turn_2"});
  EXPECT_FALSE(second.lock);
  EXPECT_EQ(second.turn, "turn_1");
  EXPECT_TRUE(locks.TryLock({.tenant = "other", .key = "k", .turn = "x"}).lock);
  EXPECT_TRUE(locks.TryLock({.tenant = "t", .key = "other", .turn = "x"}).lock);
  first.lock.reset();
  EXPECT_TRUE(locks.TryLock({.tenant = "t", .key = "k", .turn = "turn_2"}).lock);
  EXPECT_EQ(locks.num_locked(), 0u);
}

TEST(SessionLocksTest, OneThatOnlyAddsAnEventSaysSo) {
  SessionLocks locks;
  const auto brief = locks.TryLock({.tenant = "t", .key = "k", .turn = "1", .is_brief = true});
  ASSERT_TRUE(brief.lock);
  EXPECT_TRUE(locks.TryLock({.tenant = "t", .key = "k", .turn = "2"}).is_brief);
  const auto other = locks.TryLock({.tenant = "t", .key = "other", .turn = "3"});
  EXPECT_FALSE(locks.TryLock({.tenant = "t", .key = "other", .turn = "4"}).is_brief);
}

TEST(SessionLocksTest, AHolderThatWaitsForAnEventAdmitsIt) {
  SessionLocks locks;
  auto held = locks.TryLock({.tenant = "t", .key = "k", .turn = "1"});
  int num_woken = 0;
  const auto event = [&] {
    return locks.TryLock({.tenant = "t",
                          .key = "k",
                          .turn = "event",
                          .on_free = [&] { ++num_woken; },
                          .is_brief = true});
  };
  EXPECT_FALSE(event().lock);
  locks.AdmitEvents("t", "k", true);
  EXPECT_EQ(num_woken, 1);
  EXPECT_TRUE(event().lock);
  EXPECT_FALSE(locks.TryLock({.tenant = "t", .key = "k", .turn = "2"}).lock);
  EXPECT_EQ(locks.num_locked(), 1u);
  locks.AdmitEvents("t", "k", false);
  EXPECT_FALSE(event().lock);
  held.lock.reset();
  EXPECT_EQ(num_woken, 2);
  EXPECT_EQ(locks.num_locked(), 0u);
  locks.AdmitEvents("t", "k", true);  // nobody holds it
  EXPECT_TRUE(locks.TryLock({.tenant = "t", .key = "k", .turn = "3"}).lock);
}

TEST(SessionLocksTest, WhoWaitsIsWokenOnce) {
  SessionLocks locks;
  auto first = locks.TryLock({.tenant = "t", .key = "k", .turn = "turn_1"});
  int num_woken = 0;
  for (int i = 0; i < 2; ++i) {
    (void)locks.TryLock(
        {.tenant = "t", .key = "k", .turn = "turn_2", .on_free = [&num_woken] { ++num_woken; }});
  }
  EXPECT_EQ(num_woken, 0);
  first.lock.reset();
  EXPECT_EQ(num_woken, 2);
  auto again = locks.TryLock({.tenant = "t", .key = "k", .turn = "turn_3"});
  again.lock.reset();
  EXPECT_EQ(num_woken, 2);
}

}  // namespace
}  // namespace kvgate::session::log
