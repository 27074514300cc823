#include "gateway/cli/machine/watchdog.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>
#include <string>
#include <thread>
#include <vector>

namespace kvgate::cli::machine {
namespace {

using std::chrono::milliseconds;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;
using Clock = Watchdog::Clock;

// A thread that is in an activity until it is released.
class Busy {
 public:
  explicit Busy(const ThreadActivity::Options& options, Clock::time_point since)
      : thread_([this, options, since] {
          ThreadActivity activity(options);
          activity.BeginAt("standing still", since);
          activity_ = &activity;
          begun_.set_value();
          release_.get_future().wait();
        }) {
    begun_.get_future().wait();
  }
  ~Busy() {
    release_.set_value();
    thread_.join();
  }
  ThreadActivity& activity() { return *activity_; }

 private:
  std::promise<void> begun_;
  std::promise<void> release_;
  ThreadActivity* activity_ = nullptr;
  std::thread thread_;
};

// The clock is the test's, so no test waits for a second to pass.
class WatchdogTest : public ::testing::Test {
 protected:
  Watchdog::Options OptionsFor(int lines_max = 10) {
    return {.lines_per_minute_max = lines_max,
            .stack_timeout = std::chrono::seconds(20),
            .now = [this] { return now_; },
            .write = [this](const std::string& line) { lines_.push_back(line); },
            .runs = false};
  }
  Clock::time_point now_ = Clock::time_point(std::chrono::hours(10));
  std::vector<std::string> lines_;
  metrics::Registry registry_;
};

TEST_F(WatchdogTest, AStalledThreadIsFoundOnceWithItsStack) {
  Watchdog watchdog(OptionsFor(), registry_);
  Busy busy({.pool = "mine"}, now_);
  now_ += milliseconds(1'000);
  watchdog.Look();
  EXPECT_THAT(lines_, IsEmpty());
  now_ += milliseconds(1);
  watchdog.Look();
  watchdog.Look();
  ASSERT_THAT(lines_, SizeIs(1));
  EXPECT_THAT(lines_[0], HasSubstr("a thread of pool mine has been at 'standing still' for 1001"));
  // The stack shows that the thread waits in the C library, called from this program.
  EXPECT_THAT(lines_[0], HasSubstr("libc"));
  EXPECT_THAT(lines_[0], HasSubstr("_test+0x"));
  EXPECT_THAT(lines_[0], Not(HasSubstr("not told")));
  EXPECT_THAT(registry_.Text(), HasSubstr("kvgate_stalled_threads_total{pool=\"mine\"} 1\n"));
}

TEST_F(WatchdogTest, EachStallOfOneThreadIsToldAndWhatGoesOnIsNot) {
  Watchdog watchdog(OptionsFor(), registry_);
  Busy busy({.pool = "mine"}, now_);
  for (int i = 0; i < 3; ++i) {
    now_ += milliseconds(1'500);
    watchdog.Look();
    busy.activity().BeginAt("standing still", now_);
    now_ += milliseconds(900);
    watchdog.Look();
    busy.activity().BeginAt("standing still", now_);
  }
  EXPECT_THAT(lines_, SizeIs(3));
  busy.activity().End();
  now_ += std::chrono::hours(1);
  watchdog.Look();
  EXPECT_THAT(lines_, SizeIs(3));
}

TEST_F(WatchdogTest, AThreadMayHavePatienceOfItsOwnAndADiskIsCalledSlow) {
  Watchdog watchdog(OptionsFor(), registry_);
  Busy patient({.pool = "engine", .patience = milliseconds(4'000)}, now_);
  Busy disk({.pool = "store", .waits_for_disk = true}, now_);
  now_ += milliseconds(2'000);
  watchdog.Look();
  EXPECT_THAT(lines_, ElementsAre(HasSubstr("the disk is slow: a thread of pool store")));
}

TEST_F(WatchdogTest, LinesAreBoundedAndAllIsCounted) {
  Watchdog watchdog(OptionsFor(2), registry_);
  {
    Busy a({.pool = "mine"}, now_);
    Busy b({.pool = "mine"}, now_);
    Busy c({.pool = "mine"}, now_);
    now_ += milliseconds(2'000);
    watchdog.Look();
  }
  EXPECT_THAT(lines_, SizeIs(2));
  EXPECT_THAT(registry_.Text(), HasSubstr("kvgate_stalled_threads_total{pool=\"mine\"} 3\n"));
  Busy later({.pool = "mine"}, now_);
  now_ += std::chrono::minutes(1);
  watchdog.Look();
  EXPECT_THAT(lines_, SizeIs(3));
}

TEST_F(WatchdogTest, RunsByItself) {
  std::promise<std::string> told;
  Watchdog::Options options = OptionsFor();
  options.interval = milliseconds(1);
  options.runs = true;
  options.now = [start = now_] { return start + std::chrono::seconds(5); };
  options.write = [&](const std::string& line) { told.set_value(line); };
  Busy busy({.pool = "mine"}, now_);
  Watchdog watchdog(options, registry_);
  EXPECT_THAT(told.get_future().get(), HasSubstr("5000 ms"));
}

}  // namespace
}  // namespace kvgate::cli::machine
