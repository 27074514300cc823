#include "store/remote/resp_connection.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <thread>

#include "tests/store/remote/certificates.h"
#include "tests/store/remote/deadlines.h"
#include "tests/store/remote/redis_server.h"
#include "tests/store/remote/scripted_server.h"

namespace kvgate::store::remote {
namespace {

using Peer = ScriptedServer::Peer;
using std::chrono::milliseconds;

RespConnection::Setup PlainSetup(size_t reply_bytes_max = 8 << 20) {
  return {.reply_bytes_max = reply_bytes_max};
}

Result<std::vector<RespReply>> Exchanged(RespConnection& connection,
                                         std::vector<std::vector<std::string_view>> commands,
                                         RespConnection::TimePoint deadline = In(kLong)) {
  std::vector<RespCommand> sent;
  for (auto& words : commands) sent.push_back({.words = std::move(words)});
  connection.Start(sent);
  return connection.Finish(deadline);
}

TEST(RespConnectionTest, HelloSaysWhoAsksAndWhoAnswers) {
  Words hello;
  const ScriptedServer server([&](Peer& peer) {
    hello = *peer.ReadCommand();
    const auto select = peer.ReadCommand();
    EXPECT_EQ(*select, (Words{"SELECT", "3"}));
    peer.Send(std::string(kHelloReply) + "+OK\r\n");
    peer.Stay();
  });
  RespConnection::Setup setup = PlainSetup();
  setup.password = "secret";
  setup.database = 3;
  const auto connection = RespConnection::Open(setup, server.endpoint(), In(kLong));
  ASSERT_TRUE(connection) << connection.error().ToString();
  EXPECT_EQ(hello, (Words{"HELLO", "3", "AUTH", "default", "secret", "SETNAME", "kvgate"}));
  EXPECT_EQ((*connection)->server(), "scripted 1");
  EXPECT_FALSE((*connection)->is_cluster());
  EXPECT_TRUE((*connection)->IsReady());
  EXPECT_EQ(setup.traffic->num_connects, 1);
  EXPECT_EQ(setup.traffic->bytes_received, kHelloReply.size() + 5);
}

TEST(RespConnectionTest, AServerThatRefusesHelloIsSpokenToInRespTwo) {
  std::vector<Words> commands;
  const ScriptedServer server([&](Peer& peer) {
    while (const auto words = peer.ReadCommand()) {
      commands.push_back(*words);
      peer.Send(words->front() == "HELLO" ? "-ERR unknown command `HELLO`\r\n" : "+OK\r\n");
    }
  });
  RespConnection::Setup setup = PlainSetup();
  setup.user = "agent";
  setup.password = "secret";
  setup.database = 2;
  {
    const auto connection = RespConnection::Open(setup, server.endpoint(), In(kLong));
    ASSERT_TRUE(connection) << connection.error().ToString();
    EXPECT_EQ((*connection)->server(), "");
    EXPECT_EQ(Exchanged(**connection, {{"PING"}})->front().text, "OK");
  }
  const Words auth{"AUTH", "agent", "secret"};
  EXPECT_TRUE(std::ranges::find(commands, auth) != commands.end());
  EXPECT_TRUE(std::ranges::find(commands, Words{"CLIENT", "SETNAME", "kvgate"}) != commands.end());
  EXPECT_EQ(std::ranges::count(commands, Words{"SELECT", "2"}), 2);
}

TEST(RespConnectionTest, AnOldServerWantsThePasswordAlone) {
  Words auth;
  const ScriptedServer server([&](Peer& peer) {
    while (const auto words = peer.ReadCommand()) {
      if (words->front() == "AUTH") auth = *words;
      peer.Send(words->front() == "AUTH" ? "+OK\r\n" : "-ERR unknown command\r\n");
    }
  });
  RespConnection::Setup setup = PlainSetup();
  setup.password = "secret";
  EXPECT_TRUE(RespConnection::Open(setup, server.endpoint(), In(kLong)));
  EXPECT_EQ(auth, (Words{"AUTH", "secret"}));
}

// What a server says may repeat the password; what we say never does.
TEST(RespConnectionTest, RefusedCredentialsSayWhatToDoAndNoSecret) {
  struct Case {
    std::string hello;
    std::string auth;
    bool has_password;
    std::string_view says;
  };
  for (const Case& one :
       {Case{"-WRONGPASS invalid username-password pair\r\n", "", true, "WRONGPASS"},
        Case{"-NOAUTH HELLO must be called with the client already authenticated\r\n", "", false,
             "wants a password"},
        Case{"-ERR unknown command `HELLO`, with args beginning with: `3`, `AUTH`, `hunter2`\r\n",
             "-ERR invalid password hunter2\r\n", true, "refuses the credentials (ERR)"},
        Case{"-LOADING the data set\r\n", "", true, "still loads"},
        Case{"-NOPROTO hunter2\r\n", "-hunter2 is wrong\r\n", true, "refuses the credentials"},
        Case{"-ERR unknown command\r\n", "-NOAUTH Authentication required.\r\n", false,
             "wants a password"},
        Case{"-ERR unknown command `HELLO`, with args beginning with: `3`, `AUTH`, `hunter2`\r\n",
             "", true, "closed the connection"},
        Case{"-ERR max number of clients reached\r\n", "", true, "max number of clients"}}) {
    const ScriptedServer server([&one](Peer& peer) {
      peer.ReadCommand();
      peer.Send(one.hello);
      if (one.auth.empty()) return;
      while (peer.ReadCommand()) peer.Send(one.auth);
    });
    RespConnection::Setup setup = PlainSetup();
    if (one.has_password) setup.password = "hunter2";
    const auto connection = RespConnection::Open(setup, server.endpoint(), In(kLong));
    ASSERT_FALSE(connection);
    const std::string said = connection.error().ToString();
    EXPECT_EQ(connection.error().code, ErrorCode::kUnavailable);
    EXPECT_NE(said.find(one.says), std::string::npos) << said;
    EXPECT_NE(said.find(server.endpoint().ToString()), std::string::npos) << said;
    EXPECT_EQ(said.find("hunter2"), std::string::npos) << said;
  }
}

TEST(RespConnectionTest, ADatabaseThatIsNotThereIsNamed) {
  const ScriptedServer server(
      ScriptedServer::Answering([](const Words&) { return "-ERR DB index is out of range\r\n"; }));
  RespConnection::Setup setup = PlainSetup();
  setup.database = 99;
  const auto connection = RespConnection::Open(setup, server.endpoint(), In(kLong));
  ASSERT_FALSE(connection);
  EXPECT_NE(connection.error().detail.find("database 99"), std::string::npos);
}

TEST(RespConnectionTest, ANameIsLookedUpAndItsAddressesAreTriedInTurn) {
  const ScriptedServer server(ScriptedServer::Answering([](const Words&) { return "+PONG\r\n"; }));
  RespConnection::Setup setup{
      .reply_bytes_max = 1,
      .lookup = NameLookup([](const std::string& host) {
        return host == "store" ? Result<NameLookup::Addresses>({"::1", "127.0.0.1"})
                               : MakeError(ErrorCode::kUnavailable, "test", "no such host");
      })};
  EXPECT_TRUE(
      RespConnection::Open(setup, {.host = "store", .port = server.endpoint().port}, In(kLong)));
  const auto unknown = RespConnection::Open(setup, {.host = "shop"}, In(kLong));
  EXPECT_EQ(unknown.error().code, ErrorCode::kUnavailable);
  EXPECT_NE(unknown.error().detail.find("shop:6379"), std::string::npos);
}

TEST(RespConnectionTest, NobodyListensIsSaidAtOnce) {
  const RespConnection::Setup setup = PlainSetup();
  const auto connection =
      RespConnection::Open(setup, {.host = "127.0.0.1", .port = FreePort()}, In(kLong));
  ASSERT_FALSE(connection);
  EXPECT_EQ(connection.error().code, ErrorCode::kUnavailable);
  EXPECT_NE(connection.error().detail.find("127.0.0.1:"), std::string::npos);
}

TEST(RespConnectionTest, PushesInBetweenAreNoReplies) {
  const ScriptedServer server(ScriptedServer::Answering([](const Words& words) {
    return ">2\r\n+invalidate\r\n*1\r\n+k\r\n" + (":" + words[1]) + "\r\n>1\r\n+more\r\n";
  }));
  const RespConnection::Setup setup = PlainSetup();
  const auto connection = RespConnection::Open(setup, server.endpoint(), In(kLong));
  ASSERT_TRUE(connection);
  for (int round = 0; round < 3; ++round) {
    const auto replies = Exchanged(**connection, {{"GET", "1"}, {"GET", "2"}});
    ASSERT_TRUE(replies) << replies.error().ToString();
    EXPECT_EQ((*replies)[0].integer, 1);
    EXPECT_EQ((*replies)[1].integer, 2);
  }
}

// Neither side reads all before it writes, so both must do both at once.
TEST(RespConnectionTest, LongCommandsAndLongRepliesPassEachOther) {
  const ScriptedServer server(ScriptedServer::Answering(
      [](const Words& words) { return "$4194304\r\n" + words[1] + "\r\n"; }));
  const RespConnection::Setup setup = PlainSetup();
  const auto connection = RespConnection::Open(setup, server.endpoint(), In(kLong));
  ASSERT_TRUE(connection);
  const std::string value(4 << 20, 'v');
  const auto replies =
      Exchanged(**connection, {{"ECHO", value}, {"ECHO", value}, {"ECHO", value}, {"ECHO", value}});
  ASSERT_TRUE(replies) << replies.error().ToString();
  for (const RespReply& reply : *replies) EXPECT_TRUE(reply.text == value);
}

TEST(RespConnectionTest, WhatFollowsTheLastReplyMakesTheConnectionUseless) {
  for (const std::string_view more : {"+unasked\r\n", "+half", ">2\r\n+half\r\n"}) {
    const ScriptedServer server(
        ScriptedServer::Answering([more](const Words&) { return "+OK\r\n" + std::string(more); }));
    const RespConnection::Setup setup = PlainSetup();
    const auto connection = RespConnection::Open(setup, server.endpoint(), In(kLong));
    ASSERT_TRUE(connection);
    EXPECT_EQ(Exchanged(**connection, {{"PING"}})->front().text, "OK");
    EXPECT_TRUE(test::WaitUntil([&] { return !(*connection)->IsReady(); }, "the bytes come"));
  }
}

TEST(RespConnectionTest, AConnectionThatTheServerClosedIsNotReady) {
  const ScriptedServer server(ScriptedServer::Greeted([](Peer& peer) { peer.Send("+OK\r\n"); }));
  const RespConnection::Setup setup = PlainSetup();
  const auto connection = RespConnection::Open(setup, server.endpoint(), In(kLong));
  ASSERT_TRUE(connection);
  EXPECT_TRUE(Exchanged(**connection, {{"PING"}}));
  EXPECT_TRUE(test::WaitUntil([&] { return !(*connection)->IsReady(); }, "it is closed"));
  const auto again = Exchanged(**connection, {{"PING"}});
  EXPECT_EQ(again.error().code, ErrorCode::kUnavailable);
  EXPECT_TRUE((*connection)->is_closed_unanswered());
}

TEST(RespConnectionTest, AnEndAmongRepliesIsNoUnansweredOne) {
  const ScriptedServer server(
      ScriptedServer::Greeted([](Peer& peer) { peer.Send("+OK\r\n$5\r\nab"); }));
  const RespConnection::Setup setup = PlainSetup();
  const auto connection = RespConnection::Open(setup, server.endpoint(), In(kLong));
  ASSERT_TRUE(connection);
  const auto replies = Exchanged(**connection, {{"PING"}, {"GET", "k"}});
  ASSERT_FALSE(replies);
  EXPECT_EQ(replies.error().code, ErrorCode::kUnavailable);
  EXPECT_NE(replies.error().detail.find("1 of 2"), std::string::npos) << replies.error().detail;
  EXPECT_FALSE((*connection)->is_closed_unanswered());
}

std::unique_ptr<RedisServer> ServeTls(const TestAuthority& authority) {
  return std::make_unique<RedisServer>(
      std::vector<std::string>{"--tls-cert-file", authority.cert_file(), "--tls-key-file",
                               authority.key_file(), "--tls-ca-cert-file", authority.ca_file(),
                               "--tls-auth-clients", "no"},
      "--tls-port");
}

class RespConnectionTlsTest : public testing::Test {
 protected:
  static Result<std::unique_ptr<RespConnection>> Open(RespConnection::Setup& setup,
                                                      const std::string& ca_file,
                                                      const RespEndpoint& endpoint) {
    setup.reply_bytes_max = 8 << 20;
    setup.tls = *TlsContext::Make(ca_file);
    return RespConnection::Open(setup, endpoint, In(kLong));
  }
};

TEST_F(RespConnectionTlsTest, OwnAuthoritiesProveNamesAndAddresses) {
  KVGATE_SKIP_WITHOUT_REDIS();
  const TestAuthority authority("IP:127.0.0.1,DNS:localhost");
  const auto server = ServeTls(authority);
  const std::string value(3 << 20, 't');
  for (const std::string& host : {std::string("127.0.0.1"), std::string("localhost")}) {
    RespConnection::Setup setup;
    const auto connection =
        Open(setup, authority.ca_file(), {.host = host, .port = server->port()});
    ASSERT_TRUE(connection) << connection.error().ToString();
    const auto replies = Exchanged(**connection, {{"SET", "k", value}, {"GET", "k"}});
    ASSERT_TRUE(replies) << replies.error().ToString();
    EXPECT_TRUE((*replies)[1].text == value);
    EXPECT_TRUE((*connection)->IsReady());
  }
}

TEST_F(RespConnectionTlsTest, OtherAuthoritiesAndOtherNamesAreRefused) {
  KVGATE_SKIP_WITHOUT_REDIS();
  const TestAuthority authority("DNS:store.example,IP:127.0.0.2");
  const TestAuthority other("IP:127.0.0.1");
  const auto server = ServeTls(authority);
  struct Case {
    std::string ca_file;
    std::string host;
  };
  for (const Case& one :
       {Case{authority.ca_file(), "127.0.0.1"}, Case{authority.ca_file(), "localhost"},
        Case{other.ca_file(), "127.0.0.1"}, Case{"", "127.0.0.1"}}) {
    RespConnection::Setup setup;
    const auto connection = Open(setup, one.ca_file, {.host = one.host, .port = server->port()});
    ASSERT_FALSE(connection) << one.ca_file << " " << one.host;
    EXPECT_EQ(connection.error().code, ErrorCode::kUnavailable);
    EXPECT_NE(connection.error().detail.find("certificate is refused"), std::string::npos)
        << connection.error().detail;
  }
}

TEST_F(RespConnectionTlsTest, AServerWithoutTlsIsAnError) {
  const ScriptedServer server([](Peer& peer) { peer.Send("-ERR what is this\r\n"); });
  const TestAuthority authority("IP:127.0.0.1");
  RespConnection::Setup setup;
  const auto connection = Open(setup, authority.ca_file(), server.endpoint());
  ASSERT_FALSE(connection);
  EXPECT_NE(connection.error().detail.find("TLS handshake"), std::string::npos)
      << connection.error().detail;
}

constexpr milliseconds kSlack{50};
constexpr milliseconds kTime{120};

class RespConnectionTimingTest : public testing::Test {
 protected:
  struct Case {
    std::string_view what;
    ScriptedServer::Script script;
  };
  using Server = ScriptedServer;

