#include "store/remote/cluster_router.h"

#include <gtest/gtest.h>

#include <atomic>
#include <map>
#include <random>

#include "tests/store/remote/deadlines.h"
#include "tests/store/remote/redis_server.h"
#include "tests/store/remote/scripted_server.h"

namespace kvgate::store::remote {
namespace {

using Peer = ScriptedServer::Peer;

std::string Bulk(std::string_view text) {
  return "$" + std::to_string(text.size()) + "\r\n" + std::string(text) + "\r\n";
}

// The reply to CLUSTER SLOTS: each node holds the slots from its first to before the next one's.
std::string Slots(const std::vector<std::pair<int, RespEndpoint>>& nodes) {
  std::string reply = "*" + std::to_string(nodes.size()) + "\r\n";
  for (size_t index = 0; index < nodes.size(); ++index) {
    const int end = index + 1 < nodes.size() ? nodes[index + 1].first : int{kNumSlots};
    reply += "*3\r\n:" + std::to_string(nodes[index].first) + "\r\n:" + std::to_string(end - 1) +
             "\r\n*2\r\n" + Bulk(nodes[index].second.host) + ":" +
             std::to_string(nodes[index].second.port) + "\r\n";
  }
  return reply;
}

std::string Moved(std::string_view key, const RespEndpoint& node, std::string_view how = "MOVED") {
  return "-" + std::string(how) + " " + std::to_string(HashSlot(key)) + " " + node.ToString() +
         "\r\n";
}

// A node of a cluster: it answers as told, and remembers what it was asked.
class Node {
 public:
  using Answer = std::function<std::string(const Words&)>;
  Node()
      : server_(ScriptedServer::Answering(
            [this](const Words& words) {
              const std::lock_guard lock(mutex_);
              asked_.push_back(words);
              return answer_(words);
            },
            kClusterHelloReply)) {}
  void Answers(Answer answer) {
    const std::lock_guard lock(mutex_);
    answer_ = std::move(answer);
  }
  std::vector<Words> TakeAsked() {
    const std::lock_guard lock(mutex_);
    return std::exchange(asked_, {});
  }
  RespEndpoint endpoint() const { return server_.endpoint(); }

 private:
  std::mutex mutex_;
  Answer answer_ = [](const Words&) { return "+OK\r\n"; };
  std::vector<Words> asked_;
  ScriptedServer server_;
};

class ClusterRouterTest : public testing::Test {
 protected:
  // Slots up to 8191 are the first node's: "bar" (5061). The others, "foo" (12182), the second's.
  ClusterRouterTest() {
    for (Node* node : {&first_, &second_}) {
      node->Answers([this, node](const Words& words) { return Answer(*node, words); });
    }
  }
  std::string Answer(Node& node, const Words& words) {
    if (words[0] == "CLUSTER") return slots_;
    if (words[0] == "GET") return Bulk(words[1] + (&node == &first_ ? "@first" : "@second"));
    return "+OK\r\n";
  }
  Result<RespReplies> Get(std::vector<std::string_view> keys) {
    std::vector<RespCommand> commands;
    for (const std::string_view key : keys) commands.push_back({.words = {"GET", key}, .key = key});
    return router_.Call(commands, In(kLong));
  }
  std::string GetOne(std::string_view key) {
    const auto replies = Get({key});
    EXPECT_TRUE(replies) << replies.error().ToString();
    return replies ? replies->front().text : "";
  }

