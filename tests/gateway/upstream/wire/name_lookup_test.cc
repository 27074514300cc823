#include "gateway/upstream/wire/name_lookup.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <future>
#include <memory>
#include <thread>

namespace kvgate::upstream::wire {
namespace {

namespace asio = boost::asio;
using std::chrono::milliseconds;
using ::testing::HasSubstr;
using Clock = NameLookup::Clock;

const NameLookup::Endpoints kAddress = {{asio::ip::make_address("192.0.2.7"), 80}};

// The test fails where a lookup has not ended by then; that is far more than a busy machine needs.
constexpr std::chrono::seconds kEnd(30);

struct Found {
  std::optional<Result<NameLookup::Endpoints>> result;
};

Task<void> Ask(NameLookup& lookup, Channel& channel, milliseconds patience, Found& found) {
  found.result = co_await lookup.Find(channel, Clock::now() + patience);
}

Found AskOnce(NameLookup& lookup, milliseconds patience = milliseconds(5000)) {
  asio::io_context io;
  Channel channel(io.get_executor());
  Found found;
  asio::co_spawn(io, Ask(lookup, channel, patience, found), asio::detached);
  io.run_for(kEnd);
  EXPECT_TRUE(found.result.has_value()) << "a lookup must end";
  return found;
}

// Gate is a resolver that answers when the test lets it.
struct Gate {
  std::promise<void> opened;
  std::shared_future<void> open{opened.get_future()};
  std::shared_ptr<std::atomic<int>> num_calls = std::make_shared<std::atomic<int>>(0);
  NameLookup::Resolve Resolver() {
    // The resolver may outlive the gate.
    return [num_calls = num_calls, open = open](const std::string&, uint16_t) {
      ++*num_calls;
      open.wait();
      return Result<NameLookup::Endpoints>(kAddress);
    };
  }
};

TEST(NameLookupTest, TheSystemKnowsLocalhostAndNoNonsense) {
  NameLookup localhost("localhost", 81);
  const Found found = AskOnce(localhost);
  ASSERT_TRUE(*found.result);
  EXPECT_TRUE((*found.result)->front().address().is_loopback());
  EXPECT_EQ((*found.result)->front().port(), 81);
  NameLookup nonsense("no..such..name", 81);
  const Found missing = AskOnce(nonsense);
  ASSERT_FALSE(*missing.result);
  EXPECT_EQ(missing.result->error().code, ErrorCode::kUnavailable);
}

TEST(NameLookupTest, AnAddressIsNotAsked) {
  NameLookup lookup("::1", 82, [](const std::string&, uint16_t) -> Result<NameLookup::Endpoints> {
    return MakeError(ErrorCode::kInternal, "test", "asked");
  });
  const Found found = AskOnce(lookup);
  ASSERT_TRUE(*found.result);
  EXPECT_EQ((*found.result)->front().port(), 82);
}

TEST(NameLookupTest, NobodyWaitsLongerThanHeWants) {
  Gate gate;
  NameLookup lookup("slow.test", 80, gate.Resolver());
  const Found late = AskOnce(lookup, milliseconds(50));
  ASSERT_FALSE(*late.result);
  EXPECT_EQ(late.result->error().code, ErrorCode::kDeadline) << "the resolver has not answered";
  gate.opened.set_value();
  const Found found = AskOnce(lookup);
  ASSERT_TRUE(*found.result);
  EXPECT_EQ(**found.result, kAddress);
}

TEST(NameLookupTest, AllThatAskAtOnceShareOneAnswer) {
  Gate gate;
  NameLookup lookup("shared.test", 80, gate.Resolver());
  asio::io_context io;
  std::vector<std::unique_ptr<Channel>> channels;
  std::vector<Found> found(8);
  for (Found& one : found) {
    channels.push_back(std::make_unique<Channel>(io.get_executor()));
    asio::co_spawn(io, Ask(lookup, *channels.back(), milliseconds(5000), one), asio::detached);
  }
  io.poll();
  gate.opened.set_value();
  io.run();
  EXPECT_EQ(*gate.num_calls, 1);
  for (const Found& one : found) EXPECT_TRUE(one.result && *one.result);
}

TEST(NameLookupTest, AClosedChannelWaitsNoLonger) {
  Gate gate;
  NameLookup lookup("slow.test", 80, gate.Resolver());
  asio::io_context io;
  Channel channel(io.get_executor());
  Found found;
  asio::co_spawn(io, Ask(lookup, channel, 2 * kEnd, found), asio::detached);
  io.poll();
  channel.Close();
  io.run_for(kEnd);
  ASSERT_TRUE(found.result.has_value()) << "it waits although its channel is closed";
  EXPECT_FALSE(*found.result);
  gate.opened.set_value();
}

// The executor that the resolver would post to is destroyed, and then the lookup itself, while the
// resolver still works.
TEST(NameLookupTest, AResolverMayOutliveAllThatAsked) {
  auto gate = std::make_shared<Gate>();
  const auto returned = std::make_shared<std::promise<void>>();
  {
    NameLookup lookup("slow.test", 80, [gate, returned](const std::string&, uint16_t) {
      gate->open.wait();
      returned->set_value();
      return Result<NameLookup::Endpoints>(kAddress);
    });
    Found found;
    asio::io_context io;
    Channel channel(io.get_executor());
    asio::co_spawn(io, Ask(lookup, channel, milliseconds(5000), found), asio::detached);
    io.poll();
  }
  gate->opened.set_value();
  EXPECT_EQ(returned->get_future().wait_for(std::chrono::seconds(5)), std::future_status::ready);
}

}  // namespace
}  // namespace kvgate::upstream::wire