  // What opening and two commands give, which must be at its end when the time is over.
  static Error Run(const RespConnection::Setup& setup, const ScriptedServer& server,
                   milliseconds time = kTime, std::string_view word = "k") {
    const auto deadline = In(time);
    auto connection = RespConnection::Open(setup, server.endpoint(), deadline);
    Error error;
    if (!connection) {
      error = connection.error();
    } else {
      const auto replies = Exchanged(**connection, {{"GET", word}, {"GET", word}}, deadline);
      EXPECT_FALSE(replies);
      if (!replies) error = replies.error();
    }
    const auto over = std::chrono::steady_clock::now() - deadline;
    EXPECT_LE(over, kSlack + 4 * Lateness())
        << std::chrono::floor<milliseconds>(over).count() << " ms: " << error.detail;
    EXPECT_NE(error.detail.find(server.endpoint().ToString()), std::string::npos) << error.detail;
    return error;
  }
  // Only what is silent takes all the time; what else ends a call does so however long that takes
  // on a busy machine.
  static void ExpectAll(ErrorCode code, std::vector<Case> cases) {
    const RespConnection::Setup setup = PlainSetup(256 << 10);
    const milliseconds time = code == ErrorCode::kDeadline ? kTime : kLong;
    for (const Case& one : cases) {
      SCOPED_TRACE(one.what);
      const ScriptedServer server(one.script);
      const Error error = Run(setup, server, time);
      EXPECT_EQ(error.code, code) << error.ToString();
    }
  }
  // Sends the text until the client leaves.
  static ScriptedServer::Script Repeating(std::string text, milliseconds pause = {}) {
    return Server::Greeted([text = std::move(text), pause](Peer& peer) {
      while (peer.Send(text) && (pause == milliseconds() || peer.Wait(pause))) {
      }
    });
  }
  static ScriptedServer::Script Sending(std::string text, bool stays = false) {
    return Server::Greeted([text = std::move(text), stays](Peer& peer) {
      peer.Send(text);
      if (stays) peer.Stay();
    });
  }
};

TEST_F(RespConnectionTimingTest, CallsOfASlowServerEndByTheirDeadline) {
  std::string pushes;
  for (int index = 0; index < 1000; ++index) pushes += ">1\r\n+x\r\n";
  ExpectAll(ErrorCode::kDeadline,
            {{"never answers HELLO", [](Peer& peer) { peer.Stay(); }},
             {"never answers", Sending("", true)},
             {"answers one of two", Sending("+OK\r\n", true)},
             {"sends half a text", Sending("$200000\r\n" + std::string(100'000, 'x'), true)},
             {"sends a byte a second", Repeating("$", milliseconds(1000))},
             {"sends a byte now and then", Repeating("$", milliseconds(5))},
             {"sends pushes now and then", Repeating(">1\r\n+x\r\n", milliseconds(1))},
             {"sends pushes without end", Repeating(pushes)}});
}

TEST_F(RespConnectionTimingTest, CallsOfAServerThatLeavesEnd) {
  ExpectAll(ErrorCode::kUnavailable, {{"closes at once", [](Peer&) {}},
                                      {"closes instead of a reply", Sending("")},
                                      {"closes in a reply", Sending("$100\r\nabc")}});
}

TEST_F(RespConnectionTimingTest, CallsOfWhatIsNoSuchServerEnd) {
  std::string deep;
  for (int level = 0; level < 10'000; ++level) deep += "*1\r\n";
  ExpectAll(ErrorCode::kDataLoss,
            {{"is a web server",
              [](Peer& peer) {
                if (peer.ReadCommand()) peer.Send("HTTP/1.1 400 Bad Request\r\n\r\n");
              }},
             {"sends garbage", Sending("\x16\x03\x01")},
             {"announces a huge text", Sending("$99999999999\r\n")},
             {"announces a huge list", Sending("*1000000000\r\n")},
             {"sends deep lists", Sending(deep)},
             {"sends lists without end", Repeating("*100\r\n")},
             {"sends a line without end", Repeating(std::string(1000, '+'))},
             {"sends texts above the limit",
              Sending("*2\r\n$150000\r\n" + std::string(150'000, 'x') + "\r\n$150000\r\n")}});
}

TEST_F(RespConnectionTimingTest, AServerThatReadsNothingHoldsNoCall) {
  const RespConnection::Setup setup = PlainSetup();
  const ScriptedServer server([](Peer& peer) {
    if (peer.ReadCommand()) peer.Send(kHelloReply);
    peer.Stay();
  });
  const std::string value(32 << 20, 'v');
  EXPECT_EQ(Run(setup, server, kTime, value).code, ErrorCode::kDeadline);
}

TEST_F(RespConnectionTimingTest, AServerThatFallsSilentHoldsNoCallOverTls) {
  KVGATE_SKIP_WITHOUT_REDIS();
  const TestAuthority authority("IP:127.0.0.1");
  const auto server = ServeTls(authority);
  RespConnection::Setup setup = PlainSetup();
  setup.tls = *TlsContext::Make(authority.ca_file());
  const auto connection = RespConnection::Open(setup, server->endpoint(), In(kLong));
  ASSERT_TRUE(connection) << connection.error().ToString();
  const auto deadline = In(kTime);
  const auto replies = Exchanged(**connection, {{"PING"}, {"BLPOP", "none", "0"}}, deadline);
  EXPECT_LE(std::chrono::steady_clock::now(), deadline + kSlack + 4 * Lateness());
  EXPECT_EQ(replies.error().code, ErrorCode::kDeadline);
  EXPECT_FALSE((*connection)->IsReady());
}

TEST_F(RespConnectionTimingTest, ASilentServerHoldsNoTlsHandshake) {
  RespConnection::Setup setup = PlainSetup();
  setup.tls = *TlsContext::Make("");
  const ScriptedServer server([](Peer& peer) { peer.Stay(); });
  EXPECT_EQ(Run(setup, server).code, ErrorCode::kDeadline);
}

TEST_F(RespConnectionTimingTest, ASilentResolverHoldsNoCall) {
  const RespConnection::Setup setup{.lookup = NameLookup([](const std::string&) {
                                      std::this_thread::sleep_for(milliseconds(400));
                                      return NameLookup::Addresses{"127.0.0.1"};
                                    })};
  const auto deadline = In(kTime);
  const auto connection = RespConnection::Open(setup, {.host = "store"}, deadline);
  EXPECT_LE(std::chrono::steady_clock::now(), deadline + kSlack + 4 * Lateness());
  EXPECT_EQ(connection.error().code, ErrorCode::kDeadline);
}

}  // namespace
}  // namespace kvgate::store::remote
