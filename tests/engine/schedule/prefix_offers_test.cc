#include "engine/schedule/prefix_offers.h"

#include "tests/engine/schedule/computed_sequences.h"

namespace kvgate::schedule {
namespace {

using PrefixOffersTest = ComputedSequences;

TEST_F(PrefixOffersTest, FullBlocksOfAllGroupsAreFoundAndThoseOfTwoSequencesAreKeptOnce) {
  Make({0, 70});
  const auto first = Compute(Range(100), 96);
  offers_->OfferComputed(*first, 0);
  EXPECT_EQ(first->num_offered_blocks, 3);
  EXPECT_EQ(groups_.full().cache().CountLeading(first->keys), 3u);
  const auto second = Compute(Range(100), 96);
  offers_->OfferComputed(*second, 0);
  for (const auto& group : groups_.all()) {
    const HeldBlocks& ours = first->held[group->index()];
    const HeldBlocks& theirs = second->held[group->index()];
    for (size_t block = 0; block < 3; ++block) {
      EXPECT_EQ(ours.block_table[block], theirs.block_table[block]);
      EXPECT_EQ(theirs.blocks[block].id(), theirs.block_table[block]);
    }
    EXPECT_NE(ours.block_table[3], theirs.block_table[3]) << "it is not full";
    EXPECT_EQ(group->pool().num_used(), 5u);
  }
  CheckIntegrity();
  offers_->Release(*first);
  offers_->Release(*second);
}

TEST_F(PrefixOffersTest, ABlockThatIsFoundIsNoLongerAwaited) {
  Make({0});
  running_.push_back(Compute(Range(100), 0));
  Sequence& leader = *running_.front();
  offers_->ComputeKeys(leader, 3);
  flight_.Lead(leader, 0);
  leader.num_computed = 32;
  offers_->OfferFull(leader);
  const auto other = Compute(Range(100), 0);
  offers_->ComputeKeys(*other, 3);
  EXPECT_FALSE(flight_.Await(*other, 0, false));
  EXPECT_TRUE(flight_.Await(*other, 1, false));
  offers_->Release(leader);
  EXPECT_FALSE(flight_.Await(*other, 1, false));
  offers_->Release(*other);
}

TEST_F(PrefixOffersTest, AnUnfinishedBlockIsOfferedOnlyWithoutWindowsAndBehindOfferedOnes) {
  for (const std::vector<int>& windows : {std::vector<int>{0}, std::vector<int>{0, 70}}) {
    Make(windows);
    const auto sequence = Compute(Range(50), 50);
    offers_->OfferPartial(*sequence);
    EXPECT_EQ(groups_.full().cache().num_entries(), 0u) << "block 0 is not offered yet";
    offers_->OfferFull(*sequence);
    offers_->OfferPartial(*sequence);
    EXPECT_EQ(groups_.full().cache().num_entries(), windows.size() == 1 ? 2u : 1u);
    CheckIntegrity();
    offers_->Release(*sequence);
  }
}

TEST_F(PrefixOffersTest, KvOfDecodeIsOfferedOnlyIfItHasTheBitsOfAPrefill) {
  for (const bool is_invariant : {true, false}) {
    Make({0, 70}, is_invariant);
    const auto sequence = Compute(Range(100), 96);
    sequence->num_prompt_tokens = 40;
    offers_->OfferComputed(*sequence, 0);
    EXPECT_EQ(sequence->num_offered_blocks, is_invariant ? 3 : 1);
    EXPECT_EQ(groups_.windows().front()->cache().num_entries(), is_invariant ? 3u : 1u);
    offers_->Release(*sequence);
  }
}

TEST_F(PrefixOffersTest, NothingIsOfferedBehindADroppedBlock) {
  Make({0});
  const auto sequence = Compute(Range(100), 96);
  sequence->num_dropped_tokens = 32;
  offers_->OfferComputed(*sequence, 0);
  offers_->OfferPartial(*sequence);
  EXPECT_EQ(groups_.full().cache().num_entries(), 0u);
  offers_->Release(*sequence);
}

TEST_F(PrefixOffersTest, AReleasedSequenceHoldsNothingAndItsBlocksStayCached) {
  Make({0, 70});
  const auto sequence = Compute(Range(100), 96);
  offers_->OfferComputed(*sequence, 0);
  offers_->Release(*sequence);
  EXPECT_EQ(sequence->num_computed, 0);
  EXPECT_EQ(sequence->num_offered_blocks, 0);
  for (const auto& group : groups_.all()) {
    EXPECT_TRUE(sequence->held[group->index()].block_table.empty());
    EXPECT_EQ(group->pool().num_used(), 0u);
    EXPECT_EQ(group->pool().num_cached(), 3u);
  }
}

}  // namespace
}  // namespace kvgate::schedule
