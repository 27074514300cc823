#include "gateway/upstream/exchange.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/steady_timer.hpp>
#include <thread>

#include "tests/gateway/upstream/scripted_upstream.h"
#include "tests/wait_until.h"

namespace kvgate::upstream {
namespace {

namespace asio = boost::asio;
using std::chrono::milliseconds;
using test::Peer;
using test::ScriptedUpstream;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

struct Answer {
  std::optional<Error> error;
  int status = 0;
  std::string body;
  size_t num_pieces = 0;
  bool cut = false;
  int num_attempts = 0;
};

// A coroutine's reference arguments must outlive it; the executor would not, so it is passed by
// value.
wire::Task<void> Ask(Upstream& upstream, Upstream::Executor executor, std::string body,
                     Answer& answer, Exchange*& running) {
  Exchange exchange(upstream, executor);
  running = &exchange;
  const std::string head =
      fmt::format("POST /v1/x HTTP/1.1\r\nHost: h\r\nContent-Length: {}\r\n\r\n", body.size());
  const Result<void> started = co_await exchange.Start({.head = head, .body = body});
  answer.num_attempts = exchange.num_attempts();
  if (!started) {
    answer.error = started.error();
    running = nullptr;
    co_return;
  }
  answer.status = exchange.status();
  while (true) {
    Result<std::string> piece = co_await exchange.Read();
    if (!piece) answer.cut = true;
    if (!piece || piece->empty()) break;
    answer.body += *piece;
    ++answer.num_pieces;
  }
  running = nullptr;
}

// Client is an upstream on its own io_context, driven by the test's thread.
struct Client {
  explicit Client(config::UpstreamConfig config) {
    auto opened = Upstream::Open(config, [](const char*) { return std::string(); });
    EXPECT_TRUE(opened);
    upstream = std::move(*opened);
  }
  static config::UpstreamConfig To(const ScriptedUpstream& server) {
    config::UpstreamConfig config;
    config.name = "up";
    config.base_url = server.url();
    return config;
  }
  Answer Post(std::string body = "{}", milliseconds abort_after = milliseconds::zero()) {
    Answer answer;
    Exchange* running = nullptr;
    asio::co_spawn(io, Ask(*upstream, io.get_executor(), std::move(body), answer, running),
                   asio::detached);
    io.restart();
    const auto begin = Exchange::Clock::now();
    while (io.run_one_for(milliseconds(20)) > 0 || running != nullptr) {
      if (running == nullptr) continue;
      running->Tick(Exchange::Clock::now());
      const bool abort =
          abort_after > milliseconds::zero() && Exchange::Clock::now() - begin > abort_after;
      if (abort) running->Abort();
    }
    return answer;
  }

