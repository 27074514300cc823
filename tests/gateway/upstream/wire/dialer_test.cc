#include "gateway/upstream/wire/dialer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <optional>
#include <string>

#include "gateway/upstream/upstream.h"
#include "tests/gateway/upstream/scripted_upstream.h"

namespace kvgate::upstream::wire {
namespace {

namespace asio = boost::asio;
using ::testing::HasSubstr;

// The test fails where a call has not ended by then; that is far more than a busy machine needs.
constexpr std::chrono::seconds kEnd(30);

Task<void> Ask(Dialer& dialer, Channel& channel, std::optional<Result<void>>& done) {
  done = co_await dialer.Dial(channel, SteadyClock::now() + kEnd);
}

// Returns what became of the call; `then` sees the channel.
template <typename Then>
Result<void> Dial(const DialedHost& host, Then then) {
  asio::io_context io;
  Channel channel(io.get_executor());
  TcpDialer dialer(host);
  std::optional<Result<void>> done;
  asio::co_spawn(io, Ask(dialer, channel, done), asio::detached);
  io.run_for(kEnd);
  EXPECT_TRUE(done.has_value()) << "a call must end";
  then(channel);
  return *done;
}

Result<void> Dial(const DialedHost& host) {
  return Dial(host, [](Channel&) {});
}

TEST(DialerTest, AChannelIsConnectedByNameAndByAddress) {
  const test::ScriptedUpstream server([](test::Peer& peer, int) { peer.Send("x"); });
  for (const char* const name : {"127.0.0.1", "localhost"}) {
    const Result<void> done = Dial({.host = name, .port = server.port()}, [&](Channel& channel) {
      EXPECT_EQ(channel.socket().remote_endpoint().port(), server.port());
    });
    EXPECT_TRUE(done) << done.error().ToString();
  }
}

TEST(DialerTest, AHostThatIsNotThereIsNamedAsItsCallerNamesIt) {
  const Result<void> refused = Dial({.host = "127.0.0.1", .port = 1, .subject = "its proxy"});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kUnavailable);
  EXPECT_THAT(refused.error().detail, HasSubstr("its proxy cannot be reached: Connection refused"));
  const Result<void> unknown = Dial({.host = "no..such..name", .port = 1});
  ASSERT_FALSE(unknown);
  EXPECT_THAT(unknown.error().detail, HasSubstr("its host name cannot be resolved: "));
}

// Gives no connection, and says so in words of its own.
class NoDialer final : public Dialer {
 public:
  Task<Result<void>> Dial(Channel&, SteadyClock::time_point) override {
    co_return MakeError(ErrorCode::kUnavailable, "test", "it is a test");
  }
};

Task<void> Connect(Upstream& upstream, Channel& channel, std::optional<Result<void>>& done) {
  done = co_await upstream.Connect(channel);
}

TEST(DialerTest, AnUpstreamConnectsAsItIsTold) {
  std::optional<DialedHost> asked;
  config::UpstreamConfig config;
  config.name = "up";
  config.base_url = "http://somewhere.test:81/v1";
  const auto upstream = Upstream::Open(
      config, [](const char*) { return std::string(); },
      [&](const DialedHost& host) {
        asked = host;
        return std::make_unique<NoDialer>();
      });
  ASSERT_TRUE(upstream);
  ASSERT_TRUE(asked.has_value());
  EXPECT_EQ(asked->host, "somewhere.test");
  EXPECT_EQ(asked->port, 81);
  EXPECT_EQ(asked->subject, "it");
  asio::io_context io;
  Channel channel(io.get_executor());
  std::optional<Result<void>> done;
  asio::co_spawn(io, Connect(**upstream, channel, done), asio::detached);
  io.run_for(kEnd);
  ASSERT_TRUE(done.has_value());
  EXPECT_EQ(done->error().detail, "it is a test");
}

}  // namespace
}  // namespace kvgate::upstream::wire
