#include "gateway/http/socket/client_socket.h"

#include <gtest/gtest.h>

#include <array>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/connect.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <chrono>
#include <optional>

#include "gateway/http/socket/task.h"

namespace kvgate::http::socket {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using std::chrono::milliseconds;
using Clock = ClientSocket::Clock;

// A connection whose other end sends nothing.
struct Silent {
  Silent() {
    tcp::acceptor acceptor(io, {asio::ip::address_v4::loopback(), 0});
    peer.connect(acceptor.local_endpoint());
    tcp::socket accepted(io);
    acceptor.accept(accepted);
    socket.emplace(std::move(accepted));
  }
  asio::io_context io;
  tcp::socket peer{io};
  std::optional<ClientSocket> socket;
};

// The result of one read, and its time.
struct Outcome {
  bool has_ended = false;
  bool has_failed = false;
  Clock::time_point at;
};

Task<void> Read(ClientSocket& socket, Outcome& outcome) {
  std::array<char, 16> bytes;
  auto [code, size] = co_await socket.async_read_some(asio::buffer(bytes), kAwait);
  outcome = {.has_ended = true, .has_failed = code.failed(), .at = Clock::now()};
}

// The test fails if the deadline has not ended the read by then. All deadlines that must not count
// are later, and those that must are far earlier than a busy machine needs.
constexpr std::chrono::seconds kPatience(30);

TEST(ClientSocketTest, ADeadlineClosesIt) {
  Silent silent;
  Outcome outcome;
  const Clock::time_point begin = Clock::now();
  silent.socket->ExpireAfter(milliseconds(100));
  asio::co_spawn(silent.io, Read(*silent.socket, outcome), asio::detached);
  silent.io.run_for(kPatience);
  ASSERT_TRUE(outcome.has_ended);
  EXPECT_TRUE(outcome.has_failed);
  EXPECT_GE(outcome.at - begin, milliseconds(95));
}

TEST(ClientSocketTest, TheLastDeadlineSetIsTheOneThatCounts) {
  // The last deadline is between, before or after the earlier ones, and in one case later than the
  // timer's next look.
  const std::array<std::array<int, 3>, 3> cases = {
      {{{60'000, 120'000, 80}}, {{50, 60'000, 150}}, {{30, 20, 1'400}}}};
  for (const auto& times : cases) {
    Silent silent;
    Outcome outcome;
    const Clock::time_point begin = Clock::now();
    for (const int time : times) silent.socket->ExpireAfter(milliseconds(time));
    asio::co_spawn(silent.io, Read(*silent.socket, outcome), asio::detached);
    silent.io.run_for(kPatience);
    ASSERT_TRUE(outcome.has_ended) << times[2];
    EXPECT_TRUE(outcome.has_failed);
    EXPECT_GE(outcome.at - begin, milliseconds(times[2] - 5));
  }
}

TEST(ClientSocketTest, WithoutADeadlineItWaits) {
  Silent silent;
  Outcome outcome;
  silent.socket->ExpireAfter(milliseconds(50));
  silent.socket->ExpireNever();
  asio::co_spawn(silent.io, Read(*silent.socket, outcome), asio::detached);
  silent.io.run_for(milliseconds(300));
  EXPECT_TRUE(silent.socket->socket().is_open());
  EXPECT_FALSE(outcome.has_ended);
  silent.socket->Close();
  silent.io.run_for(kPatience);
  EXPECT_TRUE(outcome.has_failed);
}

TEST(ClientSocketTest, ItsTimerMayRingBehindItsEnd) {
  Silent silent;
  silent.socket->ExpireAfter(milliseconds(20));
  silent.socket.reset();
  silent.io.run_for(kPatience);
  EXPECT_TRUE(silent.io.stopped()) << "its timer still waits";
}

}  // namespace
}  // namespace kvgate::http::socket
