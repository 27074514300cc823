#include "engine/kv/block_pool.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <tuple>

namespace kvgate::kv {
namespace {

TEST(BlockPoolTest, AcquireIsAllOrNothing) {
  BlockPool pool({.num_blocks = 4});
  auto three = pool.Acquire(3);
  ASSERT_TRUE(three.has_value());
  EXPECT_FALSE(pool.Acquire(2).has_value());
  EXPECT_EQ(pool.num_free(), 1u);
  EXPECT_TRUE(pool.Acquire(1).has_value());
  EXPECT_EQ(pool.num_free(), 1u);
  pool.CheckIntegrity();
}

TEST(BlockPoolTest, AChainReleasedLastToFirstIsEvictedLeafFirst) {
  BlockPool pool({.num_blocks = 3});
  auto chain = *pool.Acquire(3);
  std::vector<BlockId> ids;
  for (const BlockRef& block : chain) {
    ids.push_back(block.id());
    pool.MarkCached(block.id());
  }
  ReleaseLastToFirst(chain);
  std::ranges::reverse(ids);
  EXPECT_EQ(pool.EvictionOrder(), ids);
  const auto one = pool.Acquire(1);
  EXPECT_EQ(one->front().id(), ids.front());
}

TEST(BlockPoolTest, ASharedBlockLeavesTheLineAndReturnsAsTheNewest) {
  BlockPool pool({.num_blocks = 2});
  auto blocks = *pool.Acquire(2);
  const BlockId first = blocks[0].id();
  const BlockId second = blocks[1].id();
  pool.MarkCached(first);
  pool.MarkCached(second);
  blocks.erase(blocks.begin());
  blocks.clear();
  EXPECT_EQ(pool.EvictionOrder(), (std::vector<BlockId>{first, second}));
  { const BlockRef hit = pool.Share(first); }
  EXPECT_EQ(pool.EvictionOrder(), (std::vector<BlockId>{second, first}));
}

TEST(BlockPoolDeathTest, MisuseEndsTheProcess) {
  EXPECT_DEATH(
      {
        BlockPool pool({.num_blocks = 2});
        (void)pool.Share(BlockId{0});
      },
      "free block is shared");
  EXPECT_DEATH(
      {
        std::optional<std::vector<BlockRef>> kept;
        BlockPool pool({.num_blocks = 2});
        kept = pool.Acquire(1);
      },
      "outlives its pool");
}

TEST(BlockPoolTest, WhatSeveralRequestsNeededOutlivesAFloodOfWhatOneNeeded) {
  BlockPool pool({.num_blocks = 8});
  auto shared = *pool.Acquire(1);
  const BlockId id = shared.front().id();
  pool.MarkCached(id);
  for (int use = 0; use < 3; ++use) pool.CountUse(id);
  shared.clear();
  int num_flooded = 0;
  while (true) {
    const auto one = *pool.Acquire(1);
    if (one.front().id() == id) break;
    pool.MarkCached(one.front().id());
    ASSERT_LT(++num_flooded, 100) << "it never ages out";
  }
  // The block outlives three turnovers of the other seven; LRU would have evicted it in the first.
  EXPECT_GT(num_flooded, 3 * 7 - 1);
}

TEST(BlockPoolTest, AnImportantBlockGoesAfterAllOthers) {
  BlockPool pool({.num_blocks = 3});
  auto blocks = *pool.Acquire(3);
  for (const BlockRef& block : blocks) pool.MarkCached(block.id());
  const BlockId first = blocks[0].id();
  pool.SetPriority(first, 5);
  blocks.clear();
  EXPECT_EQ(pool.EvictionOrder().back(), first);
  auto two = *pool.Acquire(2);
  EXPECT_TRUE(pool.is_marked(first));
  auto third = *pool.Acquire(1);
  EXPECT_EQ(third.front().id(), first) << "a priority is an order, not a promise";
}

TEST(BlockPoolTest, AnOwnerOverItsShareEvictsItsOwn) {
  BlockPool pool({.num_blocks = 8, .owner_blocks_max = 4});
  std::vector<BlockId> quiet;
  for (int i = 0; i < 4; ++i) {
    const auto one = *pool.Acquire(1, 1);
    pool.MarkCached(one.front().id());
    quiet.push_back(one.front().id());
  }
  for (int i = 0; i < 50; ++i) {
    const auto one = *pool.Acquire(1, 2);
    pool.MarkCached(one.front().id());
  }
  EXPECT_EQ(pool.num_held_by(2), 4u);
  for (const BlockId id : quiet) EXPECT_TRUE(pool.is_marked(id)) << "evicted by another tenant";
}

// NaivePool is a naive model of the same contract: every block's state is in plain fields, every
// choice a search.
class NaivePool {
 public:
  NaivePool(uint32_t count, uint32_t share) : blocks_(count), share_(share) {}
  uint32_t num_available() const {
    return static_cast<uint32_t>(std::ranges::count(blocks_, 0, &Block::references));
  }
  void OnAcquired(uint32_t index, uint32_t owner) {
    Block& block = blocks_[index];
    EXPECT_EQ(block.references, 0);
    if (block.marked) {
      EXPECT_TRUE(std::ranges::none_of(blocks_, [](const Block& b) {
        return b.references == 0 && !b.marked;
      })) << "a free block was passed over";
      EXPECT_EQ(Victim(owner), index);
      if (block.priority == 0) clock_ = std::max(clock_, block.worth);
    }
    block = {.references = 1, .owner = owner};
  }
  bool CanShare(uint32_t index) const {
    return blocks_[index].references > 0 || blocks_[index].marked;
  }
  void Share(uint32_t index) { ++blocks_[index].references; }
  void Mark(uint32_t index) { blocks_[index].marked = true; }
  void Unmark(uint32_t index) {
    blocks_[index].marked = false;
    if (blocks_[index].references == 0) blocks_[index] = {};
  }
  void Use(uint32_t index) { blocks_[index].uses = std::min(blocks_[index].uses + 1, 3u); }
  void Prioritise(uint32_t index, int priority) { blocks_[index].priority = priority; }
  void Release(uint32_t index) {
    Block& block = blocks_[index];
    if (--block.references > 0) return;
    if (!block.marked) {
      block = {};
      return;
    }
    block.worth = clock_ + block.uses;
    block.order = ++order_;
  }
  std::vector<BlockId> EvictionQueue() const {
    std::vector<uint32_t> cached;
    for (uint32_t i = 0; i < blocks_.size(); ++i) {
      if (blocks_[i].references == 0 && blocks_[i].marked) cached.push_back(i);
    }
    std::ranges::sort(cached, {}, [this](uint32_t i) {
      return std::tuple(blocks_[i].priority, blocks_[i].worth, blocks_[i].order);
    });
    std::vector<BlockId> line;
    for (const uint32_t i : cached) line.push_back(BlockId{i});
    return line;
  }

