#include "base/thread_activity.h"

#include <gtest/gtest.h>

#include <future>
#include <optional>
#include <string>
#include <thread>

namespace kvgate {
namespace {

std::optional<ThreadActivity::View> Find(const std::string& pool) {
  std::optional<ThreadActivity::View> found;
  ThreadActivity::ForEach([&](const ThreadActivity::View& view) {
    if (pool == view.pool) found = view;
  });
  return found;
}

TEST(ThreadActivityTest, WhatIsDoneIsSeenSinceItBeganAndNotWhenItHasEnded) {
  ThreadActivity activity({.pool = "seen", .patience = std::chrono::seconds(3)});
  EXPECT_FALSE(Find("seen"));
  const auto since = ThreadActivity::Clock::now() - std::chrono::hours(1);
  activity.BeginAt("digging", since);
  const auto view = Find("seen");
  ASSERT_TRUE(view);
  EXPECT_STREQ(view->what, "digging");
  EXPECT_EQ(view->since, since);
  EXPECT_EQ(view->patience, std::chrono::seconds(3));
  EXPECT_TRUE(::pthread_equal(view->thread, ::pthread_self()));
  activity.Begin("resting");
  EXPECT_GT(Find("seen")->since, since);
  activity.End();
  EXPECT_FALSE(Find("seen"));
}

TEST(ThreadActivityTest, AThreadThatHasEndedIsForgotten) {
  uint64_t first_id = 0;
  for (int i = 0; i < 2; ++i) {
    std::promise<void> begun;
    std::promise<void> release;
    std::thread thread([&] {
      ThreadActivity activity({.pool = "gone"});
      activity.Begin("living");
      begun.set_value();
      release.get_future().wait();
    });
    begun.get_future().wait();
    const auto view = Find("gone");
    ASSERT_TRUE(view);
    EXPECT_NE(view->id, first_id);
    first_id = view->id;
    release.set_value();
    thread.join();
    EXPECT_FALSE(Find("gone"));
  }
}

}  // namespace
}  // namespace kvgate