  Node first_;
  Node second_;
  std::string slots_ = Slots({{0, first_.endpoint()}, {8192, second_.endpoint()}});
  ConnectionPool pool_{{.reply_bytes_max = 8 << 20}, {}};
  ClusterRouter router_{pool_, {first_.endpoint()}};
};

TEST_F(ClusterRouterTest, CommandsGoToTheirNodesAsOnePipelineEachAndRepliesComeInOrder) {
  const auto replies = Get({"foo", "bar", "{foo}1", "{bar}2", "foo"});
  ASSERT_TRUE(replies) << replies.error().ToString();
  std::string all;
  for (const RespReply& reply : *replies) all += reply.text + " ";
  EXPECT_EQ(all, "foo@second bar@first {foo}1@second {bar}2@first foo@second ");
  EXPECT_EQ(first_.TakeAsked().size(), 3);  // with CLUSTER SLOTS
  EXPECT_EQ(second_.TakeAsked().size(), 3);
  EXPECT_EQ(pool_.traffic().num_connects, 2);
  EXPECT_TRUE(router_.is_active());
}

TEST_F(ClusterRouterTest, ACommandWithoutAKeyGoesToAnyNode) {
  const RespCommand command{.words = {"PING"}};
  EXPECT_EQ(router_.Call(std::span(&command, 1), In(kLong))->front().text, "OK");
}

TEST_F(ClusterRouterTest, AMovedSlotIsFollowedAndRemembered) {
  ASSERT_EQ(GetOne("bar"), "bar@first");
  first_.Answers([this](const Words& words) { return Moved(words[1], second_.endpoint()); });
  first_.TakeAsked();
  EXPECT_EQ(GetOne("bar"), "bar@second");
  EXPECT_EQ(first_.TakeAsked().size(), 1);
  EXPECT_EQ(GetOne("bar"), "bar@second");
  EXPECT_EQ(first_.TakeAsked().size(), 0);
}

TEST_F(ClusterRouterTest, ASlotThatIsBeingMovedIsAskedForAndNotRemembered) {
  ASSERT_EQ(GetOne("bar"), "bar@first");
  first_.Answers([this](const Words& words) { return Moved(words[1], second_.endpoint(), "ASK"); });
  for (int round = 0; round < 2; ++round) {
    second_.TakeAsked();
    const auto replies = Get({"bar", "foo", "{bar}2"});
    ASSERT_TRUE(replies) << replies.error().ToString();
    EXPECT_EQ((*replies)[0].text, "bar@second");
    EXPECT_EQ((*replies)[1].text, "foo@second");
    EXPECT_EQ((*replies)[2].text, "{bar}2@second");
    EXPECT_EQ(second_.TakeAsked(),
              (std::vector<Words>{
                  {"GET", "foo"}, {"ASKING"}, {"GET", "bar"}, {"ASKING"}, {"GET", "{bar}2"}}));
  }
}

TEST_F(ClusterRouterTest, NodesThatSendACommandToEachOtherAreAnError) {
  first_.Answers([this](const Words& words) {
    return words[0] == "CLUSTER" ? slots_ : Moved(words[1], second_.endpoint());
  });
  second_.Answers([this](const Words& words) { return Moved(words[1], first_.endpoint()); });
  const auto replies = Get({"bar"});
  ASSERT_FALSE(replies);
  EXPECT_EQ(replies.error().code, ErrorCode::kUnavailable);
  EXPECT_NE(replies.error().detail.find("followed 5 times"), std::string::npos);
  EXPECT_EQ(first_.TakeAsked().size() + second_.TakeAsked().size(), 1 + 6);
}

TEST_F(ClusterRouterTest, TheSuccessorOfADeadNodeIsFound) {
  const RespEndpoint dead{.host = "127.0.0.1", .port = FreePort()};
  slots_ = Slots({{0, first_.endpoint()}, {8192, dead}});
  const auto none = Get({"foo"});
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().code, ErrorCode::kUnavailable);
  EXPECT_NE(none.error().detail.find(dead.ToString()), std::string::npos);
  EXPECT_EQ(GetOne("bar"), "bar@first");  // other slots are served
  slots_ = Slots({{0, first_.endpoint()}, {8192, second_.endpoint()}});
  EXPECT_EQ(GetOne("foo"), "foo@second");
}

TEST_F(ClusterRouterTest, ANodeThatDoesNotServeIsAnErrorThatNamesIt) {
  second_.Answers([](const Words&) { return "-CLUSTERDOWN The cluster is down\r\n"; });
  const auto replies = Get({"bar", "foo"});
  ASSERT_FALSE(replies);
  EXPECT_EQ(replies.error().code, ErrorCode::kUnavailable);
  EXPECT_NE(replies.error().detail.find(second_.endpoint().ToString()), std::string::npos);
  EXPECT_NE(replies.error().detail.find("CLUSTERDOWN"), std::string::npos);
}

TEST_F(ClusterRouterTest, AClusterWithoutSlotsIsAskedNevertheless) {
  slots_ = "*0\r\n";
  EXPECT_EQ(GetOne("bar"), "bar@first");
}

TEST_F(ClusterRouterTest, AServerThatLeftTheClusterEndsIt) {
  first_.Answers(
      [](const Words&) { return "-ERR This instance has cluster support disabled\r\n"; });
  EXPECT_EQ(Get({"bar"}).error().code, ErrorCode::kUnavailable);
  EXPECT_FALSE(router_.is_active());
}

TEST_F(ClusterRouterTest, OnlyRedirectedCommandsAreSentAgain) {
  const RespCommand commands[] = {{.words = {"INCR", "bar"}, .key = "bar"},
                                  {.words = {"GET", "foo"}, .key = "foo"}};
  RespReplies replies{
      {.kind = RespReply::Kind::kInteger, .integer = 1},
      {.kind = RespReply::Kind::kError, .text = "MOVED 12182 " + second_.endpoint().ToString()}};
  const auto followed = router_.Follow(commands, first_.endpoint(), std::move(replies), In(kLong));
  ASSERT_TRUE(followed) << followed.error().ToString();
  EXPECT_EQ((*followed)[0].integer, 1);
  EXPECT_EQ((*followed)[1].text, "foo@second");
  EXPECT_TRUE(first_.TakeAsked().empty());
}

// Three real nodes, which divide the slots.
class RealCluster {
 public:
  RealCluster() {
    for (size_t index = 0; index < 3; ++index) {
      const std::string bus_port = std::to_string(FreePort());
      nodes_.push_back(std::make_unique<RedisServer>(
          std::vector<std::string>{"--cluster-enabled", "yes", "--cluster-port", bus_port,
                                   "--cluster-node-timeout", "2000"}));
      ids_.push_back(AskNode(index, {"CLUSTER", "MYID"}).text);
      AskNode(index, {"CLUSTER", "ADDSLOTSRANGE", std::to_string(index * 6000),
                      std::to_string(std::min<size_t>(index * 6000 + 5999, kNumSlots - 1))});
      if (index > 0) {
        AskNode(index, {"CLUSTER", "MEET", "127.0.0.1", std::to_string(nodes_[0]->port()), bus0_});
      } else {
        bus0_ = bus_port;
      }
    }
    EXPECT_TRUE(test::WaitUntil([this] { return IsReady(); }, "the nodes form a cluster"));
  }

