// BlockHasher: the identity of a prefix, block by block.
//
// A key chains two functions over the same input: an XXH3-128 hash, short and quick, that only
// serves for lookup, and a SHA-256 digest that proves equality. Both start from a root that binds
// the fingerprint (weights, tokenizer, numerics, KV dtype) and the tenant's salt, each field with
// its own tag, so that a salt cannot be mistaken for another field. Not thread-safe.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "base/digest.h"
#include "base/ids.h"
#include "kernels/backend.h"

namespace kvgate::kv {

struct BlockKey {
  BlockHash hash;       // for lookup
  PrefixDigest digest;  // for proof
  friend bool operator==(const BlockKey&, const BlockKey&) = default;
};

// The KV group whose layers see all tokens; every model has it. The keys of its blocks are chained
// and alone decide what a prefix is, so its records stand for the block as a whole: they carry the
// block's tokens, and the records of the other groups hang from them.
inline constexpr uint32_t kFullGroup = 0;

// Returns the store's name for one KV group's part of a block, so that the bytes of one group are
// never found as another's. The full group keeps the block's own hash.
BlockHash GroupHash(const BlockHash& hash, uint32_t group);

class BlockHasher {
 public:
  struct Options {
    Fingerprint fingerprint;
    uint64_t seed = 0;    // from the data directory; without it hashes cannot be predicted
    int hash_bits = 128;  // 1..128; below 128 collisions are forced, for tests
  };
  explicit BlockHasher(const Options& options);

  // Returns a tenant's key before the first block.
  BlockKey Root(std::string_view salt);
  // Returns the key of the block of `tokens` that follows `parent`.
  BlockKey Next(const BlockKey& parent, std::span<const TokenId, kernels::kKvBlockTokens> tokens);

 private:
  BlockHash Cut(std::pair<uint64_t, uint64_t> hash) const;

  Options options_;
  Sha256 sha256_;
};

}  // namespace kvgate::kv
