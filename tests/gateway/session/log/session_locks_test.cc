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
