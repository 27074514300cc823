// Strong types for ids and hashes, so that a block's index cannot be mistaken for a token's.
#pragma once

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "base/result.h"

namespace kvgate {

template <typename Tag, typename Rep>
struct StrongId {
  using rep = Rep;
  Rep value{};
  friend auto operator<=>(const StrongId&, const StrongId&) = default;
};

using TokenId = int32_t;                                // an index into the vocabulary
using BlockId = StrongId<struct BlockIdTag, uint32_t>;  // a slot of a KV block pool
using RequestId = StrongId<struct RequestIdTag, uint64_t>;

// 128 bits for indexing or grouping, never for proof.
template <typename Tag>
struct Hash128 {
  uint64_t low = 0;
  uint64_t high = 0;
  friend auto operator<=>(const Hash128&, const Hash128&) = default;
};

using BlockHash = Hash128<struct BlockHashTag>;  // chained XXH3-128 of a prefix, by blocks
// Equal for engines whose KV is interchangeable.
using Fingerprint = Hash128<struct FingerprintTag>;

// SHA-256 over a whole prefix, chained by blocks: proves that a block is the requested one.
struct PrefixDigest {
  std::array<uint8_t, 32> bytes{};
  friend auto operator<=>(const PrefixDigest&, const PrefixDigest&) = default;
};

// Returns 32 lower-case hex digits, high word first.
std::string ToHex(uint64_t high, uint64_t low);
template <typename Tag>
std::string ToHex(const Hash128<Tag>& hash) {
  return ToHex(hash.high, hash.low);
}
// Parses the output of ToHex. Fails with kInvalidArgument unless it gets exactly 32 hex digits.
Result<BlockHash> ParseBlockHash(std::string_view hex);

}  // namespace kvgate

template <typename Tag, typename Rep>
struct std::hash<kvgate::StrongId<Tag, Rep>> {
  size_t operator()(const kvgate::StrongId<Tag, Rep>& id) const noexcept {
    return std::hash<Rep>{}(id.value);
  }
};
template <typename Tag>
struct std::hash<kvgate::Hash128<Tag>> {
  size_t operator()(const kvgate::Hash128<Tag>& key) const noexcept { return key.low; }
};
