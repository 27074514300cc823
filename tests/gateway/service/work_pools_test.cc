#include "gateway/service/work_pools.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>

namespace kvgate::service {
namespace {

using ::testing::HasSubstr;

TEST(WorkPoolsTest, WorkThatFillsOnePoolHoldsUpNoOther) {
  WorkPools pools({.request_threads = 1,
                   .compile_threads = 1,
                   .store_threads = 1,
                   .bulk_threads = 1,
                   .queue_max = 1});
  std::promise<void> begun;
  std::promise<void> release;
  ASSERT_TRUE(pools.store.Post("a", [&] {
    begun.set_value();
    release.get_future().wait();
  }));
  begun.get_future().wait();
  ASSERT_TRUE(pools.store.Post("a", [] {}));
  EXPECT_FALSE(pools.store.Post("a", [] {}));
  for (WorkQueue* pool : {&pools.request, &pools.compile, &pools.bulk}) {
    std::promise<void> done;
    ASSERT_TRUE(pool->Post("a", [&] { done.set_value(); }));
    done.get_future().wait();
  }
  release.set_value();
}

TEST(WorkPoolsTest, TheirNumbersAreMetricsByPool) {
  WorkPools pools({});
  std::string text;
  metrics::TextWriter writer(text);
  pools.Collect(writer);
  for (const char* pool : {"request", "compile", "store", "bulk"}) {
    EXPECT_THAT(text, HasSubstr(std::string("kvgate_work_queued{pool=\"") + pool + "\"} 0"));
  }
}

}  // namespace
}  // namespace kvgate::service
