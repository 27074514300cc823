#include "store/kv/kv_index.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>

namespace kvgate::store::kv {
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

KvIndexEntry WindowOf(uint64_t id, uint64_t block, uint32_t block_depth) {
  KvIndexEntry entry = Entry(id, block, block_depth + 1);
  entry.group = 1;
  return entry;
}

TEST(KvIndex, AWindowHangsFromItsBlockAndIsNoPrefix) {
  KvIndex index;
  for (const auto& entry :
       {Entry(1, 0, 0), Entry(2, 1, 1), WindowOf(101, 1, 0), WindowOf(102, 2, 1), Entry(3, 1, 1)}) {
    ASSERT_TRUE(index.HasPlaceFor(entry));
    index.Touch(index.Insert(entry));
  }
  EXPECT_FALSE(index.HasPlaceFor(Entry(5, 102, 3)));  // a window cannot be a parent
  EXPECT_EQ(index.WindowKeys(*index.Find(Entry(2, 1, 1).key)),
            std::vector<KvKey>{WindowOf(102, 2, 1).key});
  const std::vector<KvPrefix> prefixes = index.ListPrefixes();
  ASSERT_EQ(prefixes.size(), 2u);
  EXPECT_EQ(prefixes[0].leaf, Entry(3, 1, 1).key);
  EXPECT_EQ(prefixes[0].payload_bytes, 13u + 11 + 111);
  EXPECT_EQ(prefixes[1].leaf, Entry(2, 1, 1).key);
  EXPECT_EQ(prefixes[1].payload_bytes, 12u + 112 + 11 + 111);
  EXPECT_EQ(index.FindByHash(BlockHash{102, 0}), nullptr);
  ASSERT_EQ(index.FindLeaves(BlockHash{2, 0}).size(), 1u);
  EXPECT_TRUE(index.FindLeaves(BlockHash{1, 0}).empty());
  std::vector<KvKey> removed;
  index.RemoveBranch(*index.Find(Entry(2, 1, 1).key), removed);
  EXPECT_EQ(removed.size(), 2u);  // the block and its window; another prefix needs the first window
  EXPECT_NE(index.Find(WindowOf(101, 1, 0).key), nullptr);
  index.CheckIntegrity();
  index.RemoveBranch(*index.Find(Entry(3, 1, 1).key), removed);
  EXPECT_EQ(index.num_records(), 0u);
}

TEST(KvIndex, WindowsArePinnedWithTheirBlockAndElseGoBeforeIt) {
  KvIndex index;
  index.Insert(Entry(1, 0, 0));
  index.Insert(Entry(2, 1, 1));
  index.Insert(WindowOf(101, 1, 0));
  index.Touch(index.Insert(Entry(3, 1, 1)));
  index.Touch(index.Insert(WindowOf(103, 3, 1)));
  const uint64_t bytes = 11 + 12 + 111 + 3 * kKvOverheadBytes;
  EXPECT_EQ(index.BytesToPin(*index.Find(Entry(2, 1, 1).key)), bytes);
  index.SetPinned(*index.Find(Entry(2, 1, 1).key), true);
  EXPECT_EQ(index.pinned_bytes(), bytes);
  index.Touch(index.Insert(WindowOf(102, 2, 1)));  // a window that is inserted later is pinned, too
  EXPECT_EQ(index.pinned_bytes(), bytes + 112 + kKvOverheadBytes);
  index.CheckIntegrity();
  std::vector<uint64_t> order;
  while (KvIndex::Node* leaf = index.OldestLeaf()) {
    order.push_back(leaf->entry.key.hash.low);
    index.RemoveLeaf(*leaf);
    index.CheckIntegrity();
  }
  EXPECT_EQ(order, (std::vector<uint64_t>{103, 3}));
  index.SetPinned(*index.Find(Entry(2, 1, 1).key), false);
  EXPECT_EQ(index.pinned_bytes(), 0u);
  index.CheckIntegrity();
  EXPECT_NE(index.OldestLeaf(), nullptr);
}

std::vector<KvKey> Keys(std::vector<uint64_t> ids) {
  std::vector<KvKey> keys;
  for (const uint64_t id : ids) keys.push_back({Fingerprint{1, 1}, BlockHash{id, 0}});
  return keys;
}

KvPrefix PrefixOf(const KvIndex& index, uint64_t leaf) {
  for (const KvPrefix& prefix : index.ListPrefixes()) {
    if (prefix.leaf.hash.low == leaf) return prefix;
  }
  ADD_FAILURE() << "no prefix " << leaf;
  return {};
}

KvUse HitOf(uint64_t num_tokens) {
  return {.num_hits = 1, .num_tokens = num_tokens, .compute_us = 10 * num_tokens};
}

TEST(KvIndex, AHitCountsForThePrefixThatAloneHasTheLastBlockThatWasRead) {
  KvIndex index;
  for (const auto& entry : {Entry(1, 0, 0), Entry(2, 1, 1), Entry(3, 2, 2)}) index.Insert(entry);
  index.CountHits(Keys({1, 2}), HitOf(64));
  index.CountHits(Keys({1, 2, 3}), HitOf(96));
  index.CountHits({}, HitOf(0));
  EXPECT_EQ(PrefixOf(index, 3).use.num_hits, 2u) << "all blocks are its own";
  EXPECT_EQ(PrefixOf(index, 3).use.num_tokens, 160u);
  EXPECT_EQ(PrefixOf(index, 3).first.low, 1u);
  index.Insert(Entry(4, 2, 2));                     // from now on it shares blocks 1 and 2
  index.CountHits(Keys({1, 2, 4, 9}), HitOf(128));  // block 9 is in memory alone
  EXPECT_EQ(PrefixOf(index, 3).use.num_hits, 1u);
  EXPECT_EQ(PrefixOf(index, 3).num_shared_hits, 1u);
  EXPECT_EQ(PrefixOf(index, 4).use.num_hits, 1u);
  EXPECT_EQ(PrefixOf(index, 4).use.compute_us, 1280u);
  index.Insert(Entry(9, 4, 3));
  EXPECT_EQ(PrefixOf(index, 9).use.num_hits, 1u);
  index.RemoveLeaf(*index.Find(Entry(9, 4, 3).key));
  EXPECT_EQ(PrefixOf(index, 4).use.num_hits, 0u) << "counts go with their block";
  index.CheckIntegrity();
}

TEST(KvIndex, APinnedPrefixHasTheHitsBehindItForItsShare) {
  KvIndex index;
  for (const auto& entry : {Entry(1, 0, 0), Entry(2, 1, 1), Entry(3, 2, 2), Entry(4, 3, 3)}) {
    index.Insert(entry);
  }
  index.SetPinned(*index.Find(Entry(2, 1, 1).key), true);
  index.CountHits(Keys({1, 2, 3, 4}), HitOf(128));
  index.CountHits(Keys({1, 2}), HitOf(64));
  EXPECT_EQ(PrefixOf(index, 2).use.num_hits, 2u);
  EXPECT_EQ(PrefixOf(index, 2).use.num_tokens, 128u);
  EXPECT_EQ(PrefixOf(index, 2).use.compute_us, 1280u);
  EXPECT_EQ(PrefixOf(index, 4).use.num_hits, 1u);
  EXPECT_EQ(PrefixOf(index, 4).use.num_tokens, 128u);
  EXPECT_EQ(PrefixOf(index, 4).num_shared_hits, 1u);
}

TEST(KvIndex, LoadingAnewKeepsTheHitsOfWhatIsStillThere) {
  KvIndex index;
  for (const auto& entry : {Entry(1, 0, 0), Entry(2, 1, 1), Entry(3, 1, 1)}) index.Insert(entry);
  index.CountHits(Keys({1, 2}), HitOf(64));
  index.CountHits(Keys({1, 3}), HitOf(64));
  std::vector<KvKey> orphans;
  index.Load({Entry(2, 1, 1), Entry(1, 0, 0)}, orphans);
  index.CheckIntegrity();
  EXPECT_EQ(PrefixOf(index, 2).use.num_hits, 1u);
  EXPECT_EQ(index.num_records(), 2u);
  index.Insert(Entry(3, 1, 1));
  EXPECT_EQ(PrefixOf(index, 3).use.num_hits, 0u);
  index.Clear();
  index.Insert(Entry(1, 0, 0));
  EXPECT_EQ(PrefixOf(index, 1).use.num_hits, 0u);
}

TEST(KvIndex, KeepsItsBooksOverRandomTreesWithWindowsAndPins) {
  std::mt19937_64 random(4);
  KvIndex index;
  uint64_t next_id = 1;
  for (int step = 0; step < 4000; ++step) {
    const std::vector<KvKey> keys = index.Keys();
    KvIndex::Node* const node = keys.empty() ? nullptr : index.Find(keys[random() % keys.size()]);
    const bool is_block = node != nullptr && node->entry.group == 0;
    std::vector<KvKey> removed;
    switch (random() % 8) {
      case 0:
        index.Touch(index.Insert(Entry(next_id++, 0, 0)));
        break;
      case 1:
      case 2:
        if (!is_block) break;
        index.Touch(
            index.Insert(Entry(next_id++, node->entry.key.hash.low, node->entry.depth + 1)));
        break;
      case 3:
      case 4:
        if (!is_block) break;
        index.Touch(index.Insert(WindowOf(next_id++, node->entry.key.hash.low, node->entry.depth)));
        break;
      case 5:
        if (is_block) index.SetPinned(*node, random() % 2 == 0);
        break;
      case 6:
        if (is_block && random() % 4 == 0) index.RemoveSubtree(*node, removed);
        break;
      default:
        if (KvIndex::Node* const oldest = index.OldestLeaf(); oldest != nullptr) {
          EXPECT_TRUE(oldest->num_pins == 0);
          EXPECT_TRUE(oldest->entry.group == 0 || oldest->parent->num_pins == 0);
          index.RemoveLeaf(*oldest);
        }
    }
    index.CheckIntegrity();
  }
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

TEST(KvIndex, APinnedLeafAndWhatItHangsFromAreNeverOffered) {
  KvIndex index;
  for (const auto& entry : {Entry(1, 0, 0), Entry(2, 1, 1), Entry(3, 2, 2), Entry(4, 1, 1)}) {
    index.Touch(index.Insert(entry));
  }
  KvIndex::Node& middle = *index.Find(Entry(2, 1, 1).key);
  EXPECT_EQ(index.BytesToPin(middle), 11 + 12 + 2 * kKvOverheadBytes);
  index.SetPinned(middle, true);
  EXPECT_EQ(index.pinned_bytes(), 11 + 12 + 2 * kKvOverheadBytes);
  EXPECT_EQ(index.BytesToPin(*index.Find(Entry(4, 1, 1).key)), 14 + kKvOverheadBytes);
  std::vector<uint64_t> order;
  while (KvIndex::Node* leaf = index.OldestLeaf()) {
    order.push_back(leaf->entry.key.hash.low);
    index.RemoveLeaf(*leaf);
    index.CheckIntegrity();
  }
  EXPECT_EQ(order, (std::vector<uint64_t>{3, 4}));
  index.SetPinned(middle, false);
  EXPECT_EQ(index.OldestLeaf(), &middle);
  EXPECT_EQ(index.pinned_bytes(), 0u);
}

TEST(KvIndex, APinnedBlockThatOthersGoOnFromIsListedToo) {
  KvIndex index;
  for (const auto& entry : {Entry(1, 0, 0), Entry(2, 1, 1), Entry(3, 2, 2), Entry(4, 2, 2)}) {
    index.Touch(index.Insert(entry));
  }
  index.SetPinned(*index.Find(Entry(1, 0, 0).key), true);
  const std::vector<KvPrefix> listed = index.ListPrefixes();
  ASSERT_EQ(listed.size(), 3u);
  EXPECT_EQ(listed[0].leaf.hash.low, 4u);
  EXPECT_EQ(listed[2].leaf.hash.low, 1u);
  EXPECT_TRUE(listed[2].pinned);
  EXPECT_FALSE(listed[0].pinned);
}

// The naive model: a map of entries, and a set of pinned ids.
struct NaiveIndex {
  std::map<uint64_t, KvIndexEntry> entries;
  std::set<uint64_t> pins;

  bool HasChild(uint64_t id) const {
    return std::ranges::any_of(entries, [&](const auto& at) { return at.second.parent.low == id; });
  }
  // Returns every entry that is pinned or an ancestor of a pinned one.
  std::set<uint64_t> Pinned() const {
    std::set<uint64_t> ids;
    for (uint64_t id : pins) {
      for (; id != 0; id = entries.at(id).parent.low) ids.insert(id);
    }
    return ids;
  }
  void Erase(uint64_t id) {
    entries.erase(id);
    pins.erase(id);
  }
};

TEST(KvIndex, RandomOperationsAgreeWithANaiveModel) {
  std::mt19937 random(7);
  KvIndex index;
  NaiveIndex model;
  uint64_t next_id = 1;
  for (int step = 0; step < 100'000; ++step) {
    const bool empty = model.entries.empty();
    auto pick = empty ? model.entries.end()
                      : std::next(model.entries.begin(), random() % model.entries.size());
    const unsigned action = random() % 10;
    if (action < 4 && model.entries.size() < 150) {
      const bool root = empty || random() % 5 == 0;
      const auto entry =
          root ? Entry(next_id, 0, 0) : Entry(next_id, pick->first, pick->second.depth + 1);
      index.Touch(index.Insert(entry));
      model.entries.emplace(next_id++, entry);
    } else if (empty) {
      continue;
    } else if (action < 6) {
      index.Touch(*index.Find(pick->second.key));
    } else if (action == 6) {
      const std::set<uint64_t> safe = model.Pinned();
      KvIndex::Node* leaf = index.OldestLeaf();
      if (leaf == nullptr) {
        ASSERT_TRUE(std::ranges::all_of(model.entries, [&](const auto& at) {
          return safe.contains(at.first) || model.HasChild(at.first);
        }));
        continue;
      }
      const uint64_t id = leaf->entry.key.hash.low;
      ASSERT_FALSE(model.HasChild(id));
      ASSERT_FALSE(safe.contains(id)) << "a pinned block is offered for eviction";
      index.RemoveLeaf(*leaf);
      model.Erase(id);
    } else if (action == 7) {
      if (model.HasChild(pick->first) && random() % 4 != 0) continue;  // else few remain
      std::vector<KvKey> removed;
      index.RemoveSubtree(*index.Find(pick->second.key), removed);
      for (const KvKey& key : removed) {
        ASSERT_TRUE(model.entries.contains(key.hash.low));
        model.Erase(key.hash.low);
      }
    } else {
      const bool pin = action == 8 && model.pins.size() < 20;
      index.SetPinned(*index.Find(pick->second.key), pin);
      pin ? (void)model.pins.insert(pick->first) : (void)model.pins.erase(pick->first);
    }
    ASSERT_EQ(index.num_records(), model.entries.size());
    if (step % 100 != 0) continue;
    index.CheckIntegrity();
    uint64_t bytes = 0;
    for (const uint64_t id : model.Pinned()) bytes += 10 + id + kKvOverheadBytes;
    ASSERT_EQ(index.pinned_bytes(), bytes);
  }
}

}  // namespace
}  // namespace kvgate::store::kv
