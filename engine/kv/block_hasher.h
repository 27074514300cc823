// BlockHasher: the identity of a prefix, block by block.
//
// A key chains two functions over the same input: an XXH3-128 hash, short and quick, that only
// finds things, and a SHA-256 digest that proves them. Both start from a root that binds the
// fingerprint (weights, tokenizer, numerics, KV dtype) and the tenant's salt, each field with its
// own tag, so a salt can never be taken for anything else. Not thread-safe.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include <kvgate/digest.h>
#include <kvgate/ids.h>

#include "kernels/backend.h"

namespace kvgate::kv {

struct BlockKey {
  BlockHash hash;       // finds
  PrefixDigest digest;  // proves
  friend bool operator==(const BlockKey&, const BlockKey&) = default;
};

// The name of what the layers of one KV group hold of a block, where it is stored: bytes of one
// group are never found as another's. Group 0 has the block's own hash.
BlockHash GroupHash(const BlockHash& hash, uint32_t group);

class BlockHasher {
 public:
  struct Options {
    Fingerprint fingerprint;
    uint64_t seed = 0;    // the data directory's: hashes cannot be computed without it
    int hash_bits = 128;  // 1..128; below 128 collisions are forced, for tests
  };
  explicit BlockHasher(const Options& options);

  // The key before the first block, for one tenant.
  BlockKey Root(std::string_view salt);
  // The key of the block of `tokens` that follows `parent`.
  BlockKey Next(const BlockKey& parent, std::span<const TokenId, kernels::kKvBlockTokens> tokens);

 private:
  BlockHash Cut(std::pair<uint64_t, uint64_t> hash) const;

  Options options_;
  Sha256 sha256_;
};

}  // namespace kvgate::kv
