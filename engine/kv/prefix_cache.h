// PrefixCache: finds the KV of a prompt's prefix among the blocks of a pool.
//
// Full blocks are found by hash and proved by digest. A block that agrees with the prompt only in
// its first tokens (another continuation, or the unfinished last block of a sequence) is found by
// comparing tokens among the children of the last full match; the caller must copy it before
// writing to it. A block's parent is in the cache as long as the block is. std::bad_alloc leaves
// the cache unchanged. Engine thread only.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "base/ids.h"
#include "engine/kv/block_cache.h"
#include "engine/kv/block_hasher.h"
#include "engine/kv/block_pool.h"

namespace kvgate::kv {

// The cached part of a prompt. The references keep it in the pool until they are dropped.
struct PrefixMatch {
  PrefixMatch() = default;
  PrefixMatch(PrefixMatch&&) = default;
  PrefixMatch& operator=(PrefixMatch&&) = delete;
  ~PrefixMatch();

  std::vector<BlockRef> blocks;  // the leading full blocks, to be shared
  BlockRef partial;              // the next block if some of its first tokens agree, else empty
  int num_partial_tokens = 0;
};

class PrefixCache final : public BlockCache {
 public:
  explicit PrefixCache(BlockPool& pool);

  // keys[i] is the key of tokens[32 i, 32 (i+1)), and `root` is the key before the first. Matches
  // at most tokens.size() tokens: the caller leaves out those that it must compute in any case.
  PrefixMatch Match(const BlockKey& root, std::span<const BlockKey> keys,
                    std::span<const TokenId> tokens);
  // Returns how many leading keys are present. It takes no reference and compares no digests, so it
  // is an estimate for planning.
  size_t CountLeading(std::span<const BlockKey> keys) const;
  // Returns true if a full block with this hash is present; as good an estimate.
  bool Contains(const BlockHash& hash) const { return full_.contains(hash); }
  // Records that a request uses this match, which raises the worth of its blocks.
  void CountUse(const PrefixMatch& match);

  // Offers a block whose KV is complete, with its tokens (at most 32). Returns the block that holds
  // this content from then on: the given one, or the one that was there already (the caller should
  // use that and drop its own). A full block is not taken in if its parent is not in the cache or
  // if another prefix has its hash. A partial block may be offered again with more tokens, and
  // finally as a full one, while its holder writes behind the tokens offered. REQUIRES: the caller
  // references `block`.
  BlockId InsertFull(const BlockKey& parent, const BlockKey& key, std::span<const TokenId> tokens,
                     uint32_t depth, BlockId block);
  void InsertPartial(const BlockKey& parent, std::span<const TokenId> tokens, uint32_t depth,
                     BlockId block);

  void SetPriorities(PriorityMap priorities) override;
  void Clear() override;
  void OnEvict(BlockId id) override;

  size_t num_entries() const { return num_entries_; }
  void CheckIntegrity() const override;

 private:
  struct Entry {
    bool present = false;
    bool full = false;
    BlockKey key;  // of a full block only
    BlockKey parent;
    uint32_t depth = 0;
    uint8_t num_tokens = 0;
    std::array<TokenId, kernels::kKvBlockTokens> tokens{};
  };

  bool HasParent(const BlockKey& parent, uint32_t depth) const;
  bool HasContinuation(const BlockKey& parent, std::span<const TokenId> tokens) const;
  void Forget(BlockId id);
  void Add(Entry entry, BlockId block);
  void MatchPartial(const BlockKey& parent, std::span<const TokenId> tokens, PrefixMatch& match);

  std::vector<Entry> entries_;                                    // by block id
  std::unordered_map<BlockHash, BlockId> full_;                   // full blocks by hash
  std::unordered_map<BlockHash, std::vector<BlockId>> children_;  // by the parent's hash
  size_t num_entries_ = 0;
};

}  // namespace kvgate::kv
