#include "engine/schedule/unstored_blocks.h"

#include "tests/engine/memory_kv_store.h"
#include "tests/engine/schedule/computed_sequences.h"

namespace kvgate::schedule {
namespace {

class UnstoredBlocksTest : public ComputedSequences {
 protected:
  // The tier is driven, so that a test says when a write ends.
  void MakeTier() {
    std::vector<tier::GroupArena> arenas;
    for (const auto& group : groups_.all()) {
      arenas.push_back({.arena = &group->arena(), .shape_tag = group->index()});
    }
    tier_ = std::make_unique<tier::StoreTier>(
        tier::StoreTier::Options{.fingerprint = {},
                                 .groups = arenas,
                                 .is_driven = true,
                                 .on_completion = [](tier::Completion) {}},
        store_, *backend_);
  }
  void Write(std::vector<tier::WriteItem> items) {
    ASSERT_TRUE(tier_->Write(1, std::move(items)));
    auto task = tier_->TakeWrite();
    tier_->Perform(*task, nullptr);
    tier_->End(*task);
  }
  std::unique_ptr<Sequence> Offered(Tokens tokens) {
    auto sequence = Compute(std::move(tokens), 0);
    sequence->num_computed = sequence->num_tokens();
    offers_->OfferComputed(*sequence, 0);
    return sequence;
  }

  store::MemoryKvStore store_;
  std::unique_ptr<tier::StoreTier> tier_;
};

TEST_F(UnstoredBlocksTest, BlocksThatTheStoreHasAreNotTakenAgain) {
  Make({0});
  MakeTier();
  const UnstoredBlocks unstored(groups_, tier_.get(), nullptr);
  const auto first = Offered(Range(100));
  std::vector<tier::WriteItem> items = unstored.Take(*first);
  ASSERT_EQ(items.size(), 3u);
  EXPECT_TRUE(unstored.Take(*first).empty()) << "they count as stored";
  for (uint32_t i = 0; i < 3; ++i) {
    EXPECT_EQ(items[i].depth, i);
    EXPECT_EQ(items[i].tokens, Range(32, static_cast<TokenId>(32 * i)));
    EXPECT_EQ(items[i].parent, i == 0 ? BlockHash{} : items[i - 1].key.hash);
  }
  Write(std::move(items));
  const auto second = Offered(Range(140));
  items = unstored.Take(*second);
  ASSERT_EQ(items.size(), 1u);
  EXPECT_EQ(items[0].depth, 3u);
  offers_->Release(*first);
  offers_->Release(*second);
}

TEST_F(UnstoredBlocksTest, WindowsGoWithTheirBlockAndAWriteHoldsTheChain) {
  Make({0, 70});
  MakeTier();
  const UnstoredBlocks unstored(groups_, tier_.get(), nullptr);
  const auto sequence = Offered(Range(96));
  std::vector<tier::WriteItem> items = unstored.Take(*sequence);
  ASSERT_EQ(items.size(), 6u);
  for (size_t i = 0; i < items.size(); ++i) EXPECT_EQ(items[i].group, i % 2);
  EXPECT_EQ(items[5].parent, items[4].key.hash);
  items.erase(items.begin(), items.begin() + 4);
  std::vector<kv::BlockRef> held = unstored.Hold(*sequence, items);
  offers_->Release(*sequence);
  EXPECT_EQ(groups_[0].pool().num_used(), 3u);
  EXPECT_EQ(groups_[1].pool().num_used(), 1u);
  kv::ReleaseLastToFirst(held);
  for (const auto& group : groups_.all()) EXPECT_EQ(group->pool().num_used(), 0u);
}

TEST_F(UnstoredBlocksTest, TheBudgetEndsThePrefixAndSparesWhatIsPinned) {
  Make({0});
  MakeTier();
  tier::WriteAdmission admission(
      {.bytes_per_day = 1, .burst_bytes_min = 2 * groups_.full().block_bytes()});
  const UnstoredBlocks unstored(groups_, tier_.get(), &admission);
  const auto common = Offered(Range(200));
  const std::vector<tier::WriteItem> items = unstored.Take(*common);
  EXPECT_GE(items.size(), 1u);
  EXPECT_LT(items.size(), 6u);
  EXPECT_EQ(common->num_stored_blocks, static_cast<int>(items.size()));
  EXPECT_TRUE(unstored.Take(*common).empty());
  const auto pinned = Offered(Range(70, 5000));
  kv::PriorityMap priorities;
  for (const kv::BlockKey& key : pinned->keys) priorities[key.hash] = 1;
  groups_.full().cache().SetPriorities(priorities);
  EXPECT_EQ(unstored.Take(*pinned).size(), 2u);
  offers_->Release(*common);
  offers_->Release(*pinned);
}

TEST_F(UnstoredBlocksTest, NothingIsWrittenWithoutADiskOrBehindADroppedBlock) {
  Make({0});
  MakeTier();
  const auto sequence = Offered(Range(100));
  EXPECT_TRUE(UnstoredBlocks(groups_, nullptr, nullptr).Take(*sequence).empty());
  sequence->num_dropped_tokens = 32;
  EXPECT_TRUE(UnstoredBlocks(groups_, tier_.get(), nullptr).Take(*sequence).empty());
  offers_->Release(*sequence);
}

}  // namespace
}  // namespace kvgate::schedule
