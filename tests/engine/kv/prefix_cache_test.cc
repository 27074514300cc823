#include "engine/kv/prefix_cache.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>

namespace kvgate::kv {
namespace {

constexpr int kBlock = kernels::kKvBlockTokens;
using Tokens = std::vector<TokenId>;

// What a scheduler does with the cache, without a model: a "block" remembers the tokens it stands
// for, so that a wrong hit is seen at once.
class Harness {
 public:
  explicit Harness(uint32_t num_blocks, int hash_bits = 128)
      : hasher({.fingerprint = {.low = 1, .high = 1}, .seed = 1, .hash_bits = hash_bits}),
        pool({.num_blocks = num_blocks}),
        cache(pool),
        contents(num_blocks) {}

  std::vector<BlockKey> Keys(const Tokens& tokens) {
    std::vector<BlockKey> keys;
    BlockKey parent = hasher.Root("");
    for (size_t i = 0; i + kBlock <= tokens.size(); i += kBlock) {
      parent = hasher.Next(parent, std::span(tokens).subspan(i).first<kBlock>());
      keys.push_back(parent);
    }
    return keys;
  }

  // Runs a sequence to its end: match, check every hit, compute the rest, offer it, let go.
  // The number of tokens hit, or -1 when the pool has no room.
  int Run(const Tokens& tokens) {
    const std::vector<BlockKey> keys = Keys(tokens);
    const BlockKey root = hasher.Root("");
    PrefixMatch match = cache.Match(root, keys, std::span(tokens).first(tokens.size() - 1));
    const int num_shared = static_cast<int>(match.blocks.size());
    const int total = static_cast<int>((tokens.size() + kBlock - 1) / kBlock);
    auto fresh = pool.Acquire(static_cast<uint32_t>(total - num_shared));
    if (!fresh) return -1;
    for (int i = 0; i < num_shared; ++i) {
      EXPECT_EQ(contents[match.blocks[i].id().value], Prefix(tokens, (i + 1) * kBlock));
    }
    if (match.partial) {
      const Tokens& held = contents[match.partial.id().value];
      const Tokens wanted = Prefix(tokens, num_shared * kBlock + match.num_partial_tokens);
      EXPECT_TRUE(held.size() >= wanted.size() &&
                  std::equal(wanted.begin(), wanted.end(), held.begin()));
    }
    const int num_hit = num_shared * kBlock + match.num_partial_tokens;
    match.partial.Reset();
    std::vector<BlockRef> blocks = std::move(match.blocks);
    match.blocks.clear();
    for (BlockRef& block : *fresh) blocks.push_back(std::move(block));
    Offer(root, tokens, keys, blocks, num_shared);
    ReleaseLastToFirst(blocks);
    return num_hit;
  }

  static Tokens Prefix(const Tokens& tokens, int count) {
    return Tokens(tokens.begin(), tokens.begin() + count);
  }

  void Offer(const BlockKey& root, const Tokens& tokens, const std::vector<BlockKey>& keys,
             std::vector<BlockRef>& blocks, int num_shared) {
    for (int i = num_shared; i < static_cast<int>(blocks.size()); ++i) {
      const BlockKey& parent = i == 0 ? root : keys[i - 1];
      const size_t begin = static_cast<size_t>(i) * kBlock;
      const size_t count = std::min<size_t>(kBlock, tokens.size() - begin);
      const auto held = std::span(tokens).subspan(begin, count);
      contents[blocks[i].id().value] = Prefix(tokens, static_cast<int>(begin + count));
      if (count < kBlock) {
        cache.InsertPartial(parent, held, static_cast<uint32_t>(i), blocks[i].id());
        continue;
      }
      const BlockId holder =
          cache.InsertFull(parent, keys[i], held, static_cast<uint32_t>(i), blocks[i].id());
      if (holder != blocks[i].id()) blocks[i] = pool.Share(holder);
    }
  }

