// CacheStore holds the entries of a simulated prompt cache by the hash of their prefix, with the
// time span in which they can be read. PrefixChain makes these hashes.
#pragma once

#include <cstdint>
#include <string_view>
#include <unordered_map>

#include "base/ids.h"

namespace kvgate::replay {

using PrefixHash = Hash128<struct ReplayPrefixTag>;

// An ordered hash of everything that was added.
class PrefixChain {
 public:
  void Add(std::string_view bytes);
  const PrefixHash& hash() const { return hash_; }

 private:
  PrefixHash hash_;
};

class CacheStore {
 public:
  // For providers that state no lifetime.
  static constexpr int64_t kForever = 0;

  bool Has(const PrefixHash& key, int64_t now_us) const;
  // `readable_us` is when the writing answer begins; the lifetime counts from the start of its
  // request.
  struct Entry {
    int64_t now_us = 0;
    int64_t readable_us = 0;
    int64_t ttl_seconds = kForever;
  };
  void Put(const PrefixHash& key, const Entry& entry);
  // Restarts the lifetime of an entry that was used. REQUIRES: Has.
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
