#include "engine/kv/block_hasher.h"

#include <gtest/gtest.h>

#include <array>
#include <numeric>
#include <set>
#include <string>

namespace kvgate::kv {
namespace {

using Tokens = std::array<TokenId, kernels::kKvBlockTokens>;

Tokens Counting(TokenId first) {
  Tokens tokens;
  std::iota(tokens.begin(), tokens.end(), first);
  return tokens;
}

BlockHasher Make(uint64_t fingerprint, uint64_t seed, int hash_bits = 128) {
  return BlockHasher(
      {.fingerprint = {.low = fingerprint, .high = 0}, .seed = seed, .hash_bits = hash_bits});
}

TEST(BlockHasherTest, AKeyDependsOnEverythingBeforeItAndOnNothingElse) {
  BlockHasher hasher = Make(1, 2);
  const BlockKey root = hasher.Root("a");
  const BlockKey first = hasher.Next(root, Counting(0));
  const BlockKey second = hasher.Next(first, Counting(32));
  EXPECT_EQ(second, Make(1, 2).Next(first, Counting(32)));
  EXPECT_NE(second, hasher.Next(root, Counting(32)));
  Tokens changed = Counting(32);
  ++changed.back();
  EXPECT_NE(hasher.Next(first, changed).digest, second.digest);
  EXPECT_NE(hasher.Next(first, changed).hash, second.hash);
}

TEST(BlockHasherTest, TenantsAndFingerprintsShareNoKey) {
  std::set<std::string> seen;
  for (const uint64_t fingerprint : {1, 2}) {
    for (const std::string salt : {"", "a", "b", "ab"}) {
      BlockHasher hasher = Make(fingerprint, 7);
      const BlockKey key = hasher.Next(hasher.Root(salt), Counting(0));
      seen.insert(ToHex(key.hash));
    }
  }
  EXPECT_EQ(seen.size(), 8u);
}

TEST(BlockHasherTest, TheSeedChangesHashesButNotDigests) {
  BlockHasher one = Make(1, 1);
  BlockHasher two = Make(1, 2);
  EXPECT_NE(one.Root("").hash, two.Root("").hash);
  EXPECT_EQ(one.Root("").digest, two.Root("").digest);
}

TEST(BlockHasherTest, CutHashesCollideWhileDigestsDoNot) {
  BlockHasher hasher = Make(1, 1, 8);
  const BlockKey root = hasher.Root("");
  std::set<BlockHash> hashes;
  std::set<PrefixDigest> digests;
  for (TokenId i = 0; i < 1000; ++i) {
    const BlockKey key = hasher.Next(root, Counting(i));
    EXPECT_LT(key.hash.low, 256u);
    EXPECT_EQ(key.hash.high, 0u);
    hashes.insert(key.hash);
    digests.insert(key.digest);
  }
  EXPECT_LE(hashes.size(), 256u);
  EXPECT_EQ(digests.size(), 1000u);
}

}  // namespace
}  // namespace kvgate::kv
