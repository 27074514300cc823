#include "engine/kv/block_pool.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <list>
#include <random>
#include <set>

namespace kvgate::kv {
namespace {

TEST(BlockPoolTest, AcquireIsAllOrNothing) {
  BlockPool pool(4);
  auto three = pool.Acquire(3);
  ASSERT_TRUE(three.has_value());
  EXPECT_FALSE(pool.Acquire(2).has_value());
  EXPECT_EQ(pool.num_free(), 1u);
  EXPECT_TRUE(pool.Acquire(1).has_value());
  EXPECT_EQ(pool.num_free(), 1u);
  pool.CheckIntegrity();
}

TEST(BlockPoolTest, AChainReleasedLastToFirstIsEvictedLeafFirst) {
  BlockPool pool(3);
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
  BlockPool pool(2);
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
        BlockPool pool(2);
        (void)pool.Share(BlockId{0});
      },
      "free block is shared");
  EXPECT_DEATH(
      {
        std::optional<std::vector<BlockRef>> kept;
        BlockPool pool(2);
        kept = pool.Acquire(1);
      },
      "outlives its pool");
}

// A naive model of the same contract: sets and a list.
class NaivePool {
 public:
  explicit NaivePool(uint32_t count) : references_(count, 0), marked_(count, false) {}
  uint32_t num_available() const {
    uint32_t count = 0;
    for (const int references : references_) count += references == 0;
    return count;
  }
  void OnAcquired(uint32_t index) {
    EXPECT_EQ(references_[index], 0);
    if (marked_[index]) {
      // Only when nothing is free, and then the oldest.
      for (size_t i = 0; i < references_.size(); ++i) {
        EXPECT_FALSE(references_[i] == 0 && !marked_[i]) << "a free block was passed over";
      }
      EXPECT_EQ(line_.front(), index);
      line_.pop_front();
      marked_[index] = false;
    }
    references_[index] = 1;
  }
  bool CanShare(uint32_t index) const { return references_[index] > 0 || marked_[index]; }
  void Share(uint32_t index) {
    if (references_[index]++ == 0) line_.remove(index);
  }
  void Mark(uint32_t index) { marked_[index] = true; }
  void Unmark(uint32_t index) {
    if (marked_[index] && references_[index] == 0) line_.remove(index);
    marked_[index] = false;
  }
  void Release(uint32_t index) {
    if (--references_[index] == 0 && marked_[index]) line_.push_back(index);
  }
  const std::list<uint32_t>& line() const { return line_; }

 private:
  std::vector<int> references_;
  std::vector<bool> marked_;
  std::list<uint32_t> line_;
};

TEST(BlockPoolTest, AgreesWithANaiveModelOverRandomOperations) {
  constexpr uint32_t kBlocks = 13;
  std::mt19937 random(17);
  BlockPool pool(kBlocks);
  NaivePool naive(kBlocks);
  std::vector<BlockRef> held;
  for (int operation = 0; operation < 100000; ++operation) {
    const uint32_t index = random() % kBlocks;
    switch (random() % 5) {
      case 0: {
        const uint32_t count = random() % 4;
        auto acquired = pool.Acquire(count);
        ASSERT_EQ(acquired.has_value(), count <= naive.num_available());
        if (!acquired) break;
        for (BlockRef& block : *acquired) {
          naive.OnAcquired(block.id().value);
          held.push_back(std::move(block));
        }
        break;
      }
      case 1:
        if (!naive.CanShare(index)) break;
        naive.Share(index);
        held.push_back(pool.Share(BlockId{index}));
        break;
      case 2:
        if (pool.num_references(BlockId{index}) == 0) break;
        naive.Mark(index);
        pool.MarkCached(BlockId{index});
        break;
      case 3:
        if (random() % 8 != 0) break;
        naive.Unmark(index);
        pool.UnmarkCached(BlockId{index});
        break;
      default:
        if (held.empty()) break;
        std::swap(held[random() % held.size()], held.back());
        naive.Release(held.back().id().value);
        held.pop_back();
    }
    if (operation % 64 == 0) pool.CheckIntegrity();
    std::vector<BlockId> line;
    for (const uint32_t id : naive.line()) line.push_back(BlockId{id});
    ASSERT_EQ(pool.EvictionOrder(), line) << "after operation " << operation;
  }
  held.clear();
}

}  // namespace
}  // namespace kvgate::kv
