#include "kernels/cpu/machine/thread_pool.h"

#include <gtest/gtest.h>
#include <time.h>

#include <chrono>
#include <numeric>
#include <thread>
#include <vector>

#include "tests/wait_until.h"

namespace kvgate::kernels::cpu::machine {
namespace {

TEST(ThreadPoolTest, EveryThreadRunsEveryRegionOnce) {
  for (const int num_threads : {1, 2, 3, 8}) {
    ThreadPool pool(num_threads);
    ASSERT_EQ(pool.num_threads(), num_threads);
    std::vector<int> runs(num_threads, 0);  // plain memory: the pool orders the accesses
    for (int region = 0; region < 300; ++region) {
      pool.Run([&](int thread) { ++runs[thread]; });
    }
    EXPECT_EQ(runs, std::vector<int>(num_threads, 300));
  }
}

TEST(ThreadPoolTest, EveryItemIsTakenOnce) {
  ThreadPool pool(3);
  for (const int64_t num_items : {0, 1, 2, 3, 7, 1000}) {
    std::vector<int> taken(num_items, 0);
    pool.ForEach(num_items, [&](int64_t item, int thread) {
      ASSERT_LT(thread, 3);
      ++taken[item];
    });
    EXPECT_EQ(taken, std::vector<int>(num_items, 1));
  }
}

// Regions follow each other at once, after a spin, and after the workers fell asleep.
TEST(ThreadPoolTest, WritesOfOneRegionAreSeenByTheNextWhateverThePause) {
  ThreadPool pool(3);
  std::vector<int64_t> values(64, 1);
  for (int round = 0; round < 60; ++round) {
    for (int region = 0; region < 10; ++region) {
      const int64_t sum = std::accumulate(values.begin(), values.end(), int64_t{0});
      pool.ForEach(64, [&](int64_t item, int) { values[item] = (sum + item) % 1009; });
    }
    if (round % 3 == 1) std::this_thread::sleep_for(ThreadPool::kSpinDuration);
    if (round % 3 == 2) std::this_thread::sleep_for(3 * ThreadPool::kSpinDuration);
  }
  std::vector<int64_t> expected(64, 1);
  for (int region = 0; region < 600; ++region) {
    const int64_t sum = std::accumulate(expected.begin(), expected.end(), int64_t{0});
    for (int64_t item = 0; item < 64; ++item) expected[item] = (sum + item) % 1009;
  }
  EXPECT_EQ(values, expected);
}

// There are more threads than cores and no pause, so workers are often late for either kind of
// region.
TEST(ThreadPoolTest, LateWorkersMissRegionsAndNeverSpoilOne) {
  ThreadPool pool(9);
  std::vector<int> runs(9, 0);
  for (int round = 0; round < 3000; ++round) {
    std::vector<int> taken(24, 0);
    pool.ForEach(24, [&](int64_t item, int) { ++taken[static_cast<size_t>(item)]; });
    ASSERT_EQ(taken, std::vector<int>(24, 1)) << round;
    if (round % 7 == 0) pool.Run([&](int thread) { ++runs[static_cast<size_t>(thread)]; });
  }
  EXPECT_EQ(runs, std::vector<int>(9, 3000 / 7 + 1));
}

TEST(ThreadPoolTest, AnIdlePoolSleepsAndUsesNoCpu) {
  ThreadPool pool(3);
  pool.Run([](int) {});
  ASSERT_TRUE(test::WaitUntil([&] { return pool.num_sleeping() == 2; }, "the workers sleep"));
  const auto cpu_seconds = [] {
    timespec time{};
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
    return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
  };
  const double before = cpu_seconds();
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  EXPECT_LT(cpu_seconds() - before, 0.03);  // spinning would be 0.6
  std::vector<int> runs(3, 0);
  pool.Run([&](int thread) { ++runs[thread]; });
  EXPECT_EQ(runs, std::vector<int>(3, 1));  // asleep, and woken by the next region
}

TEST(ThreadPoolTest, PoolsComeAndGoWithWorkersAwakeOrAsleep) {
  for (int round = 0; round < 100; ++round) {
    ThreadPool pool(4);
    if (round % 2 == 0) pool.Run([](int) {});
    if (round % 10 == 0) std::this_thread::sleep_for(2 * ThreadPool::kSpinDuration);
  }
}

}  // namespace
}  // namespace kvgate::kernels::cpu::machine
