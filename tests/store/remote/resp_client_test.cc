#include "store/remote/resp_client.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "tests/manual_clock.h"
#include "tests/store/remote/certificates.h"
#include "tests/store/remote/deadlines.h"
#include "tests/store/remote/redis_server.h"
#include "tests/store/remote/scripted_server.h"

namespace kvgate::store::remote {
namespace {

using Peer = ScriptedServer::Peer;
using std::chrono::milliseconds;

std::string AllBytes(size_t size) {
  std::string bytes(size, '\0');
  for (size_t at = 0; at < size; ++at) bytes[at] = static_cast<char>(at * 2'654'435'761U >> 5);
  return bytes;
}

Result<RespReply> Ping(RespClient& client, std::chrono::milliseconds time = kLong) {
  return client.CallOne({.words = {"PING"}}, SteadyClock::now() + time);
}

TEST(RespClientTest, TextsOfAnySizeComeBackAsTheyWere) {
  KVGATE_SKIP_WITHOUT_REDIS();
  RedisServer server;
  const auto client = MakeClient(server.endpoint());
  for (const size_t size : {0, 1, 2, 255, 4095, 4096, 16'383, 16'384, 65'537, 1 << 20, 8 << 20}) {
    const std::string bytes = AllBytes(size);
    EXPECT_EQ(Ask(*client, {"SET", "key", bytes}).text, "OK");
    const RespReply reply = Ask(*client, {"GET", "key"});
    EXPECT_TRUE(reply.is_text());
    EXPECT_TRUE(reply.text == bytes) << size;
  }
  const RespStats stats = client->Stats();
  EXPECT_EQ(stats.num_calls, 22);
  EXPECT_EQ(stats.num_connects, 1);
  EXPECT_EQ(stats.num_failed, 0);
  EXPECT_EQ(stats.error, "");
  EXPECT_GT(stats.bytes_sent, size_t{9} << 20);
  EXPECT_GT(stats.bytes_received, size_t{9} << 20);
  EXPECT_TRUE(stats.server.starts_with("redis ")) << stats.server;
  EXPECT_EQ(stats.endpoint, server.endpoint().ToString());
}

TEST(RespClientTest, AThousandCommandsAreOneCallWithRepliesOfEveryKind) {
  KVGATE_SKIP_WITHOUT_REDIS();
  RedisServer server;
  const auto client = MakeClient(server.endpoint());
  std::vector<RespCommand> commands;
  for (int index = 0; index < 1000; ++index) commands.push_back({.words = {"INCR", "n"}});
  commands.push_back({.words = {"GET", "none"}});
  commands.push_back({.words = {"NONSENSE"}});
  commands.push_back({.words = {"HSET", "h", "a", "1", "b", "2"}});
  commands.push_back({.words = {"HGETALL", "h"}});
  commands.push_back({.words = {"MGET", "n", "none"}});
  const auto replies = client->Call(commands, In(kLong));
  ASSERT_TRUE(replies) << replies.error().ToString();
  ASSERT_EQ(replies->size(), 1005);
  for (int index = 0; index < 1000; ++index) EXPECT_EQ((*replies)[index].integer, index + 1);
  EXPECT_TRUE((*replies)[1000].is_null());
  EXPECT_TRUE((*replies)[1001].is_error());
  EXPECT_TRUE((*replies)[1001].text.starts_with("ERR unknown command"));
  EXPECT_EQ((*replies)[1003].items.size(), 4);  // of a map
  EXPECT_EQ((*replies)[1004].items[0].text, "1000");
  EXPECT_TRUE((*replies)[1004].items[1].is_null());
}

TEST(RespClientTest, WhatTheServerPushesIsSkipped) {
  KVGATE_SKIP_WITHOUT_REDIS();
  RedisServer server;
  const auto client = MakeClient(server.endpoint());
  for (int round = 0; round < 20; ++round) {
    std::vector<RespCommand> commands;
    commands.push_back({.words = {"CLIENT", "TRACKING", "ON", "BCAST"}});
    for (int index = 0; index < 20; ++index) commands.push_back({.words = {"INCR", "n"}});
    commands.push_back({.words = {"CLIENT", "TRACKING", "OFF"}});
    const auto replies = client->Call(commands, In(kLong));
    ASSERT_TRUE(replies) << replies.error().ToString();
    for (int index = 1; index <= 20; ++index) {
      EXPECT_EQ((*replies)[index].integer, round * 20 + index);
    }
    EXPECT_EQ(replies->back().text, "OK");
  }
}

TEST(RespClientTest, UsersAreToldByTheirPasswords) {
  KVGATE_SKIP_WITHOUT_REDIS();
  RedisServer server(
      {"--requirepass", "hunter2", "--user", "agent", "on", ">hunter3", "~*", "+@all"});
  const auto ask = [&](std::string user, std::string password) {
    const auto client = MakeClient(
        {.address = {.endpoints = {server.endpoint()}, .user = std::move(user), .database = 3},
         .password = std::move(password)});
    return client->CallOne({.words = {"ACL", "WHOAMI"}}, In(kLong));
  };
  EXPECT_EQ(ask("", "hunter2")->text, "default");
  EXPECT_EQ(ask("agent", "hunter3")->text, "agent");
  for (const auto& refused : {ask("", "hunter3"), ask("agent", "hunter2"), ask("nobody", "hunter2"),
                              ask("agent", ""), ask("", "")}) {
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, ErrorCode::kUnavailable);
    EXPECT_FALSE(refused.error().retryable);
    EXPECT_NE(refused.error().detail.find("environment"), std::string::npos)
        << refused.error().detail;
    EXPECT_EQ(refused.error().detail.find("hunter"), std::string::npos);
  }
}

TEST(RespClientTest, TlsAndDatabasesAreWhatTheAddressSays) {
  KVGATE_SKIP_WITHOUT_REDIS();
  const TestAuthority authority("IP:127.0.0.1");
  RedisServer server(
      {"--tls-cert-file", authority.cert_file(), "--tls-key-file", authority.key_file(),
       "--tls-ca-cert-file", authority.ca_file(), "--tls-auth-clients", "no"},
      "--tls-port");
  const auto client =
      MakeClient({.address = {.endpoints = {server.endpoint()}, .has_tls = true, .database = 5},
                  .ca_file = authority.ca_file()});
  const std::string bytes = AllBytes(2 << 20);
  EXPECT_EQ(Ask(*client, {"SET", "k", bytes}).text, "OK");
  EXPECT_TRUE(Ask(*client, {"GET", "k"}).text == bytes);
  EXPECT_NE(Ask(*client, {"CLIENT", "INFO"}).text.find("db=5"), std::string::npos);
  EXPECT_NE(Ask(*client, {"CLIENT", "INFO"}).text.find("name=kvgate"), std::string::npos);
  EXPECT_EQ(RespClient::Make({.address = {.endpoints = {server.endpoint()}, .has_tls = true},
                              .ca_file = "/nowhere/ca.pem"})
                .error()
                .code,
            ErrorCode::kInvalidArgument);
}

TEST(RespClientTest, AScriptIsSentOnceToEachServer) {
  KVGATE_SKIP_WITHOUT_REDIS();
  RedisServer server;
  const auto client = MakeClient(server.endpoint());
  const std::string script = "return {KEYS[1], KEYS[2], ARGV[1]} -- " + std::string(2000, 'x');
  const RespClient::ScriptCall call{.script = script, .keys = {"a", "b"}, .arguments = {"c"}};
  for (int round = 0; round < 3; ++round) {
    if (round == 2) Ask(*client, {"SCRIPT", "FLUSH"});
    const uint64_t sent = client->Stats().bytes_sent;
    const auto reply = client->CallScript(call, In(kLong));
    ASSERT_TRUE(reply) << reply.error().ToString();
    ASSERT_EQ(reply->items.size(), 3) << reply->text;
    EXPECT_EQ(reply->items[2].text, "c");
    EXPECT_EQ(client->Stats().bytes_sent - sent > script.size(), round != 1);
  }
  const auto wrong = client->CallScript({.script = "return nonsense(", .keys = {"a"}}, In(kLong));
  ASSERT_TRUE(wrong);
  EXPECT_TRUE(wrong->is_error());
}

TEST(RespClientTest, AServerThatStartsAgainIsUsedAgain) {
  KVGATE_SKIP_WITHOUT_REDIS();
  RedisServer server;
  const auto client =
      MakeClient({.address = {.endpoints = {server.endpoint()}}, .failures_max = 0});
  EXPECT_EQ(Ping(*client)->text, "PONG");
  server.Kill();
  const auto dead = Ping(*client);
  ASSERT_FALSE(dead);
  EXPECT_EQ(dead.error().code, ErrorCode::kUnavailable);
  EXPECT_NE(dead.error().detail.find(server.endpoint().ToString()), std::string::npos);
  EXPECT_EQ(client->Stats().error, dead.error().detail);
  server.Start();
  EXPECT_EQ(Ping(*client)->text, "PONG");
  // Nothing is noticed of a restart between two calls.
  server.Kill();
  server.Start();
  EXPECT_EQ(Ping(*client)->text, "PONG");
  EXPECT_EQ(client->Stats().num_failed, 1);
  EXPECT_EQ(client->Stats().error, "");
}

TEST(RespClientTest, AnIdleConnectionThatTheServerClosedFailsNoCall) {
  KVGATE_SKIP_WITHOUT_REDIS();
  RedisServer server;
  const auto client = MakeClient(server.endpoint());
  const auto other = MakeClient(server.endpoint());
  for (int round = 0; round < 20; ++round) {
    EXPECT_EQ(Ping(*client)->text, "PONG");
    Ask(*other, {"CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"});
  }
  EXPECT_EQ(client->Stats().num_failed, 0);
  EXPECT_EQ(client->Stats().num_connects, 20);
}

TEST(RespClientTest, ThreadsDoNotWaitForEachOther) {
  KVGATE_SKIP_WITHOUT_REDIS();
  RedisServer server;
  const auto client = MakeClient(server.endpoint());
  std::atomic<int> num_right = 0;
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 8; ++thread) {
    threads.emplace_back([&, thread] {
      const std::string key = "key" + std::to_string(thread);
      for (int round = 0; round < 50; ++round) {
        const std::string value = AllBytes(static_cast<size_t>(thread * 3001 + round * 97));
        const RespCommand commands[] = {{.words = {"SET", key, value}}, {.words = {"GET", key}}};
        const auto replies = client->Call(commands, In(kLong));
        if (replies && (*replies)[1].text == value) ++num_right;
      }
    });
  }
  // One that blocks at the server holds nobody.
  const auto blocked = client->CallOne({.words = {"BLPOP", "none", "0.1"}}, In(kLong));
  EXPECT_TRUE(blocked && blocked->is_null());
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(num_right, 400);
  EXPECT_LE(client->Stats().num_connects, 9 + 400);
  EXPECT_EQ(client->Stats().num_failed, 0);
}

TEST(RespClientTest, ADeadlineThatHasPassedSendsNothing) {
  const ScriptedServer server([](Peer&) {});
  const auto client = MakeClient(server.endpoint());
  for (int round = 0; round < 5; ++round) {
    EXPECT_EQ(Ping(*client, milliseconds(0)).error().code, ErrorCode::kDeadline);
  }
  EXPECT_EQ(server.num_accepted(), 0);
  EXPECT_FALSE(client->is_paused());
  EXPECT_EQ(client->Stats().num_failed, 5);
}

TEST(RespClientTest, FailuresPauseCallsAndATrialEndsThePause) {
  std::atomic<bool> is_broken = true;
  const ScriptedServer server([&](Peer& peer) {
    if (is_broken) return;
    ScriptedServer::Answering([](const Words&) { return "+PONG\r\n"; })(peer);
  });
  const test::ManualClock clock;
  const auto client = MakeClient({.address = {.endpoints = {server.endpoint()}},
                                  .failures_max = 2,
                                  .pause = milliseconds(1000)});
  EXPECT_FALSE(Ping(*client));
  EXPECT_FALSE(client->is_paused());
  EXPECT_FALSE(Ping(*client));
  EXPECT_TRUE(client->is_paused());
  EXPECT_EQ(server.num_accepted(), 2);
  const auto paused = Ping(*client);
  ASSERT_FALSE(paused);
  EXPECT_EQ(paused.error().code, ErrorCode::kUnavailable);
  EXPECT_EQ(paused.error().retry_after_seconds, 1);
  EXPECT_NE(paused.error().detail.find(server.endpoint().ToString()), std::string::npos);
  EXPECT_EQ(server.num_accepted(), 2);
  // The trial fails too, and the next one does not.
  clock.Advance(milliseconds(1000));
  EXPECT_FALSE(client->is_paused());
  EXPECT_FALSE(Ping(*client));
  EXPECT_TRUE(client->Stats().is_paused);
  EXPECT_EQ(server.num_accepted(), 3);
  is_broken = false;
  clock.Advance(milliseconds(1000));
  EXPECT_EQ(Ping(*client)->text, "PONG");
  EXPECT_FALSE(client->is_paused());
  EXPECT_EQ(client->Stats().num_failed, 4);
}

// While the trial is under way, others fail at once.
TEST(RespClientTest, OnlyOneCallIsTheTrial) {
  std::atomic<bool> is_silent = false;
  const ScriptedServer server([&](Peer& peer) {
    if (is_silent) peer.Stay();
  });
  const test::ManualClock clock;
  const auto client = MakeClient({.address = {.endpoints = {server.endpoint()}},
                                  .failures_max = 1,
                                  .pause = milliseconds(1000)});
  EXPECT_FALSE(Ping(*client));
  is_silent = true;
  clock.Advance(milliseconds(1000));
  std::thread trial([&] { EXPECT_FALSE(Ping(*client, milliseconds(300))); });
  EXPECT_TRUE(test::WaitUntil([&] { return server.num_accepted() == 2; }, "the trial connects"));
  EXPECT_EQ(Ping(*client).error().code, ErrorCode::kUnavailable);
  trial.join();
  EXPECT_EQ(server.num_accepted(), 2);
}

// A server that does not say hello is known to be a node of a cluster by what it redirects.
TEST(RespClientTest, AClusterIsKnownByItsFirstRedirect) {
  std::atomic<int> num_first = 0;
  const ScriptedServer second(
      ScriptedServer::Answering([](const Words& words) { return "+second " + words[0] + "\r\n"; }));
  const ScriptedServer first([&](Peer& peer) {
    while (const auto words = peer.ReadCommand()) {
      const int port = second.endpoint().port;
      if (words->front() == "HELLO") {
        peer.Send("-ERR unknown command\r\n");
      } else if (words->front() == "CLIENT") {
        peer.Send("+OK\r\n");
      } else if (words->front() == "CLUSTER") {
        peer.Send("*1\r\n*3\r\n:0\r\n:16383\r\n*2\r\n$9\r\n127.0.0.1\r\n:" + std::to_string(port) +
                  "\r\n");
      } else if (words->at(1) == "here") {
        ++num_first;
        peer.Send("+first\r\n");
      } else {
        peer.Send("-MOVED 1 127.0.0.1:" + std::to_string(port) + "\r\n");
      }
    }
  });
  const auto client = MakeClient(first.endpoint());
  const RespCommand commands[] = {{.words = {"INCR", "here"}, .key = "here"},
                                  {.words = {"GET", "there"}, .key = "there"}};
  const auto replies = client->Call(commands, In(kLong));
  ASSERT_TRUE(replies) << replies.error().ToString();
  EXPECT_EQ((*replies)[0].text, "first");
  EXPECT_EQ((*replies)[1].text, "second GET");
  EXPECT_EQ(num_first, 1);
  EXPECT_EQ(Ask(*client, {"INCR", "here"}, "here").text, "second INCR");
}

// The whole of a call, with several servers: none of them answers, each in its own way.
TEST(RespClientTimingTest, ACallEndsByItsDeadlineWhateverItsServersDo) {
  const ScriptedServer silent([](Peer& peer) { peer.Stay(); });
  const ScriptedServer slow(ScriptedServer::Greeted([](Peer& peer) {
    while (peer.Send("+") && peer.Wait(milliseconds(5))) {
    }
  }));
  const ScriptedServer closing([](Peer&) {});
  const auto client = MakeClient(
      {.address = {.endpoints = {silent.endpoint(), closing.endpoint(), slow.endpoint()}},
       .failures_max = 0});
  for (int round = 0; round < 6; ++round) {
    const auto deadline = In(milliseconds(100));
    const auto reply = client->CallOne({.words = {"GET", "k"}}, deadline);
    const auto over = std::chrono::steady_clock::now() - deadline;
    ASSERT_FALSE(reply);
    EXPECT_LE(over, milliseconds(50) + 4 * Lateness()) << reply.error().ToString();
  }
}

}  // namespace
}  // namespace kvgate::store::remote
