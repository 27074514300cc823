#include "gateway/session/retrieval/passage_indexes.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/gateway/session/session_turns.h"

namespace kvgate::session::retrieval {
namespace {

using log::LoggedTurn;
using test::TurnOf;

class PassageIndexesTest : public ::testing::Test {
 protected:
  std::unique_ptr<PassageIndex> Take(PassageIndexes& indexes, std::string_view tenant,
                                     std::string_view key, const std::vector<LoggedTurn>& branch,
                                     size_t num_recent) {
    const std::span<const LoggedTurn> all(branch);
    auto index = indexes.Take({.tenant = tenant, .key = key}, all.last(num_recent),
                              [&]() -> Result<std::vector<LoggedTurn>> {
                                ++num_loads;
                                return branch;
                              });
    return index ? *std::move(index) : nullptr;
  }
  int num_loads = 0;
};

TEST_F(PassageIndexesTest, ABranchIsReadOnceAndGoesOn) {
  PassageIndexes indexes(1 << 20);
  std::vector<LoggedTurn> turns = {TurnOf(1, {"a"}), TurnOf(2, {"b"})};
  auto index = Take(indexes, "t", "k", turns, 1);
  EXPECT_EQ(index->head(), "turn_2");
  indexes.Put({.tenant = "t", .key = "k"}, std::move(index));
  turns.push_back(TurnOf(3, {"c"}));
  turns.push_back(TurnOf(4, {"d"}));
  index = Take(indexes, "t", "k", turns, 2);  // the first of those follows what it has
  EXPECT_EQ(index->head(), "turn_4");
  EXPECT_EQ(index->num_passages(), 8u);
  EXPECT_EQ(num_loads, 1);
  EXPECT_EQ(indexes.bytes(), 0u);  // it was taken
}

TEST_F(PassageIndexesTest, AnotherBranchIsReadAnew) {
  PassageIndexes indexes(1 << 20);
  const std::vector<LoggedTurn> turns = {TurnOf(1, {"a"}), TurnOf(2, {"b"})};
  indexes.Put({.tenant = "t", .key = "k"}, Take(indexes, "t", "k", turns, 2));
  std::vector<LoggedTurn> other = turns;
  other[1].id = "turn_other";
  const auto index = Take(indexes, "t", "k", other, 1);
  EXPECT_EQ(index->head(), "turn_other");
  EXPECT_EQ(index->num_passages(), 4u);
  EXPECT_EQ(num_loads, 2);
}

TEST_F(PassageIndexesTest, TenantsShareNothingAndNobodyPushesOutAnother) {
  const std::vector<LoggedTurn> turns = {TurnOf(1, {std::string(1000, 'x')})};
  PassageIndexes probe(1 << 20);
  const size_t one = Take(probe, "t", "k", turns, 1)->bytes();
  PassageIndexes indexes(4 * one + 100);
  indexes.Put({.tenant = "alice", .key = "k"}, Take(indexes, "alice", "k", turns, 1));
  for (const char* key : {"1", "2", "3", "4", "5"}) {
    indexes.Put({.tenant = "bob", .key = key}, Take(indexes, "bob", key, turns, 1));
  }
  EXPECT_LE(indexes.bytes(), 3 * one);
  num_loads = 0;
  EXPECT_NE(Take(indexes, "alice", "k", turns, 1), nullptr);
  EXPECT_EQ(num_loads, 0);
  Take(indexes, "bob", "k", turns, 1);
  EXPECT_EQ(num_loads, 1);
}

TEST_F(PassageIndexesTest, WhatIsDroppedIsReadAnew) {
  PassageIndexes indexes(1 << 20);
  const std::vector<LoggedTurn> turns = {TurnOf(1, {"a"})};
  indexes.Put({.tenant = "t", .key = "k"}, Take(indexes, "t", "k", turns, 1));
  indexes.Drop({.tenant = "t", .key = "k"});
  EXPECT_EQ(indexes.bytes(), 0u);
  Take(indexes, "t", "k", turns, 1);
  EXPECT_EQ(num_loads, 2);
}

}  // namespace
}  // namespace kvgate::session::retrieval
