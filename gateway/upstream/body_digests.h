// BodyDigests computes the SHA-256 of request bodies. A body of a conversation begins with most of
// the body before it, so the state of the hash is kept at the end of each part, and a body that
// begins with the same parts is hashed from there: cost follows what is new.
//
// Parts are recognised by chained XXH3-128 with a random seed of the process. No client sees those
// hashes, so none can construct parts that collide, and tenants share no parts: a digest depends on
// the body alone, and its time on the bodies of its own tenant.
// Thread-safe; the lock is not held while bodies are hashed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string_view>
#include <vector>

#include "base/digest.h"
#include "base/ids.h"
#include "base/lru_map.h"

namespace kvgate::upstream {

class BodyDigests {
 public:
  static constexpr size_t kPartBytes = size_t{16} << 10;
  // States of one body that are kept, those of its last parts: a huge body must not evict all
  // others.
  static constexpr size_t kStatesOfBodyMax = 64;

  // A state takes about half a kilobyte.
  explicit BodyDigests(size_t states_max = 8192) : states_(states_max) {}

  PrefixDigest Of(std::string_view tenant, std::string_view body);

  // Bytes that SHA-256 went over, of bodies of a part and more.
  uint64_t bytes_hashed() const;

 private:
  // Returns the number of parts that `sha` has then hashed: the most that have a known state.
  size_t Restore(const std::vector<BlockHash>& parts, Sha256& sha);

  const uint64_t seed_ = RandomSeed();
  mutable std::mutex mutex_;
  // At the end of a part, by the hash of all parts up to there; null where there was no memory.
  LruMap<BlockHash, std::unique_ptr<const Sha256>> states_;
  uint64_t bytes_hashed_ = 0;
};

}  // namespace kvgate::upstream
