#include "sdk/src/transport/channel.h"

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <thread>

namespace kvgate::sdk::transport {
namespace {

std::string TakeAll(Channel& channel) {
  std::string bytes;
  channel.Take(bytes);
  return bytes;
}

TEST(ChannelTest, BytesComeInOrderAndTheEndBehindThem) {
  Channel channel;
  EXPECT_EQ(channel.Poll(), Channel::State::kNothing);
  channel.Begin({.status = 200, .headers = {{"X-Id", "7"}}});
  EXPECT_EQ(channel.Poll(), Channel::State::kNothing);
  channel.Push("ab");
  channel.Push("");
  channel.Push("c");
  channel.End();
  channel.Push("too late");
  EXPECT_EQ(channel.Wait(), Channel::State::kBytes);
  EXPECT_EQ(*channel.start().Header("x-id"), "7");
  EXPECT_EQ(channel.start().Header("y"), nullptr);
  EXPECT_EQ(TakeAll(channel), "abc");
  EXPECT_EQ(channel.Wait(), Channel::State::kEnd);
}

TEST(ChannelTest, TheFirstOutcomeCounts) {
  Channel channel;
  channel.Push("a");
  channel.Fail({.status = KVGATE_UNAVAILABLE, .message = "one"});
  channel.Fail({.status = KVGATE_INTERNAL, .message = "two"});
  channel.End();
  EXPECT_EQ(channel.Poll(), Channel::State::kBytes);
  TakeAll(channel);
  EXPECT_EQ(channel.Poll(), Channel::State::kFailed);
  EXPECT_EQ(channel.failure().message, "one");
}

TEST(ChannelTest, WhoReadsAgainMakesRoom) {
  Channel channel;
  int num_wakes = 0;
  channel.OnReader([&] { ++num_wakes; }, nullptr);
  channel.Push(std::string(Channel::kUnreadBytesMax - 1, 'x'));
  EXPECT_TRUE(channel.has_room());
  channel.Push("x");
  EXPECT_FALSE(channel.has_room());
  TakeAll(channel);
  EXPECT_TRUE(channel.has_room());
  EXPECT_EQ(num_wakes, 1);
  channel.Push("x");
  TakeAll(channel);
  EXPECT_EQ(num_wakes, 1);
}

TEST(ChannelTest, WhoCancelsTellsTheRequest) {
  Channel channel;
  bool is_told = false;
  channel.OnReader(nullptr, [&] { is_told = true; });
  channel.Cancel({.status = KVGATE_CANCELLED, .message = "enough"});
  EXPECT_TRUE(is_told);
  EXPECT_EQ(channel.Wait(), Channel::State::kFailed);
  EXPECT_EQ(channel.failure().status, KVGATE_CANCELLED);
}

TEST(ChannelTest, ReadyIsCalledOnceAndAtOnceIfSomethingIsThere) {
  Channel channel;
  int num_calls = 0;
  channel.OnReady([&] { ++num_calls; });
  EXPECT_EQ(num_calls, 0);
  channel.Push("a");
  channel.Push("b");
  EXPECT_EQ(num_calls, 1);
  channel.OnReady([&] { ++num_calls; });
  EXPECT_EQ(num_calls, 2);
  TakeAll(channel);
  channel.OnReady([&] { ++num_calls; });
  channel.OnReady(nullptr);
  channel.End();
  EXPECT_EQ(num_calls, 2);
}

TEST(ChannelTest, AWaiterSeesWhatAnotherThreadWrites) {
  for (int round = 0; round < 200; ++round) {
    Channel channel;
    std::thread writer([&] {
      channel.Begin({.status = 200});
      for (int i = 0; i < 20; ++i) channel.Push("0123456789");
      channel.End();
    });
    std::string bytes;
    while (channel.Wait() == Channel::State::kBytes) channel.Take(bytes);
    EXPECT_EQ(bytes.size(), 200u);
    writer.join();
  }
}

TEST(ChannelTest, NoReadyRunsOnceItHasBeenTakenAway) {
  for (int round = 0; round < 200; ++round) {
    const auto channel = std::make_shared<Channel>();
    std::atomic<bool> is_alive{true};
    channel->OnReady([&] { EXPECT_TRUE(is_alive); });
    std::thread writer([channel] { channel->Push("a"); });
    channel->OnReady(nullptr);
    is_alive = false;
    writer.join();
  }
}

}  // namespace
}  // namespace kvgate::sdk::transport
