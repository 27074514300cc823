#include "gateway/proxy/request/response_sink.h"

#include <gtest/gtest.h>

#include "tests/gateway/proxy/test_proxy.h"

namespace kvgate::proxy::request {
namespace {

using std::chrono::seconds;
using test::TestSink;

struct CountingWatcher final : Watcher {
  void OnGone() override { ++num_gone; }
  void OnEnd() override { ++num_ends; }
  int num_gone = 0;
  int num_ends = 0;
};

// Whether a sleep of the request's coroutine ends because of what `tell` does.
bool Wakes(boost::asio::io_context& io, TestSink& sink, const std::function<void()>& tell) {
  bool has_woken = false;
  const auto sleep = [](TestSink& slept, bool& woken) -> Task<void> {
    co_await slept.signal().SleepUntil(SteadyClock::now() + seconds(60));
    woken = true;
  };
  boost::asio::co_spawn(io, sleep(sink, has_woken), [](std::exception_ptr) {});
  io.restart();
  io.poll();
  tell();
  io.restart();
  io.poll();
  return has_woken;
}

TEST(ResponseSinkTest, WhoeverWatchesIsToldOnceThatTheServerEnds) {
  boost::asio::io_context io;
  TestSink sink(io);
  CountingWatcher watcher;
  sink.Watch(&watcher);
  EXPECT_FALSE(sink.is_to_end());
  sink.End();
  sink.End();
  EXPECT_TRUE(sink.is_to_end());
  EXPECT_EQ(watcher.num_ends, 1);
  EXPECT_EQ(watcher.num_gone, 0) << "the client is still there";
  EXPECT_FALSE(sink.is_gone());
  sink.Watch(nullptr);
}

TEST(ResponseSinkTest, WhoeverBeginsToWatchLaterIsToldAtOnce) {
  boost::asio::io_context io;
  TestSink sink(io);
  sink.End();
  for (int i = 0; i < 2; ++i) {
    CountingWatcher watcher;
    sink.Watch(&watcher);
    EXPECT_EQ(watcher.num_ends, 1);
    sink.Watch(nullptr);
  }
}

TEST(ResponseSinkTest, ASleeperWakesWhenTheServerEndsOrTheClientLeaves) {
  boost::asio::io_context io;
  TestSink ended(io);
  EXPECT_TRUE(Wakes(io, ended, [&] { ended.End(); }));
  TestSink left(io);
  EXPECT_TRUE(Wakes(io, left, [&] { left.Leave(); }));
  TestSink other(io);
  EXPECT_FALSE(Wakes(io, other, [] {}));
  EXPECT_TRUE(Wakes(io, other, [&] { other.signal().Wake(); })) << "the one before ends with it";
}

}  // namespace
}  // namespace kvgate::proxy::request
