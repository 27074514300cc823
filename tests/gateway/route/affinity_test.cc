#include "gateway/route/affinity.h"

#include <gtest/gtest.h>

#include <map>

namespace kvgate::route {
namespace {

using prompt::parse::Identity;
using std::chrono::seconds;

constexpr Affinity::TimePoint kBegin{};
const std::vector<Affinity::Member> kThree = {{.name = "a"}, {.name = "b"}, {.name = "c"}};

std::string First(Affinity& affinity, uint64_t conversation, uint64_t prefix,
                  std::vector<Affinity::Member> members = kThree,
                  Affinity::TimePoint now = kBegin) {
  const auto order =
      affinity.Order({.low = conversation, .high = 7}, {.low = prefix, .high = 9}, members, now);
  EXPECT_EQ(order.size(), members.size());
  return std::string(members[order.front()].name);
}

TEST(AffinityTest, ConversationsOfOnePrefixMeetAndPrefixesSpread) {
  Affinity affinity({});
  std::map<std::string, int> placed;
  for (uint64_t prefix = 0; prefix < 300; ++prefix) {
    const std::string first = First(affinity, 1, prefix * 7919);
    EXPECT_EQ(First(affinity, 2, prefix * 7919), first);
    ++placed[first];
  }
  for (const auto& [name, count] : placed) EXPECT_GT(count, 60) << name;
  EXPECT_EQ(placed.size(), 3u);
}

TEST(AffinityTest, AMemberThatGoesMovesOnlyItsOwnPrefixes) {
  Affinity affinity({});
  const std::vector<Affinity::Member> two = {{.name = "a"}, {.name = "b"}};
  for (uint64_t prefix = 0; prefix < 200; ++prefix) {
    const std::string before = First(affinity, prefix, prefix * 31);
    if (before != "c") {
      EXPECT_EQ(First(affinity, prefix, prefix * 31, two), before);
    }
  }
}

// A conversation's affinity ends after its TTL, and a target that fails loses those it had.
TEST(AffinityTest, AConversationStaysWhereItWasAnsweredUntilItsTimeIsOver) {
  Affinity affinity({.ttl = seconds(100)});
  const std::string home = First(affinity, 5, 5);
  const std::string other = home == "a" ? "b" : "a";
  affinity.Keep({.low = 5, .high = 7}, other, kBegin);
  EXPECT_EQ(First(affinity, 5, 5, kThree, kBegin + seconds(99)), other);
  EXPECT_EQ(First(affinity, 5, 5, kThree, kBegin + seconds(100)), home);
}

TEST(AffinityTest, AMemberThatIsDownIsAskedLastAndItsConversationsMove) {
  Affinity affinity({});
  affinity.Keep({.low = 5, .high = 7}, "b", kBegin);
  std::vector<Affinity::Member> members = kThree;
  members[1].usable = false;
  const auto order = affinity.Order({.low = 5, .high = 7}, {.low = 5, .high = 9}, members, kBegin);
  EXPECT_EQ(order.back(), 1u);
  affinity.Keep({.low = 5, .high = 7}, members[order.front()].name, kBegin);
  EXPECT_EQ(First(affinity, 5, 5), members[order.front()].name) << "re-pinned, also when b is back";
}

TEST(AffinityTest, NewConversationsGoPastABusyMemberAndOldOnesDoNot) {
  Affinity affinity({.load_factor = 1.25});
  const std::string home = First(affinity, 1, 1);
  std::vector<Affinity::Member> members = kThree;
  for (auto& member : members) member.num_running = member.name == home ? 30 : 1;
  EXPECT_NE(First(affinity, 1, 1, members), home);
  affinity.Keep({.low = 1, .high = 7}, home, kBegin);
  EXPECT_EQ(First(affinity, 1, 1, members), home) << "its cache is there";
}

TEST(AffinityTest, AFewRunningRequestsKeepNobodyFromAPrefix) {
  Affinity affinity({.load_factor = 1.25});
  const std::string home = First(affinity, 1, 1);
  std::vector<Affinity::Member> members = kThree;
  for (auto& member : members) member.num_running = member.name == home ? 3 : 0;
  EXPECT_EQ(First(affinity, 1, 1, members), home);
  for (auto& member : members) member.num_running = member.name == home ? 4 : 0;
  EXPECT_NE(First(affinity, 1, 1, members), home);
}

TEST(AffinityTest, WhatIsRememberedIsBounded) {
  Affinity affinity({.conversations_max = 10});
  const std::string home = First(affinity, 0, 3);
  const std::string other = home == "a" ? "b" : "a";
  affinity.Keep({.low = 0, .high = 7}, other, kBegin);
  for (uint64_t i = 1; i <= 9; ++i) affinity.Keep({.low = i, .high = 7}, "c", kBegin);
  EXPECT_EQ(First(affinity, 0, 3), other);
  affinity.Keep({.low = 10, .high = 7}, "c", kBegin);
  EXPECT_EQ(First(affinity, 0, 3), home);
}

}  // namespace
}  // namespace kvgate::route
