// CacheStore: entries of a simulated prompt cache by the hash of their prefix, with the time from
// which on and until which they can be read; and the chain that makes these hashes.
#pragma once

#include <cstdint>
#include <string_view>
#include <unordered_map>

#include <kvgate/ids.h>

namespace kvgate::replay {

using PrefixHash = Hash128<struct ReplayPrefixTag>;

// A hash over everything that was added, in its order.
class PrefixChain {
 public:
  void Add(std::string_view bytes);
  const PrefixHash& hash() const { return hash_; }

 private:
  PrefixHash hash_;
};

class CacheStore {
 public:
  // Forever, where a provider does not say for how long.
  static constexpr int64_t kForever = 0;

  bool Has(const PrefixHash& key, int64_t now_us) const;
  // `readable_us` is when the writing answer begins; the lifetime counts from its request's start.
  struct Entry {
    int64_t now_us = 0;
    int64_t readable_us = 0;
    int64_t ttl_seconds = kForever;
  };
  void Put(const PrefixHash& key, const Entry& entry);
  // A use counts as a new beginning of its lifetime. REQUIRES: Has.
  void Refresh(const PrefixHash& key, int64_t now_us);

 private:
  struct Kept {
    int64_t readable_us = 0;
    int64_t end_us = 0;
    int64_t ttl_us = 0;
  };
  std::unordered_map<PrefixHash, Kept> entries_;
};

}  // namespace kvgate::replay
