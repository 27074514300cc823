#include "gateway/service/branches/branch_index.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

namespace kvgate::service::branches {
namespace {

using prompt::parse::Identity;

constexpr Identity kOne{.low = 1, .high = 1};
constexpr Identity kTwo{.low = 2, .high = 2};
constexpr Identity kAlias{.low = 3, .high = 3};

class BranchIndexTest : public testing::Test {
 protected:
  std::shared_ptr<StoredBranch> Add(BranchIndex& index, uint64_t number, Identity conversation,
                                    int64_t time_us, std::string tenant = "t",
                                    int64_t bytes = 100) {
    auto branch = std::make_shared<StoredBranch>();
    branch->number = number;
    branch->token = number * 10;
    branch->tenant = std::move(tenant);
    branch->keys = {conversation, kAlias};
    branch->next_row = 1;
    branch->time_us = time_us;
    index.Add(branch);
    index.Count(*branch, bytes, time_us);
    return branch;
  }
  static std::vector<std::string> Written(BranchIndex& index) {
    std::vector<std::string> keys;
    for (const auto& write : index.TakeWrites()) {
      keys.push_back((write.value ? "+" : "-") + write.key);
    }
    return keys;
  }

  const std::unique_ptr<Keyring> ring_ = Keyring::Generate();
};

TEST_F(BranchIndexTest, BranchesAreFoundByAnyKeyNewestFirst) {
  BranchIndex index({.bytes_max = 1 << 20}, *ring_);
  const auto first = Add(index, 1, kOne, 5);
  const auto second = Add(index, 2, kOne, 9);
  EXPECT_EQ(index.Find(std::vector{kOne}), (std::vector{second, first}));
  EXPECT_EQ(index.Find(std::vector{kTwo, kAlias}), (std::vector{second, first}));
  EXPECT_TRUE(index.Find(std::vector{kTwo}).empty());
  // An alias leads to all conversations that have it.
  const auto other = Add(index, 3, kTwo, 1);
  EXPECT_EQ(index.Find(std::vector{kAlias}), (std::vector{second, first, other}));
  EXPECT_EQ(index.Find(std::vector{kTwo}), std::vector{other});
  EXPECT_EQ(index.FindHead(20), second);
  index.MoveHead(second, 21);
  EXPECT_EQ(index.FindHead(20), nullptr);
  EXPECT_EQ(index.FindHead(21), second);
}

TEST_F(BranchIndexTest, OfManyKeysTheNewestAreKeptBesideItsOwn) {
  BranchIndex index({.bytes_max = 1 << 20, .keys_max = 3}, *ring_);
  const auto branch = Add(index, 1, kOne, 5);
  const Identity newer{.low = 4, .high = 4};
  const Identity newest{.low = 5, .high = 5};
  EXPECT_TRUE(index.AddKeys(*branch, std::vector{kOne, newer}));
  EXPECT_FALSE(index.AddKeys(*branch, std::vector{kOne, newer}));
  EXPECT_TRUE(index.AddKeys(*branch, std::vector{kOne, newest}));
  EXPECT_EQ(branch->keys, (std::vector{kOne, newer, newest}));
  EXPECT_TRUE(index.Find(std::vector{kAlias}).empty());
  for (const Identity& key : branch->keys) EXPECT_EQ(index.Find(std::vector{key}).size(), 1U);
  index.Drop(branch, false);
  for (const Identity& key : branch->keys) EXPECT_TRUE(index.Find(std::vector{key}).empty());
}

TEST_F(BranchIndexTest, WhatIsDroppedIsDeletedAndMarked) {
  BranchIndex index({.bytes_max = 1 << 20}, *ring_);
  const auto branch = Add(index, 1, kOne, 5);
  branch->next_row = 2;
  EXPECT_TRUE(Written(index).empty());
  index.Drop(branch, true);
  EXPECT_EQ(index.num_bytes(), 0U);
  EXPECT_EQ(index.num_branches(), 0U);
  EXPECT_TRUE(index.Find(std::vector{kOne, kAlias}).empty());
  EXPECT_TRUE(index.IsMarked(std::vector{kTwo, kOne}));
  EXPECT_FALSE(index.IsMarked(std::vector{kTwo}));
  const std::string mark = "L" + BranchName(*ring_, "branches.lost", kOne);
  EXPECT_EQ(Written(index), (std::vector<std::string>{"-" + BranchRowKey(*branch, 0),
                                                      "-" + BranchRowKey(*branch, 1), "+" + mark}));
  index.Drop(branch, true);
  index.Count(*branch, 7, 7);
  EXPECT_EQ(index.num_bytes(), 0U);
  EXPECT_TRUE(Written(index).empty());
}

TEST_F(BranchIndexTest, TheOldestGoButATenantOverItsShareMakesRoomItself) {
  BranchIndex index({.bytes_max = 1000, .tenant_share = 0.5}, *ring_);
  Add(index, 1, kTwo, 1, "small", 200);
  for (uint64_t i = 2; i < 12; ++i) {
    Add(index, i, {.low = i, .high = 7}, static_cast<int64_t>(i), "large", 200);
    index.MakeRoom(0);
  }
  EXPECT_LE(index.num_bytes(), 1000U);
  EXPECT_NE(index.FindHead(10), nullptr) << "the small tenant's, although it is the oldest";
  EXPECT_EQ(index.FindHead(20), nullptr);
  EXPECT_NE(index.FindHead(110), nullptr);
  index.MakeRoom(11);
  EXPECT_EQ(index.num_branches(), 1U);
  EXPECT_TRUE(index.IsMarked(std::vector{kTwo})) << "its time is over";
}

TEST_F(BranchIndexTest, AConversationHasABoundedNumberOfBranches) {
  BranchIndex index({.bytes_max = 1 << 20, .branches_max = 2}, *ring_);
  Add(index, 1, kOne, 5);
  Add(index, 2, kOne, 6);
  Add(index, 3, kOne, 7);
  EXPECT_EQ(index.FindHead(10), nullptr);
  EXPECT_EQ(index.Find(std::vector{kOne}).size(), 2U);
}

TEST_F(BranchIndexTest, BytesLiveAsLongAsSomethingRefersToThem) {
  BranchIndex index({.bytes_max = 1 << 20}, *ring_);
  const auto first = Add(index, 1, kOne, 5, "t", 0);
  const auto second = Add(index, 2, kTwo, 6, "t", 0);
  const auto other = Add(index, 3, {.low = 9, .high = 9}, 6, "u", 0);
  const std::string key = index.Refer(*first, "bytes").key;
  EXPECT_EQ(index.Refer(*second, "bytes").key, key);
  EXPECT_NE(index.Refer(*other, "bytes").key, key) << "nothing is shared between tenants";
  index.Store("t", "bytes", 50);
  EXPECT_EQ(index.num_bytes(), 50U);
  index.Drop(first, false);
  EXPECT_NE(index.FindContent("t", "bytes"), nullptr);
  (void)Written(index);
  index.KeepOnly(*second, {});
  EXPECT_EQ(index.FindContent("t", "bytes"), nullptr);
  EXPECT_EQ(Written(index), std::vector<std::string>{"-" + key});
  EXPECT_EQ(index.num_bytes(), 0U);
  // The same bytes get another row, so that the deletion under way does not meet it.
  EXPECT_NE(index.Refer(*second, "bytes").key, key);
}

TEST_F(BranchIndexTest, BytesWithoutABranchAreDeleted) {
  BranchIndex index({.bytes_max = 1 << 20}, *ring_);
  index.AddContent("t", "a", {.key = "Cta1", .bytes = 10});
  index.AddContent("t", "a", {.key = "Cta2", .bytes = 10});
  EXPECT_EQ(index.num_bytes(), 10U);
  index.DropUnreferred();
  EXPECT_EQ(Written(index), (std::vector<std::string>{"-Cta2", "-Cta1"}));
  EXPECT_EQ(index.num_bytes(), 0U);
}

TEST_F(BranchIndexTest, TheOldestMarksGoFirst) {
  BranchIndex index({.bytes_max = 1 << 20, .marks_max = 2}, *ring_);
  for (uint64_t i = 1; i <= 3; ++i) index.Mark({.low = i, .high = 0});
  EXPECT_FALSE(index.IsMarked(std::vector{Identity{.low = 1, .high = 0}}));
  EXPECT_TRUE(index.IsMarked(std::vector{Identity{.low = 3, .high = 0}}));
  EXPECT_EQ(Written(index).size(), 4U);
}

}  // namespace
}  // namespace kvgate::service::branches