  BlockHasher hasher;
  BlockPool pool;
  PrefixCache cache;
  std::vector<Tokens> contents;  // by block: the whole prefix its KV belongs to
};

Tokens Range(int count, TokenId first = 0) {
  Tokens tokens(static_cast<size_t>(count));
  for (int i = 0; i < count; ++i) tokens[static_cast<size_t>(i)] = first + i;
  return tokens;
}

TEST(PrefixCacheTest, ASecondRunHitsAllButTheLastToken) {
  for (const int length : {1, 31, 32, 33, 64, 65, 100}) {
    Harness fresh(16);
    EXPECT_EQ(fresh.Run(Range(length)), 0);
    EXPECT_EQ(fresh.Run(Range(length)), length - 1) << length;
    fresh.pool.CheckIntegrity();
    fresh.cache.CheckIntegrity();
  }
}

TEST(PrefixCacheTest, ADivergingPromptReusesTheCommonTokensOfTheBlock) {
  Harness harness(16);
  harness.Run(Range(96));
  Tokens other = Range(96);
  other[70] = 9999;
  EXPECT_EQ(harness.Run(other), 70);
  // Both continuations stay.
  EXPECT_EQ(harness.Run(other), 95);
  EXPECT_EQ(harness.Run(Range(96)), 95);
}

TEST(PrefixCacheTest, AGrowingConversationReusesItsUnfinishedLastBlock) {
  Harness harness(16);
  harness.Run(Range(40));
  EXPECT_EQ(harness.Run(Range(75)), 40);
  EXPECT_EQ(harness.Run(Range(130)), 75);
}

TEST(PrefixCacheTest, EqualContentIsKeptOnce) {
  Harness harness(16);
  harness.Run(Range(64));
  const size_t before = harness.cache.num_entries();
  harness.Run(Range(64));
  EXPECT_EQ(harness.cache.num_entries(), before);
}

TEST(PrefixCacheTest, ClearLeavesNothingButWhatIsHeld) {
  Harness harness(8);
  harness.Run(Range(128));
  harness.cache.Clear();
  EXPECT_EQ(harness.cache.num_entries(), 0u);
  EXPECT_EQ(harness.pool.num_free(), 8u);
  EXPECT_EQ(harness.Run(Range(128)), 0);
}

TEST(PrefixCacheTest, AnUnfinishedBlockCanBeHitWhileItsHolderGoesOnWritingIt) {
  Harness harness(16);
  const Tokens tokens = Range(64);
  const std::vector<BlockKey> keys = harness.Keys(tokens);
  const BlockKey root = harness.hasher.Root("");
  auto blocks = *harness.pool.Acquire(2);
  const auto match = [&](int count) {
    const PrefixMatch found = harness.cache.Match(root, std::span(keys).first(count / kBlock),
                                                  std::span(tokens).first(count));
    return static_cast<int>(found.blocks.size()) * kBlock + found.num_partial_tokens;
  };
  const std::span<const TokenId> all(tokens);
  harness.cache.InsertFull(root, keys[0], all.first(32), 0, blocks[0].id());
  harness.cache.InsertPartial(keys[0], all.subspan(32, 5), 1, blocks[1].id());
  EXPECT_EQ(match(60), 37);
  harness.cache.InsertPartial(keys[0], all.subspan(32, 20), 1, blocks[1].id());
  EXPECT_EQ(match(60), 52);
  harness.cache.CheckIntegrity();
  EXPECT_EQ(harness.cache.InsertFull(keys[0], keys[1], all.subspan(32, 32), 1, blocks[1].id()),
            blocks[1].id());
  EXPECT_EQ(match(64), 64);
  harness.cache.CheckIntegrity();
  ReleaseLastToFirst(blocks);
  harness.pool.CheckIntegrity();
}

TEST(PrefixCacheTest, FullBlocksAreDemotedBeforeTheyAreLostAndUnfinishedOnesAreNot) {
  Harness harness(4);
  std::vector<BlockKey> demoted;
  harness.cache.SetDemote([&](const BlockKey& key, BlockId, int priority) {
    EXPECT_EQ(priority, 0);
    demoted.push_back(key);
  });
  harness.Run(Range(80));
  harness.Run(Range(128, 5000));
  const std::vector<BlockKey> keys = harness.Keys(Range(80));
  EXPECT_EQ(demoted, (std::vector<BlockKey>{keys[1], keys[0]})) << "leaf before parent";
}

TEST(PrefixCacheTest, PrioritiesHoldForWhatIsThereAndForWhatComes) {
  Harness harness(6);
  const Tokens pinned = Range(64);
  const Tokens later = Range(64, 3000);
  harness.Run(pinned);
  std::unordered_map<BlockHash, int> priorities;
  for (const Tokens& tokens : {pinned, later}) {
    for (const BlockKey& key : harness.Keys(tokens)) priorities[key.hash] = 1;
  }
  harness.cache.SetPriorities(priorities);
  harness.Run(later);
  for (int i = 0; i < 20; ++i) harness.Run(Range(64, 10000 + 100 * i));
  EXPECT_EQ(harness.Run(pinned), 63);
  EXPECT_EQ(harness.Run(later), 63);
  harness.cache.SetPriorities({});
  for (int i = 0; i < 20; ++i) harness.Run(Range(64, 20000 + 100 * i));
  EXPECT_EQ(harness.Run(pinned), 0);
}

// Random prompts of a tree with much sharing, in a pool too small for all; the harness checks every
// hit against the tokens the block was made from. With 8-bit hashes collisions are all over.
void RunRandomly(int hash_bits, int rounds, bool expect_mismatches) {
  std::mt19937 random(23);
  Harness harness(24, hash_bits);
  uint64_t num_hit = 0;
  for (int round = 0; round < rounds; ++round) {
    Tokens tokens;
    const int length = 1 + static_cast<int>(random() % 300);
    // Few choices, and only at some places: prompts share beginnings of every length.
    TokenId branch = 0;
    for (int i = 0; i < length; ++i) {
      if (i % 17 == 0) branch = static_cast<TokenId>(random() % 3);
      tokens.push_back(branch * 1000 + i);
    }
    const int hit = harness.Run(tokens);
    ASSERT_GE(hit, 0);
    num_hit += static_cast<uint64_t>(hit);
    if (round % 32 == 0) {
      harness.pool.CheckIntegrity();
      harness.cache.CheckIntegrity();
    }
  }
  EXPECT_GT(num_hit, static_cast<uint64_t>(rounds));
  EXPECT_EQ(harness.cache.num_digest_mismatches() > 0, expect_mismatches);
}

TEST(PrefixCacheTest, NeverHitsWrongContentOverRandomPrompts) { RunRandomly(128, 20000, false); }

TEST(PrefixCacheTest, NeverHitsWrongContentWithForcedCollisions) {
  RunRandomly(8, 20000, true);
  RunRandomly(3, 20000, true);
}

}  // namespace
}  // namespace kvgate::kv
