#include "gateway/proxy/work/background.h"

#include <gtest/gtest.h>

#include <boost/asio/io_context.hpp>
#include <chrono>
#include <memory>

#include "gateway/proxy/work/wake_signal.h"

namespace kvgate::proxy::work {
namespace {

// Sleeps until it is cancelled.
class Sleeper final : public BackgroundJob {
 public:
  explicit Sleeper(boost::asio::io_context& io, bool throws = false)
      : signal_(io.get_executor()), throws_(throws) {}
  upstream::wire::Task<void> Run() override {
    if (throws_) throw std::runtime_error("a job that throws");
    while (!is_cancelled) co_await signal_.SleepUntil(WakeSignal::Clock::time_point::max());
    has_ended = true;
  }
  void Cancel() override {
    is_cancelled = true;
    signal_.Wake();
  }
  bool is_cancelled = false;
  bool has_ended = false;

 private:
  WakeSignal signal_;
  const bool throws_;
};

constexpr std::chrono::milliseconds kNow{0};

TEST(BackgroundTest, JobsRunUntilTheyAreCancelledAndTheLastIsAwaited) {
  boost::asio::io_context io;
  Background background;
  EXPECT_TRUE(background.WaitEmpty(kNow));
  auto first = std::make_shared<Sleeper>(io);
  auto second = std::make_shared<Sleeper>(io);
  EXPECT_TRUE(background.Spawn(first, io.get_executor()));
  EXPECT_TRUE(background.Spawn(second, io.get_executor()));
  io.poll();
  EXPECT_EQ(background.size(), 2u);
  EXPECT_FALSE(background.WaitEmpty(kNow));
  background.CancelAll();
  io.run();
  EXPECT_TRUE(first->has_ended);
  EXPECT_TRUE(second->has_ended);
  EXPECT_TRUE(background.WaitEmpty(kNow));
}

TEST(BackgroundTest, NoneIsStartedOnceItIsClosed) {
  boost::asio::io_context io;
  Background background;
  auto running = std::make_shared<Sleeper>(io);
  EXPECT_TRUE(background.Spawn(running, io.get_executor()));
  background.Close();
  auto late = std::make_shared<Sleeper>(io);
  EXPECT_FALSE(background.Spawn(late, io.get_executor()));
  io.poll();
  EXPECT_FALSE(running->has_ended);
  background.CancelAll();
  io.run();
  EXPECT_TRUE(running->has_ended);
  EXPECT_FALSE(late->has_ended);
}

TEST(BackgroundTest, TheirNumberIsBoundedAndOneThatThrowsIsOver) {
  boost::asio::io_context io;
  Background background;
  for (size_t i = 0; i < Background::kJobsMax; ++i) {
    EXPECT_TRUE(
        background.Spawn(std::make_shared<Sleeper>(io, /*throws=*/true), io.get_executor()));
  }
  EXPECT_FALSE(background.Spawn(std::make_shared<Sleeper>(io), io.get_executor()));
  io.run();
  EXPECT_EQ(background.size(), 0u);
}

}  // namespace
}  // namespace kvgate::proxy::work