 private:
  struct Block {
    int references = 0;
    uint32_t owner = 0;
    bool marked = false;
    uint32_t uses = 1;
    int priority = 0;
    uint64_t worth = 0;
    uint64_t order = 0;
  };
  uint32_t Victim(uint32_t owner) const {
    const auto held = std::ranges::count_if(blocks_, [&](const Block& block) {
      return block.owner == owner && (block.references > 0 || block.marked);
    });
    const std::vector<BlockId> line = EvictionQueue();
    if (held >= share_) {
      for (const BlockId id : line) {
        if (blocks_[id.value].owner == owner) return id.value;
      }
    }
    return line.front().value;
  }
  std::vector<Block> blocks_;
  uint32_t share_;
  uint64_t clock_ = 0;
  uint64_t order_ = 0;
};

TEST(BlockPoolTest, AgreesWithANaiveModelOverRandomOperations) {
  constexpr uint32_t kBlocks = 13;
  constexpr uint32_t kShare = 6;
  std::mt19937 random(17);
  BlockPool pool({.num_blocks = kBlocks, .uses_max = 3, .owner_blocks_max = kShare});
  NaivePool naive(kBlocks, kShare);
  std::vector<BlockRef> held;
  for (int operation = 0; operation < 100000; ++operation) {
    const uint32_t index = random() % kBlocks;
    const BlockId id{index};
    switch (random() % 7) {
      case 0: {
        const uint32_t count = random() % 2 == 0 ? 1 : 0;
        const uint32_t owner = random() % 3;
        auto acquired = pool.Acquire(count, owner);
        ASSERT_EQ(acquired.has_value(), count <= naive.num_available());
        if (!acquired) break;
        for (BlockRef& block : *acquired) {
          naive.OnAcquired(block.id().value, owner);
          held.push_back(std::move(block));
        }
        break;
      }
      case 1:
        if (!naive.CanShare(index)) break;
        naive.Share(index);
        held.push_back(pool.Share(id));
        break;
      case 2:
        if (pool.num_references(id) == 0) break;
        naive.Mark(index);
        pool.MarkCached(id);
        break;
      case 3:
        if (random() % 8 != 0 || !pool.is_marked(id)) break;
        naive.Unmark(index);
        pool.UnmarkCached(id);
        break;
      case 4:
        if (pool.num_references(id) == 0) break;
        naive.Use(index);
        pool.CountUse(id);
        break;
      case 5: {
        if (pool.num_references(id) == 0 && !pool.is_marked(id)) break;
        const int priority = random() % 4 == 0 ? 1 : 0;
        naive.Prioritise(index, priority);
        pool.SetPriority(id, priority);
        break;
      }
      default:
        if (held.empty()) break;
        std::swap(held[random() % held.size()], held.back());
        naive.Release(held.back().id().value);
        held.pop_back();
    }
    if (operation % 64 == 0) pool.CheckIntegrity();
    ASSERT_EQ(pool.EvictionOrder(), naive.EvictionQueue()) << "after operation " << operation;
  }
  held.clear();
}

}  // namespace
}  // namespace kvgate::kv
