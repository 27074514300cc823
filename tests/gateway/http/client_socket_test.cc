#include "gateway/http/client_socket.h"

#include <gtest/gtest.h>

#include <array>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/connect.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <optional>

#include "gateway/http/socket/task.h"

namespace kvgate::http {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using std::chrono::milliseconds;
using Clock = ClientSocket::Clock;

// A connection whose other end says nothing.
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

// When a read failed, from `begin` on.
Task<void> Read(ClientSocket& socket, Clock::time_point begin, milliseconds& waited, bool& failed) {
  std::array<char, 16> bytes;
  auto [code, size] = co_await socket.async_read_some(asio::buffer(bytes), kAwait);
  failed = code.failed();
  waited = std::chrono::duration_cast<milliseconds>(Clock::now() - begin);
}

TEST(ClientSocketTest, ADeadlineClosesIt) {
  Silent silent;
  const Clock::time_point begin = Clock::now();
  milliseconds waited{0};
  bool failed = false;
  silent.socket->ExpireAfter(milliseconds(100));
  asio::co_spawn(silent.io, Read(*silent.socket, begin, waited, failed), asio::detached);
  silent.io.run();
  EXPECT_TRUE(failed);
  EXPECT_GE(waited, milliseconds(95));
  EXPECT_LT(waited, milliseconds(600));
}

TEST(ClientSocketTest, TheLastDeadlineSetIsTheOneThatCounts) {
  // Nearer than the one before, farther, and beyond what the timer looks at between.
  const std::array<std::array<int, 3>, 3> cases = {
      {{{60'000, 120'000, 80}}, {{50, 60'000, 150}}, {{30, 20, 1'400}}}};
  for (const auto& times : cases) {
    Silent silent;
    const Clock::time_point begin = Clock::now();
    milliseconds waited{0};
    bool failed = false;
    for (const int time : times) silent.socket->ExpireAfter(milliseconds(time));
    asio::co_spawn(silent.io, Read(*silent.socket, begin, waited, failed), asio::detached);
    silent.io.run();
    EXPECT_TRUE(failed);
    EXPECT_GE(waited, milliseconds(times[2] - 5));
    EXPECT_LT(waited, milliseconds(times[2] + 500));
  }
}

TEST(ClientSocketTest, WithoutADeadlineItWaits) {
  Silent silent;
  const Clock::time_point begin = Clock::now();
  milliseconds waited{0};
  bool failed = false;
  silent.socket->ExpireAfter(milliseconds(50));
  silent.socket->ExpireNever();
  asio::co_spawn(silent.io, Read(*silent.socket, begin, waited, failed), asio::detached);
  silent.io.run_for(milliseconds(300));
  EXPECT_TRUE(silent.socket->socket().is_open());
  silent.socket->Close();
  silent.io.run();
  EXPECT_TRUE(failed);
}

TEST(ClientSocketTest, ItsTimerMayRingBehindItsEnd) {
  Silent silent;
  silent.socket->ExpireAfter(milliseconds(20));
  silent.socket.reset();
  silent.io.run();
}

}  // namespace
}  // namespace kvgate::http
