#include "gateway/proxy/host/loops.h"

#include <gtest/gtest.h>

#include <boost/asio/post.hpp>
#include <future>
#include <set>
#include <stdexcept>
#include <thread>

namespace kvgate::proxy::host {
namespace {

TEST(LoopsTest, EachLoopHasAThreadOfItsOwn) {
  Loops loops(3, "a test");
  loops.Start();
  ASSERT_EQ(loops.size(), 3u);
  std::set<std::thread::id> threads;
  for (int i = 0; i < 6; ++i) {
    std::promise<std::thread::id> thread;
    boost::asio::post(loops.Next(), [&] { thread.set_value(std::this_thread::get_id()); });
    threads.insert(thread.get_future().get());
  }
  EXPECT_EQ(threads.size(), 3u);
  EXPECT_EQ(threads.count(std::this_thread::get_id()), 0u);
}

TEST(LoopsTest, AFlushWaitsForWhatWasPosted) {
  Loops loops(2, "a test");
  loops.Start();
  std::atomic<int> num_run{0};
  for (size_t i = 0; i < loops.size(); ++i) {
    for (int j = 0; j < 50; ++j) boost::asio::post(loops.at(i), [&] { ++num_run; });
  }
  loops.Flush();
  EXPECT_EQ(num_run, 100);
}

TEST(LoopsTest, AHandlerThatThrowsEndsNoLoop) {
  Loops loops(1, "a test");
  loops.Start();
  boost::asio::post(loops.at(0), [] { throw std::runtime_error("a test"); });
  loops.Flush();
  loops.Stop();
  loops.Stop();
}

}  // namespace
}  // namespace kvgate::proxy::host
