#include "engine/tier/block_finder.h"

#include <gtest/gtest.h>

#include <atomic>

#include "tests/engine/memory_shared_store.h"
#include "tests/wait_until.h"

namespace kvgate::tier {
namespace {

using std::chrono::milliseconds;
using store::MemorySharedStore;
using store::SharedBlocks;

kv::BlockKey KeyOf(uint8_t number) {
  kv::BlockKey key{.hash = {.low = number, .high = 1}, .digest = {}};
  key.digest.bytes[0] = number;
  return key;
}

class BlockFinderTest : public testing::Test {
 protected:
  BlockFinderTest() {
    blocks_.blocks[{KeyOf(1).digest, 0}] = {};
    blocks_.blocks[{KeyOf(2).digest, 3}] = {};
  }
  BlockFinder::Options Options(bool is_driven = false) {
    return {.fingerprint = {}, .is_driven = is_driven, .on_answer = [this](uint64_t ticket) {
              last_answer_ = ticket;
            }};
  }
  store::kv::KvKey StoredKey(uint8_t number, uint32_t group) {
    return {.fingerprint = {}, .hash = kv::GroupHash(KeyOf(number).hash, group)};
  }

  SharedBlocks blocks_;
  MemorySharedStore store_{blocks_};
  std::atomic<uint64_t> last_answer_{0};
};

TEST_F(BlockFinderTest, TheStoreKnowsAfterTheAnswer) {
  BlockFinder finder(Options(), store_);
  EXPECT_EQ(finder.answer_seconds(), 0);
  const uint64_t ticket = finder.Ask({{KeyOf(1)}, {KeyOf(2)}, {KeyOf(2), 3}}, milliseconds(500));
  ASSERT_TRUE(test::WaitUntil([&] { return last_answer_ == ticket; }, "the answer"));
  EXPECT_TRUE(store_.Contains(StoredKey(1, 0)));
  EXPECT_FALSE(store_.Contains(StoredKey(2, 0)));
  EXPECT_TRUE(store_.Contains(StoredKey(2, 3)));
  EXPECT_GT(finder.answer_seconds(), 0);
}

TEST_F(BlockFinderTest, AStoreThatHangsIsAnsweredForWithinTheLimit) {
  store_.hangs = true;
  BlockFinder finder(Options(), store_);
  const auto began = std::chrono::steady_clock::now();
  uint64_t last = 0;
  for (int i = 0; i < 8; ++i) last = finder.Ask({{KeyOf(1)}}, milliseconds(50));
  ASSERT_TRUE(test::WaitUntil([&] { return last_answer_ == last; }, "the last answer"));
  EXPECT_LT(std::chrono::steady_clock::now() - began, std::chrono::seconds(5));
  // Those that had waited behind the first one for as long were not asked.
  EXPECT_EQ(store_.num_look_ups, 1);
  EXPECT_FALSE(store_.Contains(StoredKey(1, 0)));
  EXPECT_EQ(finder.answer_seconds(), 0);
}

TEST_F(BlockFinderTest, WhatIsLeftAtTheEndIsAnswered) {
  uint64_t last = 0;
  {
    BlockFinder finder(Options(true), store_);
    finder.Ask({{KeyOf(1)}}, milliseconds(500));
    last = finder.Ask({{KeyOf(2), 3}}, milliseconds(500));
    const auto first = finder.Take();
    ASSERT_TRUE(first);
    finder.Perform(*first);
    EXPECT_EQ(last_answer_, first->ticket);
  }
  EXPECT_EQ(last_answer_, last);
}

}  // namespace
}  // namespace kvgate::tier
