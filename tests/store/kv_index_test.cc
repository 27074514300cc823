#include "store/kv_index.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>

namespace kvgate::store {
namespace {

KvIndexEntry Entry(uint64_t id, uint64_t parent, uint32_t depth) {
  return {.key = {Fingerprint{1, 1}, BlockHash{id, 0}},
          .parent = BlockHash{parent, 0},
          .depth = depth,
          .digest = {},
          .payload_bytes = 10 + id};
}

TEST(KvIndex, OnlyLeavesAreOfferedForEvictionOldestFirst) {
  KvIndex index;
  index.Touch(index.Insert(Entry(1, 0, 0)));
  index.Touch(index.Insert(Entry(2, 1, 1)));
  index.Touch(index.Insert(Entry(3, 1, 1)));
  index.Touch(*index.Find(Entry(2, 1, 1).key));
  std::vector<uint64_t> order;
  while (KvIndex::Node* leaf = index.OldestLeaf()) {
    order.push_back(leaf->entry.key.hash.low);
    index.RemoveLeaf(*leaf);
    index.CheckIntegrity();
  }
  EXPECT_EQ(order, (std::vector<uint64_t>{3, 2, 1}));
}

TEST(KvIndex, AnEntryWithoutItsParentOrOfAWrongDepthHasNoPlace) {
  KvIndex index;
  index.Insert(Entry(1, 0, 0));
  EXPECT_FALSE(index.HasPlaceFor(Entry(5, 4, 1)));
  EXPECT_FALSE(index.HasPlaceFor(Entry(5, 1, 2)));
  EXPECT_FALSE(index.HasPlaceFor(Entry(5, 1, 0)));
  EXPECT_TRUE(index.HasPlaceFor(Entry(5, 1, 1)));
}

TEST(KvIndex, LoadingTakesAnyOrderAndNamesTheOrphans) {
  KvIndex index;
  std::vector<KvKey> orphans;
  index.Load({Entry(3, 2, 2), Entry(9, 8, 1), Entry(2, 1, 1), Entry(10, 9, 2), Entry(1, 0, 0)},
             orphans);
  EXPECT_EQ(index.num_records(), 3u);
  EXPECT_EQ(orphans.size(), 2u);
  index.CheckIntegrity();
}

TEST(KvIndex, RemovingABranchKeepsWhatOthersNeed) {
  KvIndex index;
  for (const auto& entry : {Entry(1, 0, 0), Entry(2, 1, 1), Entry(3, 2, 2), Entry(4, 1, 1)}) {
    index.Insert(entry);
  }
  std::vector<KvKey> removed;
  index.RemoveBranch(*index.Find(Entry(3, 2, 2).key), removed);
  EXPECT_EQ(removed.size(), 2u);
  EXPECT_NE(index.Find(Entry(1, 0, 0).key), nullptr);
  EXPECT_NE(index.Find(Entry(4, 1, 1).key), nullptr);
  index.CheckIntegrity();
}

TEST(KvIndex, RandomOperationsAgreeWithANaiveModel) {
  std::mt19937 random(7);
  KvIndex index;
  std::map<uint64_t, KvIndexEntry> model;
  uint64_t next_id = 1;
  for (int step = 0; step < 20'000; ++step) {
    auto pick = model.empty() ? model.end() : std::next(model.begin(), random() % model.size());
    const unsigned action = random() % 8;
    if (action < 4 && model.size() < 300) {
      const bool root = pick == model.end() || random() % 5 == 0;
      const auto entry =
          root ? Entry(next_id, 0, 0) : Entry(next_id, pick->first, pick->second.depth + 1);
      index.Touch(index.Insert(entry));
      model.emplace(next_id++, entry);
    } else if (pick == model.end()) {
      continue;
    } else if (action < 6) {
      index.Touch(*index.Find(pick->second.key));
    } else if (action == 6) {
      KvIndex::Node* leaf = index.OldestLeaf();
      const uint64_t id = leaf->entry.key.hash.low;
      ASSERT_TRUE(std::ranges::none_of(
          model, [&](const auto& other) { return other.second.parent.low == id; }));
      index.RemoveLeaf(*leaf);
      model.erase(id);
    } else {
      std::vector<KvKey> removed;
      index.RemoveSubtree(*index.Find(pick->second.key), removed);
      for (const KvKey& key : removed) ASSERT_EQ(model.erase(key.hash.low), 1u);
      ASSERT_TRUE(std::ranges::all_of(model, [&](const auto& other) {
        return other.second.depth == 0 || model.contains(other.second.parent.low);
      }));
    }
    ASSERT_EQ(index.num_records(), model.size());
    if (step % 100 == 0) index.CheckIntegrity();
  }
}

}  // namespace
}  // namespace kvgate::store
