#include "store/remote/connection_pool.h"

#include <gtest/gtest.h>

#include "tests/store/remote/deadlines.h"
#include "tests/store/remote/redis_server.h"
#include "tests/store/remote/scripted_server.h"

namespace kvgate::store::remote {
namespace {

using std::chrono::milliseconds;

ScriptedServer::Script Pong() {
  return ScriptedServer::Answering([](const Words&) { return "+PONG\r\n"; });
}

TEST(ConnectionPoolTest, TheLastOneUsedIsTakenFirstAndNoMoreAreKeptThanAllowed) {
  const ScriptedServer server(Pong());
  ConnectionPool pool({.reply_bytes_max = 1 << 20}, {.kept_max = 2});
  EXPECT_EQ(pool.TakeKept(server.endpoint()), nullptr);
  std::vector<RespConnection*> made;
  std::vector<std::unique_ptr<RespConnection>> held;
  for (int index = 0; index < 3; ++index) {
    held.push_back(*pool.Connect(server.endpoint(), In(kLong), 0));
    made.push_back(held.back().get());
  }
  for (auto& connection : held) pool.Return(std::move(connection));
  const auto first = pool.TakeKept(server.endpoint());
  const auto second = pool.TakeKept(server.endpoint());
  EXPECT_EQ(first.get(), made[1]);
  EXPECT_EQ(second.get(), made[0]);
  EXPECT_EQ(pool.TakeKept(server.endpoint()), nullptr);
  EXPECT_EQ(pool.traffic().num_connects, 3);
  EXPECT_EQ(pool.server(), "scripted 1");
}

TEST(ConnectionPoolTest, EachServerHasConnectionsOfItsOwn) {
  const ScriptedServer one(Pong());
  const ScriptedServer other(Pong());
  ConnectionPool pool({}, {});
  pool.Return(*pool.Connect(one.endpoint(), In(kLong), 0));
  pool.Return(*pool.Connect(other.endpoint(), In(kLong), 0));
  pool.Forget(one.endpoint());
  EXPECT_EQ(pool.TakeKept(one.endpoint()), nullptr);
  const auto kept = pool.TakeKept(other.endpoint());
  ASSERT_NE(kept, nullptr);
  EXPECT_EQ(kept->endpoint(), other.endpoint());
}

TEST(ConnectionPoolTest, NoneIsKeptWhereNoneIsAllowed) {
  const ScriptedServer server(Pong());
  ConnectionPool pool({}, {.kept_max = 0});
  pool.Return(*pool.Connect(server.endpoint(), In(kLong), 0));
  EXPECT_EQ(pool.TakeKept(server.endpoint()), nullptr);
}

TEST(ConnectionPoolTest, AClosedConnectionIsNotTaken) {
  KVGATE_SKIP_WITHOUT_REDIS();
  RedisServer server;
  ConnectionPool pool({}, {});
  for (int index = 0; index < 3; ++index) {
    pool.Return(*pool.Connect(server.endpoint(), In(kLong), 0));
  }
  server.Kill();
  EXPECT_EQ(pool.TakeKept(server.endpoint()), nullptr);
}

TEST(ConnectionPoolTest, AServerThatSaysNothingLeavesTimeForOthers) {
  const ScriptedServer server([](ScriptedServer::Peer& peer) { peer.Stay(); });
  ConnectionPool pool({}, {.connect_timeout = milliseconds(30)});
  const auto late = pool.Connect(server.endpoint(), In(kLong), 0);
  EXPECT_EQ(late.error().code, ErrorCode::kUnavailable);  // there is time left
  const auto deadline = In(milliseconds(60));
  ConnectionPool patient({}, {.connect_timeout = kLong});
  const auto share = patient.Connect(server.endpoint(), deadline, 1);
  EXPECT_EQ(share.error().code, ErrorCode::kUnavailable);
  EXPECT_EQ(patient.Connect(server.endpoint(), deadline, 0).error().code, ErrorCode::kDeadline);
}

}  // namespace
}  // namespace kvgate::store::remote
