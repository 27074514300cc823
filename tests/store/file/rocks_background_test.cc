#include "store/file/rocks_background.h"

#include <dirent.h>
#include <gtest/gtest.h>
#include <rocksdb/db.h>
#include <rocksdb/env.h>
#include <rocksdb/file_system.h>
#include <rocksdb/options.h>

#include <atomic>
#include <chrono>
#include <fstream>
#include <string>
#include <thread>

#include "store/file/rocks_file_system.h"
#include "tests/store/store_fixture.h"

namespace kvgate::store::file {
namespace {

using Priority = rocksdb::Env::Priority;

std::unique_ptr<rocksdb::Env> MakeEnv() {
  return MakeBackgroundEnv(rocksdb::NewCompositeEnv(rocksdb::FileSystem::Default()));
}

// The threads of this process whose name begins so.
size_t NumThreads(const std::string& name) {
  size_t count = 0;
  DIR* const tasks = ::opendir("/proc/self/task");
  while (const dirent* const task = ::readdir(tasks)) {
    std::ifstream file(std::string("/proc/self/task/") + task->d_name + "/comm");
    std::string said;
    std::getline(file, said);
    if (said.starts_with(name)) ++count;
  }
  ::closedir(tasks);
  return count;
}

TEST(BackgroundEnvTest, JobsRunInOrderAndTheirThreadEndsWithThem) {
  std::string order;
  struct Append {
    std::string* order;
    char letter;
    static void Run(void* argument) {
      auto* const append = static_cast<Append*>(argument);
      append->order->push_back(append->letter);
    }
  };
  Append jobs[] = {{&order, 'a'}, {&order, 'b'}, {&order, 'c'}};
  {
    const auto env = MakeEnv();
    for (Append& job : jobs) env->Schedule(Append::Run, &job, Priority::LOW, nullptr, nullptr);
  }
  EXPECT_EQ(order, "abc");
  EXPECT_EQ(NumThreads("kvgate-store"), 0u);
}

TEST(BackgroundEnvTest, WhatIsUnscheduledIsForgottenAndNotRun) {
  static std::atomic<bool> is_held;
  static std::atomic<int> num_run;
  static std::atomic<int> num_forgotten;
  is_held = true;
  num_run = num_forgotten = 0;
  const auto hold = [](void*) {
    while (is_held) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  };
  const auto run = [](void*) { ++num_run; };
  const auto forget = [](void*) { ++num_forgotten; };
  int one = 0;
  int two = 0;
  {
    const auto env = MakeEnv();
    env->Schedule(hold, nullptr, Priority::HIGH, nullptr, nullptr);
    while (env->GetThreadPoolQueueLen(Priority::HIGH) > 0) std::this_thread::yield();
    env->Schedule(run, nullptr, Priority::HIGH, &one, forget);
    env->Schedule(run, nullptr, Priority::HIGH, &two, forget);
    env->Schedule(run, nullptr, Priority::HIGH, &one, nullptr);
    EXPECT_EQ(env->GetThreadPoolQueueLen(Priority::HIGH), 3u);
    EXPECT_EQ(env->UnSchedule(&one, Priority::HIGH), 2);
    EXPECT_EQ(num_forgotten, 1);
    is_held = false;
  }
  EXPECT_EQ(num_run, 1);
}

TEST(BackgroundEnvTest, AsManyThreadsRunAsAreAllowed) {
  static std::atomic<int> num_inside;
  num_inside = 0;
  const auto meet = [](void*) {
    ++num_inside;
    while (num_inside < 3) std::this_thread::yield();  // hangs where fewer run
  };
  const auto env = MakeEnv();
  EXPECT_EQ(env->GetBackgroundThreads(Priority::LOW), 1);
  EXPECT_EQ(env->GetBackgroundThreads(Priority::BOTTOM), 0);
  env->IncBackgroundThreadsIfNeeded(3, Priority::LOW);
  env->IncBackgroundThreadsIfNeeded(2, Priority::LOW);
  EXPECT_EQ(env->GetBackgroundThreads(Priority::LOW), 3);
  for (int i = 0; i < 3; ++i) env->Schedule(meet, nullptr, Priority::LOW, nullptr, nullptr);
}

TEST(BackgroundEnvTest, ADatabaseFlushesAndCompactsAndLeavesNoThread) {
  const TempFolder temporary;
  rocksdb::Options options;
  options.create_if_missing = true;
  const EnvUse env;
  options.env = env.get();
  options.write_buffer_size = 64 << 10;
  rocksdb::DB* opened = nullptr;
  ASSERT_TRUE(rocksdb::DB::Open(options, (temporary.path() / "db").string(), &opened).ok());
  const std::unique_ptr<rocksdb::DB> database(opened);
  for (int i = 0; i < 2000; ++i) {
    ASSERT_TRUE(database->Put({}, std::to_string(i * 7919 % 2000), std::string(500, 'x')).ok());
  }
  ASSERT_TRUE(database->Flush({}).ok());
  ASSERT_TRUE(database->CompactRange({}, nullptr, nullptr).ok());
  std::string value;
  EXPECT_TRUE(database->Get({}, "77", &value).ok());
  ASSERT_TRUE(database->Close().ok());
  EXPECT_EQ(NumThreads("rocksdb:"), 0u);
}

TEST(EnvUseTest, TheLastUseOfTheSharedOneJoinsItsThreads) {
  static std::atomic<bool> is_held;
  is_held = true;
  const auto hold = [](void*) {
    while (is_held) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  };
  const auto env = MakeEnv();
  EXPECT_EQ(EnvUse(env.get()).get(), env.get()) << "a given one is nobody else's";
  {
    const EnvUse first;
    {
      const EnvUse second;
      EXPECT_EQ(first.get(), second.get());
      second.get()->Schedule(hold, nullptr, Priority::LOW, nullptr, nullptr);
    }
    while (NumThreads("kvgate-store") == 0) std::this_thread::yield();
    is_held = false;
  }
  EXPECT_EQ(NumThreads("kvgate-store"), 0u);
}

}  // namespace
}  // namespace kvgate::store::file
