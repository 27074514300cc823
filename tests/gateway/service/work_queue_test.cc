#include "gateway/service/work_queue.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <future>
#include <mutex>
#include <random>
#include <string>
#include <vector>

#include "tests/wait_until.h"

namespace kvgate::service {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Stop holds a thread until the test releases it.
class Stop {
 public:
  WorkQueue::Work work() {
    return [this] {
      begun_.set_value();
      release_.get_future().wait();
    };
  }
  void WaitBegun() { begun_.get_future().wait(); }
  void Release() { release_.set_value(); }

 private:
  std::promise<void> begun_;
  std::promise<void> release_;
};

TEST(WorkQueueTest, RunsAllThatItTookBeforeItEnds) {
  std::atomic<int> num_run{0};
  {
    WorkQueue queue({.threads = 2});
    for (int i = 0; i < 100; ++i) ASSERT_TRUE(queue.Post("a", [&] { ++num_run; }));
  }
  EXPECT_EQ(num_run.load(), 100);
}

TEST(WorkQueueTest, TenantsTakeTurnsWhateverOneHasQueued) {
  std::vector<std::string> order;
  std::mutex mutex;
  Stop stop;
  {
    WorkQueue queue({.threads = 1});
    ASSERT_TRUE(queue.Post("first", stop.work()));
    stop.WaitBegun();
    const auto note = [&](const std::string& name) {
      ASSERT_TRUE(queue.Post(name, [&, name] {
        const std::lock_guard lock(mutex);
        order.push_back(name);
      }));
    };
    for (int i = 0; i < 3; ++i) note("greedy");
    note("modest");
    note("other");
    stop.Release();
  }
  EXPECT_THAT(order, ElementsAre("greedy", "modest", "other", "greedy", "greedy"));
}

TEST(WorkQueueTest, AThreadIsLeftForOthersWhileOneTenantsWorkRuns) {
  Stop first;
  Stop second;
  std::promise<void> done;
  WorkQueue queue({.threads = 2});
  ASSERT_TRUE(queue.Post("greedy", first.work()));
  ASSERT_TRUE(queue.Post("greedy", second.work()));
  first.WaitBegun();
  ASSERT_TRUE(queue.Post("modest", [&] { done.set_value(); }));
  done.get_future().wait();
  EXPECT_EQ(queue.stats().num_queued, 1u);  // the greedy tenant's second
  first.Release();
  second.WaitBegun();
  second.Release();
}

TEST(WorkQueueTest, ATenantHasItsShareOfTheQueueAndNoMore) {
  Stop stop;
  WorkQueue queue({.name = "test", .threads = 1, .queue_max = 4, .tenant_share = 0.5});
  ASSERT_TRUE(queue.Post("greedy", stop.work()));
  stop.WaitBegun();
  ASSERT_TRUE(queue.Post("greedy", [] {}));
  ASSERT_TRUE(queue.Post("greedy", [] {}));
  const auto own = queue.Post("greedy", [] {});
  ASSERT_FALSE(own);
  EXPECT_EQ(own.error().code, ErrorCode::kOverloaded);
  EXPECT_THAT(own.error().detail, HasSubstr("2 of your requests wait for the test threads"));
  EXPECT_GT(own.error().retry_after_seconds, 0);
  ASSERT_TRUE(queue.Post("modest", [] {}));
  ASSERT_TRUE(queue.Post("other", [] {}));
  const auto full = queue.Post("late", [] {});
  ASSERT_FALSE(full);
  EXPECT_THAT(full.error().detail, HasSubstr("4 requests wait for the test threads"));
  EXPECT_EQ(queue.stats().num_refused, 2u);
  stop.Release();
}

// The clock is the test's, so no test waits for time to pass.
class LostThreadsTest : public ::testing::Test {
 protected:
  std::atomic<int64_t> seconds_{0};
  WorkQueue::Options OptionsFor(int threads) {
    return {.name = "disk",
            .threads = threads,
            .waits_for_disk = true,
            .stalled_after = seconds(10),
            .now = [this] { return WorkQueue::Clock::time_point(seconds(seconds_.load())); }};
  }
};

TEST_F(LostThreadsTest, WorkIsRefusedAtOnceWhereTheDiskHasAllThreads) {
  Stop first;
  Stop second;
  WorkQueue queue(OptionsFor(2));
  ASSERT_TRUE(queue.Post("a", first.work()));
  ASSERT_TRUE(queue.Post("b", second.work()));
  first.WaitBegun();
  second.WaitBegun();
  seconds_ = 9;
  EXPECT_TRUE(queue.CheckAlive("c"));
  seconds_ = 10;
  const auto refused = queue.Post("c", [] {});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kUnavailable);
  EXPECT_THAT(refused.error().detail, HasSubstr("The disk has not answered"));
  EXPECT_FALSE(queue.CheckAlive("c"));
  first.Release();
  EXPECT_TRUE(test::WaitUntil([&] { return queue.stats().num_done > 0; }, "the first is done"));
  EXPECT_TRUE(queue.CheckAlive("c"));
  second.Release();
}

TEST_F(LostThreadsTest, ATenantThatHasLostItsOwnIsRefusedAndOthersAreNot) {
  Stop stop;
  WorkQueue queue(OptionsFor(2));
  ASSERT_TRUE(queue.Post("a", stop.work()));
  stop.WaitBegun();
  seconds_ = 11;
  EXPECT_FALSE(queue.Post("a", [] {}));
  std::promise<void> done;
  ASSERT_TRUE(queue.Post("b", [&] { done.set_value(); }));
  done.get_future().wait();
  stop.Release();
}

TEST(WorkQueueTest, WhatThrowsCostsNoThread) {
  std::promise<void> done;
  WorkQueue queue({.threads = 1});
  ASSERT_TRUE(queue.Post("a", [] { throw std::runtime_error("broken"); }));
  ASSERT_TRUE(queue.Post("a", [&] { done.set_value(); }));
  done.get_future().wait();
}

TEST(WorkQueueTest, RandomWorkOfManyTenantsComesToAnEndEachOnce) {
  std::mt19937 random(7);
  std::atomic<int> num_run{0};
  int num_taken = 0;
  {
    WorkQueue queue({.threads = 3, .queue_max = 64, .tenant_share = 0.3});
    for (int i = 0; i < 3000; ++i) {
      const std::string tenant(1, static_cast<char>('a' + random() % 7));
      if (queue.Post(tenant, [&] { ++num_run; })) ++num_taken;
    }
  }
  EXPECT_EQ(num_run.load(), num_taken);
}

}  // namespace
}  // namespace kvgate::service
