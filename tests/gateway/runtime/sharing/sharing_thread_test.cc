#include "gateway/runtime/sharing/sharing_thread.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <new>

#include "tests/wait_until.h"

namespace kvgate::runtime::sharing {
namespace {

TEST(SharingThread, AllExchangesRunAgainAndAgainAlsoBesideOneThatThrows) {
  std::atomic<int> num_runs{0};
  SharingThread thread({.interval = std::chrono::milliseconds(1)},
                       {{.what = "failing", .run = [] { throw std::bad_alloc(); }},
                        {.what = "counting", .run = [&] { ++num_runs; }}});
  EXPECT_TRUE(test::WaitUntil([&] { return num_runs > 3; }, "it runs a few times"));
}

TEST(SharingThread, ItRunsOnceAtTheStartAndItsEndWaitsForNoInterval) {
  std::atomic<int> num_runs{0};
  {
    const SharingThread thread({.interval = std::chrono::hours(24)},
                               {{.what = "counting", .run = [&] { ++num_runs; }}});
    EXPECT_TRUE(test::WaitUntil([&] { return num_runs > 0; }, "it has run"));
  }
  EXPECT_EQ(num_runs, 1);
}

}  // namespace
}  // namespace kvgate::runtime::sharing
