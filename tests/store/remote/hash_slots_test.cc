#include "store/remote/hash_slots.h"

#include <gtest/gtest.h>

#include <string>

namespace kvgate::store::remote {
namespace {

using Kind = RespReply::Kind;

RespReply Text(std::string text) { return {.kind = Kind::kText, .text = std::move(text)}; }
RespReply Integer(int64_t value) { return {.kind = Kind::kInteger, .integer = value}; }
RespReply Array(std::vector<RespReply> items) {
  return {.kind = Kind::kArray, .items = std::move(items)};
}
RespReply Failure(std::string text) { return {.kind = Kind::kError, .text = std::move(text)}; }

const RespEndpoint kAsked{.host = "10.0.0.9", .port = 7000};

TEST(HashSlotsTest, SlotsAreThoseOfTheSpecification) {
  EXPECT_EQ(HashSlot("123456789"), 0x31c3);
  EXPECT_EQ(HashSlot(""), 0);
  EXPECT_EQ(HashSlot("foo"), 12'182);
  EXPECT_EQ(HashSlot("bar"), 5061);
}

TEST(HashSlotsTest, KeysWithTheSamePartInBracesHaveTheSameSlot) {
  EXPECT_EQ(HashSlot("{user1000}.following"), HashSlot("user1000"));
  EXPECT_EQ(HashSlot("foo{bar}{zap}"), HashSlot("bar"));
  EXPECT_EQ(HashSlot("foo{{bar}}zap"), HashSlot("{bar"));
  EXPECT_NE(HashSlot("foo{}{bar}"), HashSlot("bar"));  // the first part is empty: the whole key
  EXPECT_NE(HashSlot("foo{bar"), HashSlot("bar"));
  EXPECT_NE(HashSlot("foo}bar{"), HashSlot("bar"));
}

TEST(HashSlotsTest, TheMapKnowsPrimariesByTheirRanges) {
  const RespReply reply =
      Array({Array({Integer(0), Integer(5460), Array({Text("10.0.0.1"), Integer(7001), Text("id")}),
                    Array({Text("10.0.0.5"), Integer(7005), Text("a replica")})}),
             Array({Integer(5461), Integer(5461), Array({RespReply(), Integer(7002)})}),
             Array({Integer(5462), Integer(9000), Array({Text(""), Integer(7003)})}),
             Array({Integer(9001), Integer(9002), Array({Text("?"), Integer(7004)})}),
             Array({Integer(16'383), Integer(16'383), Array({Text("10.0.0.1"), Integer(7001)})})});
  const auto map = SlotMap::Parse(reply, kAsked);
  ASSERT_TRUE(map) << map.error().ToString();
  const RespEndpoint first{.host = "10.0.0.1", .port = 7001};
  EXPECT_EQ(*map->Find(0), first);
  EXPECT_EQ(*map->Find(5460), first);
  EXPECT_EQ(*map->Find(5461), (RespEndpoint{.host = "10.0.0.9", .port = 7002}));
  EXPECT_EQ(*map->Find(9000), (RespEndpoint{.host = "10.0.0.9", .port = 7003}));
  EXPECT_EQ(map->Find(9001), nullptr);
  EXPECT_EQ(map->Find(12'000), nullptr);
  EXPECT_EQ(*map->Find(16'383), first);
  EXPECT_EQ(map->nodes().size(), 3);
}

TEST(HashSlotsTest, OtherRepliesAreNoMap) {
  EXPECT_EQ(SlotMap::Parse(Failure("NOPERM no"), kAsked).error().code, ErrorCode::kUnavailable);
  const RespReply node = Array({Text("a"), Integer(1)});
  for (const RespReply& reply :
       {Text("OK"), RespReply(), Array({Text("x")}), Array({Array({Integer(0), Integer(1)})}),
        Array({Array({Integer(0), Integer(16'384), node})}),
        Array({Array({Integer(-1), Integer(1), node})}),
        Array({Array({Text("0"), Text("1"), node})})}) {
    const auto map = SlotMap::Parse(reply, kAsked);
    ASSERT_FALSE(map);
    EXPECT_EQ(map.error().code, ErrorCode::kDataLoss);
    EXPECT_NE(map.error().detail.find(kAsked.ToString()), std::string::npos);
  }
  // Nodes that cannot be reached by what is said of them are left out.
  for (const RespReply& odd :
       {Array({Text("a")}), Array({Text("a"), Integer(0)}), Array({Text("a"), Integer(65'536)}),
        Array({Text("a b"), Integer(1)}), Array({Text(std::string(300, 'a')), Integer(1)}),
        Text("a")}) {
    const auto map = SlotMap::Parse(Array({Array({Integer(0), Integer(1), odd})}), kAsked);
    ASSERT_TRUE(map);
    EXPECT_TRUE(map->nodes().empty());
    EXPECT_EQ(map->Find(0), nullptr);
  }
}

TEST(HashSlotsTest, AMovedSlotHasItsNewNodeAndOthersKeepTheirs) {
  SlotMap map;
  map.Assign(1, {.host = "a", .port = 1});
  map.Assign(2, {.host = "a", .port = 1});
  map.Assign(1, {.host = "b", .port = 1});
  EXPECT_EQ(map.Find(1)->host, "b");
  EXPECT_EQ(map.Find(2)->host, "a");
  for (size_t node = 0; node < 2 * SlotMap::kNodesMax; ++node) {
    map.Assign(3, {.host = std::to_string(node), .port = 2});
  }
  EXPECT_EQ(map.nodes().size(), SlotMap::kNodesMax);
}

TEST(HashSlotsTest, RedirectsNameANode) {
  const auto moved = ReadRedirect(Failure("MOVED 3999 127.0.0.1:6381"), kAsked);
  ASSERT_TRUE(moved);
  EXPECT_FALSE(moved->is_ask);
  EXPECT_EQ(moved->slot, 3999);
  EXPECT_EQ(moved->node, (RespEndpoint{.host = "127.0.0.1", .port = 6381}));
  const auto ask = ReadRedirect(Failure("ASK 16383 ::1:6381"), kAsked);
  ASSERT_TRUE(ask);
  EXPECT_TRUE(ask->is_ask);
  EXPECT_EQ(ask->node, (RespEndpoint{.host = "::1", .port = 6381}));
  // The host that was asked has another port.
  EXPECT_EQ(ReadRedirect(Failure("MOVED 1 :6381"), kAsked)->node,
            (RespEndpoint{.host = "10.0.0.9", .port = 6381}));
}

TEST(HashSlotsTest, OtherErrorsAreNoRedirects) {
  for (const char* text :
       {"", "MOVED", "MOVED ", "MOVED 1", "MOVED 1 a", "MOVED 1 a:", "MOVED 1 a:0", "MOVED x a:1",
        "MOVED 16384 a:1", "MOVED 1 a:65536", "MOVED 1 ?:1", "MOVED 1 a b:1", "moved 1 a:1",
        "ASKING", "ERR MOVED 1 a:1"}) {
    EXPECT_FALSE(ReadRedirect(Failure(text), kAsked)) << text;
  }
  EXPECT_FALSE(ReadRedirect(Text("MOVED 1 a:1"), kAsked));
}

}  // namespace
}  // namespace kvgate::store::remote
