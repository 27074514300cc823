#include "engine/kv/window_cache.h"

#include <gtest/gtest.h>

#include <map>
#include <random>

namespace kvgate::kv {
namespace {

BlockKey KeyOf(uint64_t hash, uint64_t prefix = 0) {
  BlockKey key{.hash = {.low = hash, .high = 0}, .digest = {}};
  key.digest.bytes[0] = static_cast<uint8_t>(prefix);
  key.digest.bytes[1] = static_cast<uint8_t>(hash);
  return key;
}

class WindowCacheTest : public testing::Test {
 protected:
  BlockRef Acquire() { return std::move(pool_.Acquire(1)->front()); }
  // Caches a block under the key and releases it.
  void Put(const BlockKey& key) {
    const BlockRef block = Acquire();
    EXPECT_EQ(cache_.Insert(key, block.id()), block.id());
  }

  BlockPool pool_{{.num_blocks = 4}};
  WindowCache cache_{pool_};
};

TEST(WindowTailBlocksTest, ATokenAtTheBeginningOfABlockSeesSoManyBefore) {
  EXPECT_EQ(WindowTailBlocks(1), 0);
  EXPECT_EQ(WindowTailBlocks(2), 1);
  EXPECT_EQ(WindowTailBlocks(33), 1);
  EXPECT_EQ(WindowTailBlocks(34), 2);
  EXPECT_EQ(WindowTailBlocks(512), 16);
  EXPECT_EQ(WindowTailBlocks(513), 16);
}

TEST_F(WindowCacheTest, ABlockIsFoundByItsHashAndProvedByItsDigest) {
  Put(KeyOf(1));
  EXPECT_TRUE(cache_.Contains(KeyOf(1)));
  EXPECT_TRUE(cache_.Find(KeyOf(1)));
  EXPECT_FALSE(cache_.Contains(KeyOf(1, 9)));
  EXPECT_FALSE(cache_.Find(KeyOf(1, 9)));
  EXPECT_FALSE(cache_.Find(KeyOf(2)));
}

TEST_F(WindowCacheTest, TheSameContentIsKeptOnceAndAnothersHashIsNotTaken) {
  const BlockRef first = Acquire();
  const BlockRef second = Acquire();
  cache_.Insert(KeyOf(1), first.id());
  EXPECT_EQ(cache_.Insert(KeyOf(1), second.id()), first.id());
  EXPECT_EQ(cache_.Insert(KeyOf(1, 9), second.id()), second.id());
  EXPECT_FALSE(pool_.is_marked(second.id()));
  EXPECT_EQ(cache_.num_digest_mismatches(), 1u);
}

TEST_F(WindowCacheTest, ExpendableBlocksGoFirstOldestFirstAndWithoutACopy) {
  std::vector<uint64_t> demoted;
  cache_.SetDemote([&](const BlockKey& key, BlockId, int) { demoted.push_back(key.hash.low); });
  for (uint64_t hash = 1; hash <= 4; ++hash) Put(KeyOf(hash));
  for (const uint64_t hash : {3, 2}) cache_.MakeExpendable(cache_.Find(KeyOf(hash)).id());
  const auto blocks = pool_.Acquire(2);
  EXPECT_FALSE(cache_.Contains(KeyOf(2)));
  EXPECT_FALSE(cache_.Contains(KeyOf(3)));
  EXPECT_TRUE(demoted.empty());
  const auto more = pool_.Acquire(1);
  EXPECT_FALSE(cache_.Contains(KeyOf(1)));
  EXPECT_EQ(demoted, std::vector<uint64_t>{1});
}

TEST_F(WindowCacheTest, WhatIsAskedForAgainIsNoLongerExpendable) {
  for (uint64_t hash = 1; hash <= 4; ++hash) Put(KeyOf(hash));
  cache_.MakeExpendable(cache_.Find(KeyOf(4)).id());
  (void)cache_.Find(KeyOf(4));
  const auto blocks = pool_.Acquire(3);
  EXPECT_TRUE(cache_.Contains(KeyOf(4)));
}

TEST_F(WindowCacheTest, AnImportantBlockOutlivesTheOthersAndIsNotExpendable) {
  cache_.SetPriorities({{KeyOf(1).hash, 2}});
  for (uint64_t hash = 1; hash <= 4; ++hash) Put(KeyOf(hash));
  cache_.MakeExpendable(cache_.Find(KeyOf(1)).id());
  cache_.MakeExpendable(cache_.Find(KeyOf(2)).id());
  {
    const auto blocks = pool_.Acquire(3);
    EXPECT_TRUE(cache_.Contains(KeyOf(1)));
  }
  cache_.SetPriorities({});
  EXPECT_EQ(pool_.priority(cache_.Find(KeyOf(1)).id()), 0);
}

TEST_F(WindowCacheTest, ClearKeepsWhatIsReferenced) {
  Put(KeyOf(1));
  Put(KeyOf(2));
  const BlockRef held = cache_.Find(KeyOf(1));
  cache_.Clear();
  EXPECT_TRUE(cache_.Contains(KeyOf(1)));
  EXPECT_FALSE(cache_.Contains(KeyOf(2)));
  cache_.CheckIntegrity();
}

// The test compares the cache with a map of what must and what may be there; hashes of three bits
// collide all the time.
TEST(WindowCacheRandomTest, WhatIsFoundIsWhatWasPut) {
  std::mt19937 random(5);
  for (int round = 0; round < 20; ++round) {
    BlockPool pool({.num_blocks = 6});
    WindowCache cache(pool);
    std::map<uint32_t, BlockKey> content;  // indexed by block: every key that was inserted
    std::vector<std::pair<BlockKey, BlockRef>> held;
    for (int step = 0; step < 2000; ++step) {
      const BlockKey key = KeyOf(random() % 8, random() % 3);
      switch (random() % 5) {
        case 0:
        case 1:
          if (auto fresh = pool.Acquire(1)) {
            content.erase(fresh->front().id().value);
            const BlockId holder = cache.Insert(key, fresh->front().id());
            if (holder == fresh->front().id()) {
              if (pool.is_marked(holder)) content[holder.value] = key;
              held.emplace_back(key, std::move(fresh->front()));
            } else {
              EXPECT_EQ(content.at(holder.value), key);
            }
          }
          break;
        case 2:
          if (BlockRef found = cache.Find(key)) {
            EXPECT_EQ(content.at(found.id().value), key);
            held.emplace_back(key, std::move(found));
          }
          break;
        case 3:
          if (!held.empty()) cache.MakeExpendable(held.back().second.id());
          break;
        default:
          if (!held.empty()) held.erase(held.begin() + static_cast<long>(random() % held.size()));
      }
      for (const auto& [hash, block] : held) {
        EXPECT_TRUE(!pool.is_marked(block.id()) || cache.Contains(hash));
      }
      cache.CheckIntegrity();
      pool.CheckIntegrity();
    }
    held.clear();
  }
}

}  // namespace
}  // namespace kvgate::kv
