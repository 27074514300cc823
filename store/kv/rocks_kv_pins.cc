// Pins of RocksKvStore: blocks that eviction may not take. A pin outlives its block: a block that
// was dropped or is not written yet is pinned when it is put.
#include <fmt/format.h>

#include "base/clock.h"
#include "base/log.h"
#include "store/kv/rocks_kv_store.h"

namespace kvgate::store::kv {
namespace {

constexpr std::string_view kSource = "store.kv";

}  // namespace

Result<void> RocksKvStore::Pin(const KvKey& key, int64_t expires_unix) {
  const std::lock_guard lock(index_mutex_);
  ExpirePins();
  KvIndex::Node* node = index_.Find(key);
  if (node != nullptr && !TryPin(*node)) {
    return MakeError(
        ErrorCode::kTooLarge, kSource,
        fmt::format("pinning {} more bytes to the {} that are pinned: at most half of the cap of "
                    "{} bytes can be",
                    index_.BytesToPin(*node), index_.pinned_bytes(), options_.capacity_bytes));
  }
  pins_[key] = expires_unix;
  return {};
}

void RocksKvStore::Unpin(const KvKey& key) {
  const std::lock_guard lock(index_mutex_);
  pins_.erase(key);
  if (KvIndex::Node* node = index_.Find(key); node != nullptr) index_.SetPinned(*node, false);
}

// Returns false if pinning the node would exceed half of the cap.
bool RocksKvStore::TryPin(KvIndex::Node& node) {
  if (node.pinned) return true;
  if (index_.pinned_bytes() + index_.BytesToPin(node) > options_.capacity_bytes / 2) return false;
  index_.SetPinned(node, true);
  return true;
}

// A window of a pinned block counts as pinned too. Returns false if it would exceed half of the
// cap, in which case it is not stored at all.
bool RocksKvStore::HasPinRoomFor(const KvIndexEntry& entry) const {
  if (entry.group == 0) return true;
  const KvIndex::Node* block = index_.Find({entry.key.fingerprint, entry.parent});
  const uint64_t bytes = entry.payload_bytes + kKvOverheadBytes;
  return block == nullptr || block->num_pins == 0 ||
         index_.pinned_bytes() + bytes <= options_.capacity_bytes / 2;
}

// Applies the pins to an index that was loaded again.
void RocksKvStore::PinAgain() {
  for (const auto& [key, expires_unix] : pins_) {
    KvIndex::Node* node = index_.Find(key);
    if (node != nullptr && !TryPin(*node)) {
      KVGATE_LOG(kWarning, kSource, "{} is not pinned: half of the cap is", ToHex(key.hash));
    }
  }
}

void RocksKvStore::ExpirePins() {
  const int64_t now = WallClock::NowUnix();
  for (auto pin = pins_.begin(); pin != pins_.end();) {
    if (pin->second == 0 || pin->second > now) {
      ++pin;
      continue;
    }
    if (KvIndex::Node* node = index_.Find(pin->first); node != nullptr) {
      index_.SetPinned(*node, false);
    }
    pin = pins_.erase(pin);
  }
}

Result<void> RocksKvStore::CheckNoPins(std::span<KvIndex::Node* const> nodes) const {
  for (const KvIndex::Node* node : nodes) {
    if (!node->pinned) continue;
    return MakeError(ErrorCode::kInvalidArgument, kSource,
                     fmt::format("the prefix {} is pinned: unpin it first, or force its removal",
                                 ToHex(node->entry.key.hash)));
  }
  return {};
}

}  // namespace kvgate::store::kv
