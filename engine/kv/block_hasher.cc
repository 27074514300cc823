#include "engine/kv/block_hasher.h"

#include <array>
#include <bit>
#include <cstring>

#include "base/check.h"

namespace kvgate::kv {
namespace {

static_assert(std::endian::native == std::endian::little, "hashes are of little-endian words");

std::span<const std::byte> BytesOf(const auto& value) {
  return std::as_bytes(std::span(&value, 1));
}

}  // namespace

BlockHash GroupHash(const BlockHash& hash, uint32_t group) {
  if (group == kFullGroup) return hash;
  const std::array<uint64_t, 3> input{hash.low, hash.high, group};
  const auto [low, high] = Xxh3(std::as_bytes(std::span(input)));
  return {.low = low, .high = high};
}

BlockHasher::BlockHasher(const Options& options) : options_(options) {
  KVGATE_CHECK(options.hash_bits >= 1 && options.hash_bits <= 128, "hash bits");
}

BlockHash BlockHasher::Cut(std::pair<uint64_t, uint64_t> hash) const {
  const auto mask = [](int bits) {
    return bits <= 0 ? 0 : bits >= 64 ? ~uint64_t{0} : (uint64_t{1} << bits) - 1;
  };
  return {.low = hash.first & mask(options_.hash_bits),
          .high = hash.second & mask(options_.hash_bits - 64)};
}

BlockKey BlockHasher::Root(std::string_view salt) {
  const uint64_t salt_bytes = salt.size();
  BlockKey root;
  root.digest = sha256_.Update("kvgate.prefix.1/fingerprint")
                    .Update(BytesOf(options_.fingerprint))
                    .Update("/salt")
                    .Update(BytesOf(salt_bytes))
                    .Update(salt)
                    .Finish();
  root.hash = Cut(Xxh3(std::as_bytes(std::span(root.digest.bytes)), options_.seed));
  return root;
}

BlockKey BlockHasher::Next(const BlockKey& parent,
                           std::span<const TokenId, kernels::kKvBlockTokens> tokens) {
  std::array<std::byte, sizeof(BlockHash) + kernels::kKvBlockTokens * sizeof(TokenId)> input;
  std::memcpy(input.data(), &parent.hash, sizeof(BlockHash));
  std::memcpy(input.data() + sizeof(BlockHash), tokens.data(), tokens.size_bytes());
  BlockKey key;
  key.hash = Cut(Xxh3(input, options_.seed));
  key.digest = sha256_.Update("block")
                   .Update(std::as_bytes(std::span(parent.digest.bytes)))
                   .Update(std::as_bytes(tokens))
                   .Finish();
  return key;
}

}  // namespace kvgate::kv
