// KvUses: how often requests read up to which block, and what that spared them. In memory only.
//
// A request counts at the last stored block of what it read. Blocks that it read behind that one
// are in the engine's memory, and often about to be written: once the last of them is stored, the
// request counts there instead. Owned and serialised by KvIndex, which says what is stored.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <unordered_map>

#include "store/kv/kv_store.h"

namespace kvgate::store::kv {

struct KvKeyHash {
  size_t operator()(const KvKey& key) const noexcept {
    return key.hash.low ^ (key.fingerprint.low * 0x9e3779b97f4a7c15ULL);
  }
};

// Returns the part of `use` that concerns the first num_tokens tokens of each request's prefix.
KvUse ShareOf(const KvUse& use, uint64_t num_tokens);
KvUse& operator+=(KvUse& sum, const KvUse& use);

class KvUses {
 public:
  // Counts at blocks that are not stored yet; if there would be more, none is moved any longer.
  static constexpr size_t kMovableMax = 4096;

  // Counts requests that read up to `read`, of whose prefix `stored` is the last block that is
  // stored; empty means that none is.
  void Count(const KvKey& read, const std::optional<KvKey>& stored, const KvUse& use);
  // Returns true if requests count here from now on.
  bool OnInsert(const KvKey& key);
  void OnRemove(const KvKey& key) { counts_.erase(key); }
  void Clear();
  // Forgets the counts of blocks of which `is_stored` is not true.
  template <typename Predicate>
  void KeepOnly(Predicate is_stored) {
    std::erase_if(counts_, [&](const auto& item) { return !is_stored(item.first); });
  }

  using Map = std::unordered_map<KvKey, KvUse, KvKeyHash>;
  KvUse At(const KvKey& key) const;
  // Counts by block; of stored blocks only.
  const Map& counts() const { return counts_; }

 private:
  struct Movable {
    std::optional<KvKey> counted_at;
    KvUse use;
  };
  void Move(const Movable& movable, const std::optional<KvKey>& to);

  Map counts_;
  std::unordered_map<KvKey, Movable, KvKeyHash> movable_;  // by the block that was read
};

}  // namespace kvgate::store::kv
