#include "store/remote/endpoint_router.h"

#include <gtest/gtest.h>

#include <atomic>

#include "tests/store/remote/deadlines.h"
#include "tests/store/remote/redis_server.h"
#include "tests/store/remote/scripted_server.h"

namespace kvgate::store::remote {
namespace {

using Peer = ScriptedServer::Peer;

Result<EndpointRouter::Answer> Set(EndpointRouter& router, std::chrono::milliseconds time = kLong) {
  const RespCommand command{.words = {"SET", "k", "v"}};
  return router.Call(std::span(&command, 1), In(time));
}

ScriptedServer::Script Saying(std::string reply) {
  return ScriptedServer::Answering([reply = std::move(reply)](const Words&) { return reply; });
}

TEST(EndpointRouterTest, TheNextServerIsAskedAndStaysTheFirst) {
  const ScriptedServer alive(Saying("+OK\r\n"));
  ConnectionPool pool({}, {});
  const RespEndpoint dead{.host = "127.0.0.1", .port = FreePort()};
  EndpointRouter router(pool, {dead, alive.endpoint()});
  for (int round = 0; round < 3; ++round) {
    const auto answer = Set(router);
    ASSERT_TRUE(answer) << answer.error().ToString();
    EXPECT_EQ(answer->endpoint, alive.endpoint());
    EXPECT_EQ(answer->replies.front().text, "OK");
  }
  EXPECT_EQ(alive.num_accepted(), 1);
}

TEST(EndpointRouterTest, AServerThatDoesNotServeNowIsPassedOver) {
  for (const std::string refusal :
       {"-READONLY You can't write against a read only replica.\r\n",
        "-LOADING Redis is loading the dataset in memory\r\n",
        "-MASTERDOWN Link with MASTER is down\r\n", "-CLUSTERDOWN The cluster is down\r\n"}) {
    const ScriptedServer refusing(Saying(refusal));
    const ScriptedServer serving(Saying("+OK\r\n"));
    ConnectionPool pool({}, {});
    EndpointRouter router(pool, {refusing.endpoint(), serving.endpoint()});
    const auto answer = Set(router);
    ASSERT_TRUE(answer) << answer.error().ToString();
    EXPECT_EQ(answer->endpoint, serving.endpoint());
    EndpointRouter alone(pool, {refusing.endpoint()});
    const auto none = Set(alone);
    ASSERT_FALSE(none);
    EXPECT_EQ(none.error().code, ErrorCode::kUnavailable);
    EXPECT_NE(none.error().detail.find(refusing.endpoint().ToString()), std::string::npos);
    EXPECT_NE(none.error().detail.find(refusal.substr(1, refusal.find(' ') - 1)),
              std::string::npos);
  }
}

TEST(EndpointRouterTest, OtherErrorsAreTheCallersReplies) {
  const ScriptedServer server(Saying("-OOM command not allowed\r\n"));
  ConnectionPool pool({}, {});
  EndpointRouter router(pool, {server.endpoint()});
  EXPECT_TRUE(Set(router)->replies.front().is_error());
}

// The commands may have been carried out, and another server may get their effects later.
TEST(EndpointRouterTest, CommandsThatWereSentAreNotSentToAnother) {
  const ScriptedServer broken(ScriptedServer::Greeted([](Peer& peer) { peer.Send("$5\r\nab"); }));
  std::atomic<int> num_sent = 0;
  const ScriptedServer other(ScriptedServer::Answering([&](const Words&) {
    ++num_sent;
    return "+OK\r\n";
  }));
  ConnectionPool pool({}, {});
  EndpointRouter router(pool, {broken.endpoint(), other.endpoint()});
  EXPECT_EQ(Set(router).error().code, ErrorCode::kUnavailable);
  EXPECT_EQ(num_sent, 0);
  EXPECT_TRUE(Set(router));  // the next call begins with the other
  EXPECT_EQ(num_sent, 1);
}

TEST(EndpointRouterTest, WhenNoneAnswersEachIsNamed) {
  ConnectionPool pool({}, {});
  const std::vector<RespEndpoint> dead{{.host = "127.0.0.1", .port = FreePort()},
                                       {.host = "127.0.0.1", .port = FreePort()}};
  EndpointRouter router(pool, dead);
  const auto none = Set(router);
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().code, ErrorCode::kUnavailable);
  for (const RespEndpoint& endpoint : dead) {
    EXPECT_NE(none.error().detail.find(endpoint.ToString()), std::string::npos);
  }
}

TEST(EndpointRouterTest, ASilentServerTakesItsShareOfTheTimeOnly) {
  const ScriptedServer silent([](Peer& peer) { peer.Stay(); });
  const ScriptedServer alive(Saying("+OK\r\n"));
  ConnectionPool pool({}, {.connect_timeout = kLong});
  EndpointRouter router(pool, {silent.endpoint(), alive.endpoint()});
  const auto answer = Set(router, std::chrono::milliseconds(400));
  ASSERT_TRUE(answer) << answer.error().ToString();
  EXPECT_EQ(answer->endpoint, alive.endpoint());
}

TEST(EndpointRouterTest, ANodeOfAClusterIsSentNothing) {
  std::atomic<int> num_sent = 0;
  const ScriptedServer node(ScriptedServer::Answering(
      [&](const Words&) {
        ++num_sent;
        return "+OK\r\n";
      },
      kClusterHelloReply));
  ConnectionPool pool({}, {});
  EndpointRouter router(pool, {node.endpoint()});
  const auto answer = Set(router);
  ASSERT_TRUE(answer);
  EXPECT_TRUE(answer->replies.empty());
  EXPECT_EQ(num_sent, 0);
  EXPECT_NE(pool.TakeKept(node.endpoint()), nullptr);
}

TEST(EndpointRouterTest, AReplicaOfARealServerIsPassedOverForWrites) {
  KVGATE_SKIP_WITHOUT_REDIS();
  RedisServer primary;
  RedisServer replica({"--replicaof", "127.0.0.1", std::to_string(primary.port())});
  ConnectionPool pool({}, {});
  EndpointRouter router(pool, {replica.endpoint(), primary.endpoint()});
  const auto answer = Set(router);
  ASSERT_TRUE(answer) << answer.error().ToString();
  EXPECT_EQ(answer->endpoint, primary.endpoint());
}

}  // namespace
}  // namespace kvgate::store::remote
