#include "store/kv/kv_uses.h"

#include <algorithm>

namespace kvgate::store::kv {

KvUse& operator+=(KvUse& sum, const KvUse& use) {
  sum.num_hits += use.num_hits;
  sum.num_tokens += use.num_tokens;
  sum.compute_us += use.compute_us;
  return sum;
}

KvUse ShareOf(const KvUse& use, uint64_t num_tokens) {
  const uint64_t most = use.num_hits * num_tokens;
  if (most >= use.num_tokens) return use;
  const double share = static_cast<double>(most) / static_cast<double>(use.num_tokens);
  return {.num_hits = use.num_hits,
          .num_tokens = most,
          .compute_us = static_cast<uint64_t>(share * static_cast<double>(use.compute_us))};
}

void KvUses::Count(const KvKey& read, const std::optional<KvKey>& stored, const KvUse& use) {
  if (stored == read) {
    counts_[read] += use;
    return;
  }
  if (movable_.size() >= kMovableMax && !movable_.contains(read)) movable_.clear();
  Movable& movable = movable_[read];
  if (movable.counted_at != stored) Move(movable, stored);
  movable.counted_at = stored;
  movable.use += use;
  if (stored) counts_[*stored] += use;
}

bool KvUses::OnInsert(const KvKey& key) {
  const auto found = movable_.find(key);
  if (found == movable_.end()) return false;
  Move(found->second, key);
  movable_.erase(found);
  return true;
}

void KvUses::Move(const Movable& movable, const std::optional<KvKey>& to) {
  if (to) counts_[*to] += movable.use;
  if (!movable.counted_at) return;
  const auto from = counts_.find(*movable.counted_at);
  if (from == counts_.end()) return;  // that block was removed, and its counts with it
  // The block may have been removed and stored again since, with fewer counts.
  KvUse& use = from->second;
  use.num_hits -= std::min(use.num_hits, movable.use.num_hits);
  use.num_tokens -= std::min(use.num_tokens, movable.use.num_tokens);
  use.compute_us -= std::min(use.compute_us, movable.use.compute_us);
}

void KvUses::Clear() {
  counts_.clear();
  movable_.clear();
}

KvUse KvUses::At(const KvKey& key) const {
  const auto found = counts_.find(key);
  return found == counts_.end() ? KvUse{} : found->second;
}

}  // namespace kvgate::store::kv