  RespEndpoint endpoint(size_t index) const { return nodes_[index]->endpoint(); }
  const std::string& id(size_t index) const { return ids_[index]; }
  // One command to one node, whatever its key.
  RespReply AskNode(size_t index, Words words) {
    ConnectionPool pool({.reply_bytes_max = 8 << 20}, {});
    Exchange exchange(pool, nodes_[index]->endpoint(), In(kLong));
    EXPECT_TRUE(exchange.Connect(0));
    const RespCommand command{.words = {words.begin(), words.end()}};
    exchange.Start(std::span(&command, 1));
    const auto replies = exchange.Finish();
    EXPECT_TRUE(replies) << replies.error().ToString();
    return replies ? replies->front() : RespReply();
  }

 private:
  bool IsReady() {
    for (size_t index = 0; index < nodes_.size(); ++index) {
      const std::string info = AskNode(index, {"CLUSTER", "INFO"}).text;
      if (info.find("cluster_state:ok") == std::string::npos ||
          info.find("cluster_known_nodes:3") == std::string::npos) {
        return false;
      }
    }
    return true;
  }

  std::vector<std::unique_ptr<RedisServer>> nodes_;
  std::vector<std::string> ids_;
  std::string bus0_;
};

void CheckRouting(RealCluster& cluster, RespClient& client) {
  std::vector<std::string> keys;
  for (int index = 0; index < 300; ++index) keys.push_back("key:" + std::to_string(index));
  std::vector<RespCommand> sets;
  std::vector<RespCommand> gets;
  for (const std::string& key : keys) {
    sets.push_back({.words = {"SET", key, key}, .key = key});
    gets.push_back({.words = {"GET", key}, .key = key});
  }
  const auto set = client.Call(sets, In(kLong));
  ASSERT_TRUE(set) << set.error().ToString();
  const auto got = client.Call(gets, In(kLong));
  ASSERT_TRUE(got) << got.error().ToString();
  for (size_t index = 0; index < keys.size(); ++index) {
    EXPECT_EQ((*got)[index].text, keys[index]);
  }
  int64_t num_keys = 0;
  for (size_t node = 0; node < 3; ++node) {
    const int64_t here = cluster.AskNode(node, {"DBSIZE"}).integer;
    EXPECT_GT(here, 50);
    num_keys += here;
  }
  EXPECT_EQ(num_keys, 300);
  std::mt19937 random(3);
  for (int round = 0; round < 100; ++round) {
    std::string key;
    for (size_t size = random() % 12; size > 0; --size) key += "a{}b\n"[random() % 5];
    EXPECT_EQ(cluster.AskNode(0, {"CLUSTER", "KEYSLOT", key}).integer, HashSlot(key)) << key;
  }
}

void CheckScripts(RespClient& client) {
  for (const std::string key : {"key:1", "key:2", "key:3", "key:4", "key:5", "key:6"}) {
    const auto reply =
        client.CallScript({.script = "return {KEYS[1], ARGV[1], redis.call('GET', KEYS[1])}",
                           .keys = {key},
                           .arguments = {"argument"}},
                          In(kLong));
    ASSERT_TRUE(reply) << reply.error().ToString();
    ASSERT_EQ(reply->items.size(), 3) << reply->text;
    EXPECT_EQ(reply->items[2].text, key);
  }
}

// The slot of "foo", 12182, is moved from the third node to the first.
void CheckMoving(RealCluster& cluster, RespClient& client) {
  const std::string slot = "12182";
  EXPECT_EQ(Ask(client, {"SET", "foo", "old"}, "foo").text, "OK");
  cluster.AskNode(0, {"CLUSTER", "SETSLOT", slot, "IMPORTING", cluster.id(2)});
  cluster.AskNode(2, {"CLUSTER", "SETSLOT", slot, "MIGRATING", cluster.id(0)});
  // A key that is still there is answered there, one that is not is asked for at the other node.
  EXPECT_EQ(Ask(client, {"GET", "foo"}, "foo").text, "old");
  EXPECT_EQ(Ask(client, {"SET", "{foo}2", "new"}, "{foo}2").text, "OK");
  EXPECT_EQ(Ask(client, {"GET", "{foo}2"}, "{foo}2").text, "new");
  EXPECT_TRUE(cluster.AskNode(2, {"GET", "{foo}2"}).text.starts_with("ASK 12182"));
  cluster.AskNode(
      2, {"MIGRATE", "127.0.0.1", std::to_string(cluster.endpoint(0).port), "foo", "0", "5000"});
  for (const size_t node : {0, 2}) {
    cluster.AskNode(node, {"CLUSTER", "SETSLOT", slot, "NODE", cluster.id(0)});
  }
  EXPECT_TRUE(cluster.AskNode(2, {"GET", "foo"}).text.starts_with("MOVED 12182"));
  EXPECT_EQ(Ask(client, {"GET", "foo"}, "foo").text, "old");
  EXPECT_EQ(Ask(client, {"GET", "{foo}2"}, "{foo}2").text, "new");
}

TEST(RealClusterTest, KeysAreFoundAtTheirNodesWhileSlotsMove) {
  KVGATE_SKIP_WITHOUT_REDIS();
  RealCluster cluster;
  const auto client = MakeClient(cluster.endpoint(1));
  CheckRouting(cluster, *client);
  CheckScripts(*client);
  CheckMoving(cluster, *client);
  EXPECT_EQ(client->Stats().num_failed, 0);
}

}  // namespace
}  // namespace kvgate::store::remote
