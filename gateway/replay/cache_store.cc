#include "gateway/replay/cache_store.h"

#include <algorithm>
#include <array>
#include <limits>
#include <span>

#include "base/check.h"
#include "base/digest.h"

namespace kvgate::replay {
namespace {

constexpr int64_t kMicroseconds = 1'000'000;
constexpr int64_t kEndless = std::numeric_limits<int64_t>::max() / 4;

}  // namespace

void PrefixChain::Add(std::string_view bytes) {
  const auto [low, high] = Xxh3(std::as_bytes(std::span(bytes)));
  const std::array<uint64_t, 5> link = {hash_.low, hash_.high, bytes.size(), low, high};
  const auto [next_low, next_high] = Xxh3(std::as_bytes(std::span(link)));
  hash_ = {.low = next_low, .high = next_high};
}

bool CacheStore::Has(const PrefixHash& key, int64_t now_us) const {
  const auto found = entries_.find(key);
  return found != entries_.end() && found->second.readable_us <= now_us &&
         now_us < found->second.end_us;
}

void CacheStore::Put(const PrefixHash& key, const Entry& entry) {
  const bool there = Has(key, entry.now_us);
  Kept& kept = entries_[key];
  const bool coming = kept.end_us > entry.now_us;  // an earlier request is writing it
  kept.readable_us =
      there || coming ? std::min(kept.readable_us, entry.readable_us) : entry.readable_us;
  const int64_t ttl_us =
      entry.ttl_seconds == kForever ? kEndless : entry.ttl_seconds * kMicroseconds;
  kept.ttl_us = there ? std::max(kept.ttl_us, ttl_us) : ttl_us;
  kept.end_us = std::max(coming ? kept.end_us : 0, entry.now_us + ttl_us);
}

void CacheStore::Refresh(const PrefixHash& key, int64_t now_us) {
  const auto found = entries_.find(key);
  KVGATE_CHECK(found != entries_.end(), "refreshed an entry that is not there");
  found->second.end_us = std::max(found->second.end_us, now_us + found->second.ttl_us);
}

}  // namespace kvgate::replay