  asio::io_context io;
  std::unique_ptr<Upstream> upstream;
};

constexpr std::string_view kOk = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

TEST(ExchangeTest, KeepsItsConnectionForTheNextRequest) {
  ScriptedUpstream server([](Peer& peer, int) {
    while (!peer.ReadRequest().empty()) peer.Send(kOk);
  });
  Client client(Client::To(server));
  for (int i = 0; i < 5; ++i) EXPECT_EQ(client.Post().body, "ok");
  EXPECT_EQ(server.num_connections(), 1);
  EXPECT_EQ(client.upstream->num_in_use(), 0);
  EXPECT_EQ(client.upstream->num_kept(), 1u);
  client.upstream.reset();
}

TEST(ExchangeTest, AConnectionThatItsPeerClosedIsNotUsed) {
  ScriptedUpstream server([](Peer& peer, int) {
    peer.ReadRequest();
    peer.Send(kOk);
  });
  Client client(Client::To(server));
  EXPECT_EQ(client.Post().status, 200);
  std::this_thread::sleep_for(milliseconds(50));
  EXPECT_EQ(client.Post().num_attempts, 1);
  EXPECT_EQ(server.num_connections(), 2);
}

TEST(ExchangeTest, ReadsEveryFraming) {
  const std::vector<std::string> answers = {
      "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello",
      "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhe\r\n3;x=y\r\nllo\r\n0\r\nT: "
      "t\r\n\r\n",
      "HTTP/1.1 200 OK\r\n\r\nhello", "HTTP/1.0 200 OK\r\nConnection: close\r\n\r\nhello"};
  for (const std::string& bytes : answers) {
    for (const size_t step : {size_t{1}, size_t{7}, bytes.size()}) {
      ScriptedUpstream server([&](Peer& peer, int) {
        peer.ReadRequest();
        for (size_t at = 0; at < bytes.size(); at += step) peer.Send(bytes.substr(at, step));
      });
      Client client(Client::To(server));
      const Answer answer = client.Post();
      EXPECT_EQ(answer.body, "hello") << bytes;
      EXPECT_FALSE(answer.cut) << bytes;
    }
  }
}

TEST(ExchangeTest, ACutIsACutInEveryFraming) {
  for (const char* bytes :
       {"HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\nhello",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\nxyz\r\n"}) {
    ScriptedUpstream server([&](Peer& peer, int) {
      peer.ReadRequest();
      peer.Send(bytes);
    });
    Client client(Client::To(server));
    const Answer answer = client.Post();
    EXPECT_EQ(answer.status, 200);
    EXPECT_EQ(answer.body, "hello") << bytes;
    EXPECT_TRUE(answer.cut) << bytes;
    EXPECT_EQ(client.upstream->num_kept(), 0u);
  }
}

TEST(ExchangeTest, WhatCannotBeReadIsNoAnswer) {
  const std::string endless(200'000, 'h');
  for (const std::string& bytes :
       {std::string("garbage\r\n\r\n"), "HTTP/1.1 200 OK\r\nA: " + endless,
        std::string("HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n"),
        std::string("HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab"),
        std::string("HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n"), std::string()}) {
    ScriptedUpstream server([&](Peer& peer, int) {
      peer.ReadRequest();
      peer.Send(bytes);
    });
    Client client(Client::To(server));
    const Answer answer = client.Post();
    ASSERT_TRUE(answer.error) << bytes.substr(0, 60);
    EXPECT_EQ(answer.error->code, ErrorCode::kUnavailable);
    EXPECT_EQ(answer.num_attempts, 1) << "it was received: " << bytes.substr(0, 60);
    EXPECT_EQ(server.num_connections(), 1);
  }
}

TEST(ExchangeTest, OnlyWhatWasNeverReceivedIsSentAgain) {
  std::atomic<int> requests{0};
  ScriptedUpstream server([&](Peer& peer, int connection) {
    if (!peer.ReadRequest().empty()) ++requests;
    if (connection == 0) {
      peer.Reset();
    } else {
      peer.Send(kOk);
    }
  });
  config::UpstreamConfig config = Client::To(server);
  {
    Client client(config);
    EXPECT_TRUE(client.Post().error);
    EXPECT_EQ(requests.load(), 1);
  }
}

TEST(ExchangeTest, WithRetryResetWhatGotNoAnswerIsSentAgain) {
  ScriptedUpstream server([&](Peer& peer, int connection) {
    peer.ReadRequest();
    if (connection > 0) peer.Send(kOk);
  });
  config::UpstreamConfig config = Client::To(server);
  config.retry = "reset";
  Client client(config);
  const Answer answer = client.Post();
  EXPECT_EQ(answer.body, "ok");
  EXPECT_EQ(answer.num_attempts, 2);
}

TEST(ExchangeTest, AnUpstreamThatIsDownIsTriedAgainAndThenLeftAlone) {
  config::UpstreamConfig config;
  {
    const ScriptedUpstream gone([](Peer&, int) {});
    config = Client::To(gone);
  }
  config.breaker_failures = 2;
  Client client(config);
  const Answer first = client.Post();
  ASSERT_TRUE(first.error);
  EXPECT_EQ(first.num_attempts, 2);
  EXPECT_THAT(first.error->detail, HasSubstr("The upstream 'up' failed: it cannot be reached"));
  EXPECT_EQ(client.Post().error->code, ErrorCode::kUnavailable);
  const Answer refused = client.Post();
  EXPECT_EQ(refused.error->code, ErrorCode::kOverloaded);
  EXPECT_EQ(refused.num_attempts, 0);
  EXPECT_GT(refused.error->retry_after_seconds, 0);
}

// Returns more bytes than the sockets of both sides can buffer.
std::string UnreadBody() { return std::string(size_t{16} << 20, 'x'); }

TEST(ExchangeTest, AnAnswerThatComesBeforeTheRequestHasBeenReadIsPassedOn) {
  for (const std::string status : {"413 Too Large", "200 OK"}) {
    std::atomic<bool> ended{false};
    ScriptedUpstream server([&](Peer& peer, int) {
      peer.Send("HTTP/1.1 " + status + "\r\nContent-Length: 2\r\n\r\nno");
      ended = peer.WaitForEnd(milliseconds(30'000));
    });
    Client client(Client::To(server));
    const Answer answer = client.Post(UnreadBody());
    EXPECT_EQ(answer.body, "no") << status;
    EXPECT_EQ(answer.num_attempts, 1);
    EXPECT_EQ(client.upstream->num_kept(), 0u) << "the rest of the request would follow";
    EXPECT_EQ(client.upstream->num_in_use(), 0);
    // The peer reads nothing of what is on its way, so only the client can end its wait.
    EXPECT_TRUE(test::WaitUntil([&] { return ended.load(); }, "the client ends the connection"));
  }
}

TEST(ExchangeTest, AnAnswerThatGoesOnWhileTheRequestIsReadIsWhole) {
  const std::string body = UnreadBody();
  ScriptedUpstream server([&](Peer& peer, int) {
    peer.Send("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nearly");
    EXPECT_EQ(peer.ReadRequest().size(), body.size() + 58);
    peer.Send("-late");
    peer.ReadRequest();
  });
  Client client(Client::To(server));
  const Answer answer = client.Post(body);
  EXPECT_EQ(answer.body, "early-late");
  EXPECT_FALSE(answer.cut);
  EXPECT_EQ(client.upstream->num_kept(), 1u) << "all of the request was sent";
}

TEST(ExchangeTest, AnUpstreamThatClosesInTheMiddleOfARequestFailsAtOnce) {
  ScriptedUpstream server([](Peer& peer, int) {
    char some[1000];
    EXPECT_GT(::recv(peer.fd(), some, sizeof(some), 0), 0);
    peer.Reset();
  });
  Client client(Client::To(server));
  const Answer answer = client.Post(UnreadBody());
  ASSERT_TRUE(answer.error);
  EXPECT_EQ(answer.error->code, ErrorCode::kUnavailable);
  EXPECT_EQ(answer.num_attempts, 1) << "it may have been read";
}

TEST(ExchangeTest, TimeoutsEndWhatSaysNothing) {
  ScriptedUpstream server([](Peer& peer, int connection) {
    peer.ReadRequest();
    if (connection > 0) peer.Send("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nsome");
    EXPECT_TRUE(peer.WaitForEnd(milliseconds(5000)));
  });
  config::UpstreamConfig config = Client::To(server);
  config.first_byte_timeout_seconds = 1;
  config.idle_timeout_seconds = 1;
  Client client(config);
  const Answer silent = client.Post();
  ASSERT_TRUE(silent.error);
  EXPECT_EQ(silent.error->code, ErrorCode::kDeadline);
  EXPECT_THAT(silent.error->detail, HasSubstr("did not answer within 1 s"));
  const Answer stalled = client.Post();
  EXPECT_EQ(stalled.body, "some");
  EXPECT_TRUE(stalled.cut);
}

TEST(ExchangeTest, AnAbortEndsTheUpstreamsConnectionAtOnce) {
  std::atomic<bool> ended{false};
  ScriptedUpstream server([&](Peer& peer, int) {
    peer.ReadRequest();
    ended = peer.WaitForEnd(milliseconds(30'000));
  });
  Client client(Client::To(server));
  const Answer answer = client.Post("{}", milliseconds(50));
  ASSERT_TRUE(answer.error);
  EXPECT_EQ(answer.error->code, ErrorCode::kCancelled);
  EXPECT_TRUE(test::WaitUntil([&] { return ended.load(); }, "the connection ends"));
}

TEST(ExchangeTest, BeyondItsConnectionsItRefuses) {
  ScriptedUpstream server([](Peer& peer, int) { peer.ReadRequest(); });
  config::UpstreamConfig config = Client::To(server);
  config.connections = 1;
  Client client(config);
  ASSERT_TRUE(client.upstream->Reserve());
  EXPECT_EQ(client.Post().error->code, ErrorCode::kOverloaded);
  client.upstream->Release();
}

// Answers every request with `head`, then with `more` again and again until the connection ends.
ScriptedUpstream::Script Endless(std::string head, std::string more) {
  return [head = std::move(head), more = std::move(more)](Peer& peer, int) {
    peer.ReadRequest();
    peer.Send(head);
    while (!more.empty() && peer.Send(more)) continue;
  };
}

TEST(ExchangeTest, AnAnswerWhoseEndIsUnclearIsNoAnswer) {
  for (const char* coding : {"identity", "xchunked", "gzip, chunked", "chunked, gzip"}) {
    ScriptedUpstream server(Endless(
        fmt::format("HTTP/1.1 200 OK\r\nTransfer-Encoding: {}\r\n\r\n0\r\n\r\n", coding), ""));
    Client client(Client::To(server));
    const Answer answer = client.Post();
    ASSERT_TRUE(answer.error) << coding;
    EXPECT_EQ(answer.error->code, ErrorCode::kUnavailable);
    EXPECT_EQ(client.upstream->num_kept(), 0u);
  }
}

TEST(ExchangeTest, InterimAnswersWithoutAnEndAreGivenUp) {
  ScriptedUpstream server(Endless("", "HTTP/1.1 103 Early\r\n\r\n"));
  Client client(Client::To(server));
  const Answer answer = client.Post();
  ASSERT_TRUE(answer.error);
  EXPECT_THAT(answer.error->detail, HasSubstr("interim"));
}

TEST(ExchangeTest, WhatTheParserHoldsBackOfABodyIsBounded) {
  const std::string chunked = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
  for (const char* open : {"2;", "2\r\nok\r\n0\r\nX: ", "0000"}) {
    ScriptedUpstream server(Endless(chunked + open, std::string(1000, '0')));
    Client client(Client::To(server));
    const Answer answer = client.Post();
    EXPECT_TRUE(answer.cut || answer.error) << open;
  }
}

wire::Task<void> TakeFields(Upstream& upstream, Upstream::Executor executor, std::string& names) {
  Exchange exchange(upstream, executor);
  const Result<void> started =
      co_await exchange.Start({.head = "GET /v1/x HTTP/1.1\r\nHost: h\r\n\r\n", .body = ""});
  EXPECT_TRUE(started);
  for (const wire::HeaderField& field : exchange.fields()) names.append(field.name).append(" ");
  EXPECT_EQ(exchange.TakeReady(), "ok");
}

TEST(ExchangeTest, TrailersAreNoHeadersAlsoWhereTheyComeWithTheHead) {
  ScriptedUpstream server(
      Endless("HTTP/1.1 200 OK\r\nX-A: b\r\nTransfer-Encoding: chunked\r\n\r\n"
              "2\r\nok\r\n0\r\nX-Evil: 1\r\n\r\n",
              ""));
  Client client(Client::To(server));
  std::string names;
  asio::co_spawn(client.io, TakeFields(*client.upstream, client.io.get_executor(), names),
                 asio::detached);
  client.io.run();
  EXPECT_EQ(names, "X-A Transfer-Encoding ");
}

}  // namespace
}  // namespace kvgate::upstream
