#include "gateway/proxy/work/work_runner.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <new>
#include <stdexcept>
#include <thread>

#include "tests/gateway/proxy/test_proxy.h"
#include "tests/gateway/proxy/work/busy_threads.h"

namespace kvgate::proxy::work {
namespace {

using std::chrono::milliseconds;
using test::BusyThreads;
using test::TestProxy;
using test::TestSink;
using ::testing::HasSubstr;

// A request without a body, for its runner.
struct Runner {
  explicit Runner(service::WorkPools::Options options = {})
      : proxy({.pools = options}), sink(proxy.io()), request(proxy.Open({}, sink)) {}
  WorkRunner* operator->() { return &request->work(); }

  TestProxy proxy;
  TestSink sink;
  std::unique_ptr<request::RequestContext> request;
};

TEST(WorkRunnerTest, WorkRunsOnAThreadAndMayBorrowFromWhoWaits) {
  Runner runner;
  std::thread::id ran_on;
  const Result<void> ran = runner.proxy.Run(
      runner->RunOn(runner->pools().request, [&] { ran_on = std::this_thread::get_id(); }));
  EXPECT_TRUE(ran);
  EXPECT_NE(ran_on, std::thread::id());
  EXPECT_NE(ran_on, std::this_thread::get_id());
}

TEST(WorkRunnerTest, WhoWaitsIsNotHeldByWorkThatThrows) {
  Runner runner;
  EXPECT_TRUE(runner.proxy.Run(runner->RunOn(
      runner->pools().request, [] { throw std::runtime_error("a defect of the work"); })));
  const Result<void> ran =
      runner.proxy.Run(runner->RunOn(runner->pools().request, [] { throw std::bad_alloc(); }));
  ASSERT_FALSE(ran);
  EXPECT_TRUE(ran.error().retryable);
  EXPECT_EQ(ran.error().code, ErrorCode::kOverloaded);
  const Result<void> on_disk =
      runner.proxy.Run(runner->RunOnDisk(runner->pools().store, [] { throw std::bad_alloc(); }));
  EXPECT_EQ(on_disk.error().code, ErrorCode::kOverloaded);
}

TEST(WorkRunnerTest, AFullQueueRefusesWithoutCallingTheWork) {
  Runner runner({.request_threads = 1, .store_threads = 1, .queue_max = 2});
  const BusyThreads request(runner->pools().request, 1, "");
  const BusyThreads store(runner->pools().store, 1, "");
  bool is_called = false;
  const auto call = [&is_called] { is_called = true; };
  for (const Result<void>& ran :
       {runner.proxy.Run(runner->RunOn(runner->pools().request, call)),
        runner.proxy.Run(runner->RunOnDisk(runner->pools().store, call)),
        runner.proxy.Run(
            runner->RunUntil(runner->pools().store, call, WorkRunner::Clock::time_point::max()))}) {
    ASSERT_FALSE(ran);
    EXPECT_EQ(ran.error().code, ErrorCode::kOverloaded);
    EXPECT_GT(ran.error().retry_after_seconds, 0);
  }
  EXPECT_FALSE(is_called);
}

TEST(WorkRunnerTest, OnlyTheWorkOfALargeBodyLeavesTheExecutorAndNotIfThereIsNoRoom) {
  Runner runner({.request_threads = 1, .queue_max = 2});
  std::thread::id ran_on;
  const auto note = [&ran_on] { ran_on = std::this_thread::get_id(); };
  runner.proxy.Run(runner->RunSized(kLargeBodyBytes - 1, note));
  EXPECT_EQ(ran_on, std::this_thread::get_id());
  runner.proxy.Run(runner->RunSized(kLargeBodyBytes, note));
  EXPECT_NE(ran_on, std::this_thread::get_id());
  const BusyThreads busy(runner->pools().request, 1, "");
  runner.proxy.Run(runner->RunSized(kLargeBodyBytes, note));
  EXPECT_EQ(ran_on, std::this_thread::get_id());
}

TEST(WorkRunnerTest, ADiskThatHangsIsGivenUpAndItsWorkMayEndLater) {
  Runner runner({.store_timeout = milliseconds(50)});
  std::promise<void> release;
  auto owned = std::make_shared<std::atomic<int>>(0);
  const Result<void> ran = runner.proxy.Run(
      runner->RunOnDisk(runner->pools().store, [owned, held = release.get_future().share()] {
        held.wait();
        ++*owned;
      }));
  ASSERT_FALSE(ran);
  EXPECT_EQ(ran.error().code, ErrorCode::kUnavailable);
  EXPECT_TRUE(ran.error().retryable);
  EXPECT_GT(ran.error().retry_after_seconds, 0);
  EXPECT_THAT(ran.error().detail, HasSubstr("has not answered within 50 ms"));
  // The request and its runner may be gone by then.
  runner.request.reset();
  release.set_value();
  EXPECT_TRUE(test::WaitUntil([&] { return owned->load() == 1; }, "the work ends"));
}

TEST(WorkRunnerTest, WorkThatHasNotBegunInTimeIsNeverCalled) {
  Runner runner({.bulk_threads = 1, .bulk_timeout = milliseconds(50)});
  auto is_called = std::make_shared<std::atomic<bool>>(false);
  {
    BusyThreads busy(runner->pools().bulk, 1, "somebody else");
    const Result<void> ran = runner.proxy.Run(
        runner->RunOnDisk(runner->pools().bulk, [is_called] { *is_called = true; }));
    ASSERT_FALSE(ran);
    EXPECT_THAT(ran.error().detail, HasSubstr("All bulk threads have been busy for 50 ms"));
  }
  EXPECT_TRUE(test::WaitUntil(
      [&] {
        return runner->pools().bulk.stats().num_queued == 0 &&
               runner->pools().bulk.stats().num_running == 0;
      },
      "the queue is empty"));
  EXPECT_FALSE(is_called->load());
}

TEST(WorkRunnerTest, EachStepOfLongWorkHasTheWholeTimeout) {
  Runner runner({.bulk_timeout = milliseconds(300)});
  for (const bool gets_on : {true, false}) {
    auto steps = std::make_shared<WorkRunner::Steps>(0);
    const Result<void> ran = runner.proxy.Run(runner->RunOnDisk(
        runner->pools().bulk,
        [steps, gets_on] {
          for (int i = 0; i < 25; ++i) {
            std::this_thread::sleep_for(milliseconds(20));
            if (gets_on) ++*steps;
          }
        },
        steps));
    EXPECT_EQ(ran.has_value(), gets_on);
  }
}

TEST(WorkRunnerTest, AServerThatEndsGivesUpTheDiskButNotWorkThatBorrows) {
  Runner runner({.store_timeout = std::chrono::minutes(10)});
  std::promise<void> release;
  const auto held = release.get_future().share();
  const auto cancel = [&] { runner.sink.Cancel(); };
  const Result<void> ran =
      runner.proxy.Run(runner->RunOnDisk(runner->pools().store, [held] { held.wait(); }), cancel);
  EXPECT_FALSE(ran) << "it does not wait for ten minutes";
  // Work that borrows is waited for, however long it takes.
  bool has_ended = false;
  EXPECT_TRUE(runner.proxy.Run(runner->RunOn(runner->pools().request,
                                             [&] {
                                               held.wait();
                                               has_ended = true;
                                             }),
                               [&] { release.set_value(); }));
  EXPECT_TRUE(has_ended);
}

TEST(WorkRunnerTest, WorkThatRunsInAnyCaseIsAwaitedUntilItsDeadlineOnly) {
  Runner runner;
  std::promise<void> release;
  auto num_done = std::make_shared<std::atomic<int>>(0);
  const auto work = [num_done, held = release.get_future().share()] {
    held.wait();
    ++*num_done;
  };
  EXPECT_TRUE(runner.proxy.Run(
      runner->RunUntil(runner->pools().store, work, WorkRunner::Clock::now() + milliseconds(20))));
  EXPECT_EQ(num_done->load(), 0);
  release.set_value();
  EXPECT_TRUE(runner.proxy.Run(runner->RunUntil(
      runner->pools().store, work, WorkRunner::Clock::now() + std::chrono::minutes(10))));
  EXPECT_TRUE(test::WaitUntil([&] { return num_done->load() == 2; }, "both have run"));
}

}  // namespace
}  // namespace kvgate::proxy::work
