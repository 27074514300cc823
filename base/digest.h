// The two hash functions of the project: XXH3-128 for indexing and checksums, SHA-256 for proof;
// and seeds.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "base/ids.h"

namespace kvgate {

// XXH3-128 of `data` with `seed`, as {low, high}.
std::pair<uint64_t, uint64_t> Xxh3(std::span<const std::byte> data, uint64_t seed = 0);

// Returns 64 random bits from the system, for hashes and generators. Secrets come from seal.h.
uint64_t RandomSeed();

// Returns a hash with a seed that is random per process, so that no client can construct names that
// collide.
uint64_t SecretHash(std::string_view text);

// Returns two lower-case hex digits per byte.
std::string ToHex(std::span<const uint8_t> bytes);

// SHA-256, incremental. One object serves any number of digests; not thread-safe.
class Sha256 {
 public:
  Sha256();
  ~Sha256();
  Sha256(const Sha256&) = delete;
  Sha256& operator=(const Sha256&) = delete;

  Sha256& Update(std::span<const std::byte> data);
  Sha256& Update(std::string_view text);
  // Returns the digest of all updates since construction or the last Finish.
  PrefixDigest Finish();
  // Takes over the updates of `other` since its last Finish, instead of its own.
  void ContinueFrom(const Sha256& other);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// Returns this thread's own object, because creating one costs more than hashing a short text. The
// caller must leave no digest unfinished.
Sha256& ThreadSha256();

// HMAC-SHA256 (RFC 2104), to sign what goes to somebody who has the same secret.
PrefixDigest HmacSha256(std::string_view secret, std::string_view text);

}  // namespace kvgate
