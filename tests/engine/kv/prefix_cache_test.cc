#include "engine/kv/prefix_cache.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>

namespace kvgate::kv {
namespace {

constexpr int kBlock = kernels::kKvBlockTokens;
using Tokens = std::vector<TokenId>;

// Harness does to the cache what a scheduler does, without a model: a "block" remembers the tokens
// it stands for, so that a wrong hit is seen at once.
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

  // Runs a sequence to its end: matches, checks every hit, computes the rest, offers it and lets
  // go. Returns the number of tokens hit, or -1 when the pool has no room.
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
  std::vector<Tokens> contents;  // indexed by block: the whole prefix its KV belongs to
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
  // Both continuations stay cached.
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

// Random prompts of a tree with much sharing run in a pool too small for all; the harness checks
// every hit against the tokens the block was made from. With 8-bit hashes, collisions are frequent.
void RunRandomly(int hash_bits, int rounds, bool expect_mismatches) {
  std::mt19937 random(23);
  Harness harness(24, hash_bits);
  uint64_t num_hit = 0;
  for (int round = 0; round < rounds; ++round) {
    Tokens tokens;
    const int length = 1 + static_cast<int>(random() % 300);
    // Few choices at few places make prompts share beginnings of every length.
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

// Crowd runs many sequences at once that start, grow, offer unfinished blocks and end, beside a
// naive model: a list of what each block was offered with. The pool decides which block is evicted
// (is_marked says which are left); the model finds the longest match among those by comparing
// everything.
class Crowd {
 public:
  explicit Crowd(uint32_t num_blocks) : harness_(num_blocks), offered_(num_blocks) {}

  void Start(Tokens tokens) {
    Living made{.tokens = std::move(tokens), .keys = {}, .blocks = {}};
    made.keys = harness_.Keys(made.tokens);
    const auto reusable = std::span(made.tokens).first(made.tokens.size() - 1);
    PrefixMatch match = harness_.cache.Match(root_, made.keys, reusable);
    CheckMatch(reusable, match);
    const size_t num_blocks = (made.tokens.size() + kBlock - 1) / kBlock;
    auto fresh = harness_.pool.Acquire(static_cast<uint32_t>(num_blocks - match.blocks.size()));
    if (!fresh) return;  // the match releases its blocks
    const size_t num_shared = match.blocks.size();
    made.blocks = std::move(match.blocks);
    match.blocks.clear();
    for (BlockRef& block : *fresh) {
      offered_[block.id().value] = {};
      made.blocks.push_back(std::move(block));
    }
    for (size_t i = num_shared; i < made.keys.size(); ++i) OfferFull(made, i);
    living_.push_back(std::move(made));
  }

  void Grow(size_t index, TokenId token) {
    Living& grown = living_[index];
    if (grown.tokens.size() % kBlock == 0) {
      auto fresh = harness_.pool.Acquire(1);
      if (!fresh) return End(index);
      offered_[fresh->front().id().value] = {};
      grown.blocks.push_back(std::move(fresh->front()));
    }
    grown.tokens.push_back(token);
    if (grown.tokens.size() % kBlock != 0) return;
    grown.keys = harness_.Keys(grown.tokens);
    OfferFull(grown, grown.blocks.size() - 1);
  }

  void OfferUnfinished(size_t index) {
    const Living& living = living_[index];
    const size_t begin = living.keys.size() * kBlock;
    if (begin == living.tokens.size()) return;
    const BlockId id = living.blocks.back().id();
    harness_.cache.InsertPartial(living.keys.empty() ? root_ : living.keys.back(),
                                 std::span(living.tokens).subspan(begin),
                                 static_cast<uint32_t>(living.keys.size()), id);
    if (harness_.pool.is_marked(id)) offered_[id.value] = {.tokens = living.tokens};
  }

  void End(size_t index) {
    ReleaseLastToFirst(living_[index].blocks);
    std::swap(living_[index], living_.back());
    living_.pop_back();
  }

  void EndAll() {
    while (!living_.empty()) End(0);
  }
  void CheckIntegrity() const {
    harness_.pool.CheckIntegrity();
    harness_.cache.CheckIntegrity();
  }
  Harness& harness() { return harness_; }
  size_t num_living() const { return living_.size(); }
  uint64_t num_full_hits() const { return num_full_hits_; }
  uint64_t num_partial_hits() const { return num_partial_hits_; }

 private:
  struct Living {
    Tokens tokens;
    std::vector<BlockKey> keys;  // of the full blocks
    std::vector<BlockRef> blocks;
  };
  struct Offered {
    Tokens tokens = {};  // the whole prefix up to the last token offered
    bool full = false;
  };

  void OfferFull(Living& living, size_t index) {
    const BlockId own = living.blocks[index].id();
    const BlockId holder =
        harness_.cache.InsertFull(index == 0 ? root_ : living.keys[index - 1], living.keys[index],
                                  std::span(living.tokens).subspan(index * kBlock, kBlock),
                                  static_cast<uint32_t>(index), own);
    const Tokens whole = Harness::Prefix(living.tokens, static_cast<int>((index + 1) * kBlock));
    if (holder == own) {
      offered_[own.value] = {.tokens = whole, .full = true};
    } else {
      EXPECT_EQ(offered_[holder.value].tokens, whole);
      living.blocks[index] = harness_.pool.Share(holder);
    }
  }

  // Returns how many leading tokens of `tokens` agree with `block`, or 0 if the block was evicted.
  size_t Agreement(uint32_t block, std::span<const TokenId> tokens) const {
    if (!harness_.pool.is_marked(BlockId{block})) return 0;
    const Tokens& held = offered_[block].tokens;
    return static_cast<size_t>(
        std::mismatch(held.begin(), held.end(), tokens.begin(), tokens.end()).first - held.begin());
  }

  void CheckMatch(std::span<const TokenId> tokens, const PrefixMatch& match) {
    size_t full = 0;
    size_t longest = 0;
    for (bool found = true; found;) {
      found = false;
      for (uint32_t block = 0; block < offered_.size(); ++block) {
        const size_t agreed = Agreement(block, tokens);
        found |= offered_[block].full && agreed == (full + 1) * kBlock &&
                 offered_[block].tokens.size() == agreed;
      }
      full += found;
    }
    for (uint32_t block = 0; block < offered_.size(); ++block) {
      // Only a child of the last full hit may be copied from.
      const size_t size = offered_[block].tokens.size();
      if (size > full * kBlock && size <= (full + 1) * kBlock) {
        longest = std::max(longest, Agreement(block, tokens));
      }
    }
    ASSERT_EQ(match.blocks.size(), full);
    for (size_t i = 0; i < full; ++i) {
      ASSERT_EQ(Agreement(match.blocks[i].id().value, tokens), (i + 1) * kBlock);
    }
    const size_t partial = longest > full * kBlock ? longest - full * kBlock : 0;
    ASSERT_EQ(static_cast<size_t>(match.num_partial_tokens), partial);
    ASSERT_EQ(static_cast<bool>(match.partial), partial > 0);
    num_full_hits_ += full;
    num_partial_hits_ += partial > 0;
  }

  Harness harness_;
  const BlockKey root_ = harness_.hasher.Root("");
  std::vector<Offered> offered_;  // indexed by block
  std::vector<Living> living_;
  uint64_t num_full_hits_ = 0;
  uint64_t num_partial_hits_ = 0;
};

TEST(PrefixCacheTest, AgreesWithANaiveModelOverRandomOperationsOfManySequences) {
  std::mt19937 random(41);
  Crowd crowd(32);
  // A token depends on its position and on one of two branches, so that prompts share beginnings of
  // every length.
  const auto branch = [&](size_t place) {
    return static_cast<TokenId>((random() % 24 == 0 ? 1000 : 0) + static_cast<int>(place));
  };
  for (int operation = 0; operation < 100'000; ++operation) {
    const size_t chosen = crowd.num_living() == 0 ? 0 : random() % crowd.num_living();
    const uint32_t kind = crowd.num_living() == 0 ? 0 : random() % 16;
    if (kind < 3 && crowd.num_living() < 6) {
      Tokens tokens;
      const size_t length = 1 + random() % 150;
      while (tokens.size() < length) tokens.push_back(branch(tokens.size()));
      crowd.Start(std::move(tokens));
    } else if (kind < 12) {
      crowd.Grow(chosen, static_cast<TokenId>(random() % 3));
    } else if (kind < 14) {
      crowd.OfferUnfinished(chosen);
    } else {
      crowd.End(chosen);
    }
    if (random() % 5000 == 0) crowd.harness().cache.Clear();
    if (operation % 64 == 0) crowd.CheckIntegrity();
    ASSERT_FALSE(HasFatalFailure()) << "at operation " << operation;
  }
  EXPECT_GT(crowd.num_full_hits(), 1000u);
  EXPECT_GT(crowd.num_partial_hits(), 1000u);
  crowd.EndAll();
  EXPECT_EQ(crowd.harness().pool.num_used(), 0u);
}

}  // namespace
}  // namespace kvgate::kv
