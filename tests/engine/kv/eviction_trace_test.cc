// These tests compare the hits of the pool's GDSF eviction with those of plain LRU (its uses_max =
// 1) on traces shaped like real traffic. They are deterministic: a seed defines a trace.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <random>

#include "engine/kv/prefix_cache.h"

namespace kvgate::kv {
namespace {

constexpr int kBlock = kernels::kKvBlockTokens;
using Tokens = std::vector<TokenId>;

// Appends a piece of a prompt; equal piece numbers give equal tokens.
void Append(Tokens& tokens, int piece, int num_blocks) {
  for (int i = 0; i < num_blocks * kBlock; ++i) tokens.push_back(piece * 10007 + i);
}

// Server is a cache of `num_blocks` blocks that serves one request after the other.
class Server {
 public:
  Server(uint32_t num_blocks, uint32_t uses_max)
      : hasher_({.fingerprint = {}, .seed = 1}),
        pool_({.num_blocks = num_blocks, .uses_max = uses_max}),
        cache_(pool_) {}

  void Serve(const Tokens& tokens) {
    std::vector<BlockKey> keys;
    BlockKey parent = hasher_.Root("");
    const BlockKey root = parent;
    for (size_t i = 0; i + kBlock <= tokens.size(); i += kBlock) {
      parent = hasher_.Next(parent, std::span(tokens).subspan(i).first<kBlock>());
      keys.push_back(parent);
    }
    PrefixMatch match = cache_.Match(root, keys, tokens);
    cache_.CountUse(match);
    const size_t num_hit = match.blocks.size();
    num_hit_ += num_hit;
    num_blocks_ += keys.size();
    std::vector<BlockRef> blocks = std::move(match.blocks);
    match.blocks.clear();
    match.partial.Reset();
    auto fresh = pool_.Acquire(static_cast<uint32_t>(keys.size() - num_hit));
    ASSERT_TRUE(fresh.has_value());
    for (BlockRef& block : *fresh) blocks.push_back(std::move(block));
    for (size_t i = num_hit; i < keys.size(); ++i) {
      cache_.InsertFull(i == 0 ? root : keys[i - 1], keys[i],
                        std::span(tokens).subspan(i * kBlock, kBlock), static_cast<uint32_t>(i),
                        blocks[i].id());
    }
    ReleaseLastToFirst(blocks);
  }
  double hit_rate() const {
    return static_cast<double>(num_hit_) / static_cast<double>(num_blocks_);
  }

 private:
  BlockHasher hasher_;
  BlockPool pool_;
  PrefixCache cache_;
  uint64_t num_hit_ = 0;
  uint64_t num_blocks_ = 0;
};

using Trace = std::function<void(std::mt19937& random, Server& server)>;

// Agents use one of four system prompts, and long documents that come once arrive between them.
void AgentsAndDocuments(std::mt19937& random, Server& server) {
  for (int i = 0; i < 3000; ++i) {
    Tokens tokens;
    if (random() % 3 != 0) {
      Append(tokens, 1 + static_cast<int>(random() % 4), 20);
      Append(tokens, 1000 + i, 4);
    } else {
      Append(tokens, 1000 + i, 60);
    }
    server.Serve(tokens);
  }
}

// A dozen conversations at a time grow turn by turn under one common system prompt.
void Conversations(std::mt19937& random, Server& server) {
  std::vector<std::pair<int, int>> open;  // name, turns so far
  int next = 100;
  for (int i = 0; i < 3000; ++i) {
    while (open.size() < 12) open.push_back({next++, 0});
    auto& [name, turns] = open[random() % open.size()];
    Tokens tokens;
    Append(tokens, 1, 10);
    for (int turn = 0; turn <= turns; ++turn) Append(tokens, name * 50 + turn, 2);
    server.Serve(tokens);
    if (++turns == 15) std::erase(open, std::pair(name, turns));
  }
}

// The hot set changes every 300 requests, and the former one must make room.
void Shifts(std::mt19937& random, Server& server) {
  for (int i = 0; i < 3000; ++i) {
    Tokens tokens;
    Append(tokens, 1 + i / 300 * 10 + static_cast<int>(random() % 6), 12);
    Append(tokens, 5000 + i, 2);
    server.Serve(tokens);
  }
}

double HitRate(const Trace& trace, uint32_t uses_max) {
  std::mt19937 random(31);
  Server server(128, uses_max);
  trace(random, server);
  return server.hit_rate();
}

TEST(EvictionTraceTest, SharedPrefixesSurviveDocumentsThatComeOnce) {
  const double lru = HitRate(AgentsAndDocuments, 1);
  const double gdsf = HitRate(AgentsAndDocuments, BlockPool::Options().uses_max);
  RecordProperty("lru", std::to_string(lru));
  RecordProperty("gdsf", std::to_string(gdsf));
  EXPECT_GT(gdsf, 1.15 * lru) << gdsf << " against " << lru;
}

TEST(EvictionTraceTest, NothingIsLostWhereRecencyIsAllThereIs) {
  for (const auto& [name, trace] : {std::pair<const char*, Trace>{"conversations", Conversations},
                                    std::pair<const char*, Trace>{"shifts", Shifts}}) {
    const double lru = HitRate(trace, 1);
    const double gdsf = HitRate(trace, BlockPool::Options().uses_max);
    RecordProperty(std::string(name) + "_lru", std::to_string(lru));
    RecordProperty(std::string(name) + "_gdsf", std::to_string(gdsf));
    EXPECT_GT(gdsf, 0.97 * lru) << name << ": " << gdsf << " against " << lru;
  }
}

}  // namespace
}  // namespace kvgate::kv
