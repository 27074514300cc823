#include "store/kv/kv_uses.h"

#include <gtest/gtest.h>

namespace kvgate::store::kv {
namespace {

KvKey Key(uint64_t id) { return {Fingerprint{1, 1}, BlockHash{id, 0}}; }
constexpr KvUse kHit{.num_hits = 1, .num_tokens = 64, .compute_us = 100};

TEST(KvUsesTest, AHitBehindWhatIsStoredMovesToItsBlockWhenThatIsStored) {
  KvUses uses;
  uses.OnInsert(Key(1));
  uses.Count(Key(1), Key(1), kHit);
  uses.Count(Key(3), Key(1), kHit);
  uses.Count(Key(3), Key(1), kHit);
  EXPECT_EQ(uses.At(Key(1)).num_hits, 3u);
  EXPECT_EQ(uses.At(Key(3)).num_hits, 0u);
  uses.OnInsert(Key(2));
  uses.Count(Key(3), Key(2), kHit);  // what counted at block 1 counts at block 2 from now on
  EXPECT_EQ(uses.At(Key(1)).num_hits, 1u);
  EXPECT_EQ(uses.At(Key(2)).num_hits, 3u);
  uses.OnInsert(Key(3));
  EXPECT_EQ(uses.At(Key(1)).num_hits, 1u);
  EXPECT_EQ(uses.At(Key(2)).num_hits, 0u);
  EXPECT_EQ(uses.At(Key(3)).num_hits, 3u);
  EXPECT_EQ(uses.At(Key(3)).num_tokens, 192u);
  EXPECT_EQ(uses.At(Key(3)).compute_us, 300u);
}

TEST(KvUsesTest, AHitOfWhichNothingIsStoredYetIsNotLost) {
  KvUses uses;
  uses.Count(Key(2), std::nullopt, kHit);
  EXPECT_TRUE(uses.counts().empty());
  uses.OnInsert(Key(1));
  uses.OnInsert(Key(2));
  EXPECT_EQ(uses.At(Key(2)).num_hits, 1u);
}

TEST(KvUsesTest, CountsGoWithTheirBlockAndNeverBelowZero) {
  KvUses uses;
  uses.Count(Key(2), Key(1), kHit);
  uses.OnRemove(Key(1));
  uses.Count(Key(1), Key(1), {.num_hits = 1, .num_tokens = 8, .compute_us = 8});
  uses.OnInsert(Key(2));
  EXPECT_EQ(uses.At(Key(2)).num_hits, 1u);
  EXPECT_EQ(uses.At(Key(1)).num_tokens, 0u);
  uses.Clear();
  uses.OnInsert(Key(2));
  EXPECT_TRUE(uses.counts().empty());
}

TEST(KvUsesTest, BlocksThatAreNeverStoredTakeABoundedPlace) {
  KvUses uses;
  for (uint64_t id = 0; id < 3 * KvUses::kMovableMax; ++id) uses.Count(Key(9 + id), Key(1), kHit);
  EXPECT_EQ(uses.At(Key(1)).num_hits, 3 * KvUses::kMovableMax) << "none is lost";
  EXPECT_EQ(uses.counts().size(), 1u);
  uses.OnInsert(Key(9));  // forgotten meanwhile: it stays counted where it was
  EXPECT_EQ(uses.At(Key(1)).num_hits, 3 * KvUses::kMovableMax);
}

TEST(KvUsesTest, AShareIsThatOfTheFirstTokensOfEachRequest) {
  const KvUse use{.num_hits = 4, .num_tokens = 4000, .compute_us = 80'000};
  const KvUse share = ShareOf(use, 250);
  EXPECT_EQ(share.num_hits, 4u);
  EXPECT_EQ(share.num_tokens, 1000u);
  EXPECT_EQ(share.compute_us, 20'000u);
  EXPECT_EQ(ShareOf(use, 2000).num_tokens, 4000u);
  EXPECT_EQ(ShareOf({}, 32).num_tokens, 0u);
}

}  // namespace
}  // namespace kvgate::store::kv
