#include "gateway/upstream/wire/write_all.h"

#include <gtest/gtest.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/local/connect_pair.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/read.hpp>
#include <string>
#include <thread>

namespace kvgate::upstream::wire {
namespace {

namespace asio = boost::asio;
using Local = asio::local::stream_protocol;

// A socket whose TryWrite takes a bounded number of bytes.
struct Stream {
  using executor_type = Local::socket::executor_type;
  executor_type get_executor() { return socket.get_executor(); }
  size_t TryWrite(const WriteBuffers& buffers) {
    if (!tries) return 0;
    return tried = SendNow(socket.native_handle(), buffers);
  }
  template <typename Buffers, typename Token>
  auto async_write_some(const Buffers& buffers, Token&& token) {
    ++num_waits;
    return socket.async_write_some(buffers, std::forward<Token>(token));
  }

  Local::socket socket;
  bool tries = true;
  size_t tried = 0;
  int num_waits = 0;
};

Task<void> Write(Stream& stream, WriteParts parts, bool& written) {
  written = co_await WriteAll(stream, parts);
}

struct Pair {
  Pair() { asio::local::connect_pair(stream.socket, peer); }
  bool Run(WriteParts parts) {
    bool written = false;
    asio::co_spawn(io, Write(stream, parts, written), asio::detached);
    io.restart();
    io.run();
    return written;
  }
  asio::io_context io;
  Stream stream{.socket = Local::socket(io)};
  Local::socket peer{io};
};

TEST(WriteAllTest, WhatFitsGoesAtOnce) {
  Pair pair;
  EXPECT_TRUE(pair.Run({"one ", "", "three"}));
  EXPECT_EQ(pair.stream.tried, 9u);
  EXPECT_EQ(pair.stream.num_waits, 0);
  std::string got(9, ' ');
  asio::read(pair.peer, asio::buffer(got));
  EXPECT_EQ(got, "one three");
}

TEST(WriteAllTest, WhatDoesNotFitFollowsInOrder) {
  for (const bool tries : {true, false}) {
    Pair pair;
    pair.stream.tries = tries;
    std::string first(300'000, 'a');
    for (size_t i = 0; i < first.size(); ++i) first[i] = static_cast<char>('a' + i % 26);
    const std::string second(3'000'000, 'b');
    std::string got(first.size() + second.size() + 1, ' ');
    std::thread reader([&] { asio::read(pair.peer, asio::buffer(got)); });
    EXPECT_TRUE(pair.Run({first, second, "."}));
    reader.join();
    EXPECT_TRUE(got == first + second + ".");
    if (!tries) {
      EXPECT_GT(pair.stream.num_waits, 0);  // with tries, a fast reader needs none
    }
  }
}

TEST(WriteAllTest, APeerThatIsGoneIsAnError) {
  Pair pair;
  pair.peer.close();
  EXPECT_FALSE(pair.Run({"x"}));
}

}  // namespace
}  // namespace kvgate::upstream::wire
