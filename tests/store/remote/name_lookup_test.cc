#include "store/remote/name_lookup.h"

#include <gtest/gtest.h>

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "tests/store/remote/deadlines.h"
#include "tests/wait_until.h"

namespace kvgate::store::remote {
namespace {

using Addresses = NameLookup::Addresses;

// A resolver that answers when it is told to. Runs hold it too, as they may outlive the test.
class SlowResolver {
 public:
  struct Shared {
    std::mutex mutex;
    std::condition_variable changed;
    bool is_open = false;
    std::atomic<int> num_asked{0};
    std::atomic<int> num_answered{0};
  };
  SlowResolver()
      : lookup([shared = shared](const std::string& host) -> Result<Addresses> {
          ++shared->num_asked;
          {
            std::unique_lock lock(shared->mutex);
            shared->changed.wait(lock, [&] { return shared->is_open; });
          }
          ++shared->num_answered;
          if (host == "unknown") return MakeError(ErrorCode::kUnavailable, "test", "no such host");
          return Addresses{"10.0.0.1", "::2"};
        }) {}
  ~SlowResolver() { Open(); }
  void Open() {
    const std::lock_guard lock(shared->mutex);
    shared->is_open = true;
    shared->changed.notify_all();
  }

  const std::shared_ptr<Shared> shared = std::make_shared<Shared>();
  NameLookup lookup;
};

TEST(NameLookupTest, AnAddressNeedsNoResolver) {
  SlowResolver slow;
  EXPECT_EQ(*slow.lookup.Find("127.0.0.1", In({})), Addresses{"127.0.0.1"});
  EXPECT_EQ(*slow.lookup.Find("::1", In({})), Addresses{"::1"});
  EXPECT_EQ(slow.shared->num_asked, 0);
}

TEST(NameLookupTest, ASilentResolverEndsAtTheDeadlineAndItsAnswerServesTheNextCaller) {
  SlowResolver slow;
  const auto before = std::chrono::steady_clock::now();
  const auto late = slow.lookup.Find("store", In(std::chrono::milliseconds(20)));
  EXPECT_GE(std::chrono::steady_clock::now() - before, std::chrono::milliseconds(20));
  ASSERT_FALSE(late);
  EXPECT_EQ(late.error().code, ErrorCode::kDeadline);
  slow.Open();
  EXPECT_TRUE(test::WaitUntil([&] { return slow.shared->num_answered == 1; }, "it answers"));
  EXPECT_EQ(*slow.lookup.Find("store", In(kLong)), (Addresses{"10.0.0.1", "::2"}));
  EXPECT_EQ(slow.shared->num_asked, 1);
}

TEST(NameLookupTest, CallersOfOneHostShareARun) {
  SlowResolver slow;
  std::vector<std::thread> threads;
  std::atomic<int> num_found{0};
  for (int index = 0; index < 4; ++index) {
    threads.emplace_back([&] { num_found += slow.lookup.Find("store", In(kLong)) ? 1 : 0; });
  }
  EXPECT_TRUE(test::WaitUntil([&] { return slow.shared->num_asked == 1; }, "a run begins"));
  slow.Open();
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(num_found, 4);
  EXPECT_EQ(slow.shared->num_asked, 1);
}

TEST(NameLookupTest, AFailureIsNotKept) {
  SlowResolver slow;
  slow.Open();
  EXPECT_EQ(slow.lookup.Find("unknown", In(kLong)).error().code, ErrorCode::kUnavailable);
  EXPECT_FALSE(slow.lookup.Find("unknown", In(kLong)));
  EXPECT_EQ(slow.shared->num_asked, 2);
}

TEST(NameLookupTest, RunsThatDoNotEndAreBounded) {
  SlowResolver slow;
  for (size_t index = 0; index < NameLookup::kRunsMax; ++index) {
    EXPECT_EQ(slow.lookup.Find("host" + std::to_string(index), In({})).error().code,
              ErrorCode::kDeadline);
  }
  EXPECT_EQ(slow.lookup.Find("one-more", In(kLong)).error().code, ErrorCode::kOverloaded);
}

TEST(NameLookupTest, TheSystemKnowsThisHost) {
  const auto found = NameLookup().Find("localhost", In(kLong));
  ASSERT_TRUE(found) << found.error().ToString();
  EXPECT_TRUE(found->front() == "127.0.0.1" || found->front() == "::1") << found->front();
}

}  // namespace
}  // namespace kvgate::store::remote
