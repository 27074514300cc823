#include "store/remote/exchange.h"

#include <gtest/gtest.h>

#include <atomic>

#include "tests/store/remote/deadlines.h"
#include "tests/store/remote/scripted_server.h"

namespace kvgate::store::remote {
namespace {

using Peer = ScriptedServer::Peer;

Result<RespReplies> Exchanged(ConnectionPool& pool, const RespEndpoint& endpoint) {
  const RespCommand commands[] = {{.words = {"INCR", "n"}}, {.words = {"PING"}}};
  Exchange exchange(pool, endpoint, In(kLong));
  KVGATE_TRY_VOID(exchange.Connect(0));
  exchange.Start(commands);
  return exchange.Finish();
}

TEST(ExchangeTest, AConnectionServesOneExchangeAfterTheOther) {
  const ScriptedServer server(
      ScriptedServer::Answering([](const Words& words) { return "+" + words[0] + "\r\n"; }));
  ConnectionPool pool({}, {});
  for (int round = 0; round < 5; ++round) {
    const auto replies = Exchanged(pool, server.endpoint());
    ASSERT_TRUE(replies) << replies.error().ToString();
    EXPECT_EQ((*replies)[0].text, "INCR");
    EXPECT_EQ((*replies)[1].text, "PING");
  }
  EXPECT_EQ(server.num_accepted(), 1);
}

// The server closes its connections while nobody uses them, or just as they are used again.
TEST(ExchangeTest, AConnectionThatWasClosedMeanwhileIsReplacedUnnoticed) {
  std::atomic<bool> waits_for_more = false;
  const ScriptedServer server([&](Peer& peer) {
    peer.ReadCommand();
    peer.Send(kHelloReply);
    for (int index = 0; index < 2; ++index) {
      peer.ReadCommand();
      peer.Send(":1\r\n");
    }
    if (waits_for_more) peer.ReadCommand();
  });
  ConnectionPool pool({}, {});
  for (int round = 0; round < 20; ++round) {
    waits_for_more = round % 2 == 0;
    const auto replies = Exchanged(pool, server.endpoint());
    ASSERT_TRUE(replies) << round << ": " << replies.error().ToString();
  }
  EXPECT_EQ(server.num_accepted(), 20);
}

TEST(ExchangeTest, AConnectionThatEndsAmongRepliesIsAFailure) {
  std::atomic<int> num_commands = 0;
  const ScriptedServer server([&](Peer& peer) {
    peer.ReadCommand();
    peer.Send(kHelloReply);
    while (peer.ReadCommand()) {
      ++num_commands;
      peer.Send(":1\r\n");
      if (num_commands == 3) return;
    }
  });
  ConnectionPool pool({}, {});
  EXPECT_TRUE(Exchanged(pool, server.endpoint()));
  const auto replies = Exchanged(pool, server.endpoint());
  ASSERT_FALSE(replies);
  EXPECT_EQ(replies.error().code, ErrorCode::kUnavailable);
  EXPECT_EQ(num_commands, 3);
}

TEST(ExchangeTest, ANewConnectionThatIsClosedUnansweredIsAFailure) {
  const ScriptedServer server(ScriptedServer::Greeted([](Peer&) {}));
  ConnectionPool pool({}, {});
  const auto replies = Exchanged(pool, server.endpoint());
  ASSERT_FALSE(replies);
  EXPECT_EQ(replies.error().code, ErrorCode::kUnavailable);
  EXPECT_EQ(server.num_accepted(), 1);
}

TEST(ExchangeTest, AServerThatIsGoneMayBeReplacedByAnother) {
  auto server = std::make_unique<ScriptedServer>([](Peer& peer) {
    peer.ReadCommand();
    peer.Send(kHelloReply);
    peer.ReadCommand();
    peer.Send(":1\r\n:1\r\n");
    peer.Stay();
  });
  const RespEndpoint endpoint = server->endpoint();
  ConnectionPool pool({}, {});
  ASSERT_TRUE(Exchanged(pool, endpoint));
  Exchange exchange(pool, endpoint, In(kLong));
  ASSERT_TRUE(exchange.Connect(0));
  server.reset();
  const RespCommand command{.words = {"PING"}};
  exchange.Start(std::span(&command, 1));
  const auto replies = exchange.Finish();
  ASSERT_FALSE(replies);
  EXPECT_EQ(replies.error().code, ErrorCode::kUnavailable);
  EXPECT_TRUE(exchange.may_ask_another());
}

}  // namespace
}  // namespace kvgate::store::remote
