#include "store/meta/pin_book.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <tuple>
#include <utility>

#include "base/clock.h"
#include "base/log.h"
#include "store/kv/kv_format.h"

namespace kvgate::store::meta {

using kv::EncodeKvKey;
using kv::KvKey;

namespace {

constexpr std::string_view kSource = "store.pins";

bool HasExpired(const Pin& pin) {
  return pin.expires_unix != 0 && pin.expires_unix <= WallClock::NowUnix();
}

Result<void> CheckPin(const Pin& pin) {
  const auto refuse = [](std::string field, std::string detail) {
    return MakeError(ErrorCode::kInvalidArgument, kSource, std::move(detail), std::move(field));
  };
  for (const auto& [field, text] :
       {std::pair<const char*, const std::string&>("name", pin.name), {"version", pin.version}}) {
    if (text.size() <= kPinTextMax) continue;
    return refuse(field, fmt::format("a pin's {} of {} bytes; the limit is {}", field, text.size(),
                                     kPinTextMax));
  }
  if (!pin.version.empty() && pin.name.empty()) {
    return refuse("name", "a pin with a version needs a name: versions of one name replace it");
  }
  if (pin.tokens.empty() || pin.tokens.size() > kPinTokensMax) {
    return refuse("tokens", fmt::format("a pinned prefix of {} tokens; 1 to {} can be pinned",
                                        pin.tokens.size(), kPinTokensMax));
  }
  if (HasExpired(pin)) return refuse("ttl_seconds", "the pin would have expired already");
  return {};
}

RemovedPin RemovedNow(const std::string& prefix, const Pin& pin) {
  return {.prefix = prefix,
          .tenant = pin.tenant,
          .removed_us = std::max(WallClock::NowUs(), pin.created_us + 1)};
}

}  // namespace

Result<std::unique_ptr<PinBook>> PinBook::Open(MetaStore& meta, kv::KvStore& kv, bool read_only) {
  std::unique_ptr<PinBook> book(new PinBook(meta, kv));
  KVGATE_TRY_VOID(book->Load(read_only));
  return book;
}

Result<void> PinBook::Load(bool read_only) {
  KVGATE_TRY(removed_, RemovedPins::Load(meta_, read_only));
  std::vector<Pin> read;
  std::vector<std::string> damaged;
  KVGATE_TRY_VOID(meta_.Scan(MetaTable::kPins, "", [&](auto key, auto value) {
    auto pin = DecodePin(key, value, meta_.keyring());
    if (pin) {
      read.push_back(std::move(*pin));
    } else if (pin.error().code == ErrorCode::kPermissionDenied) {
      ++num_foreign_;  // listed again once its secret is back
    } else {
      KVGATE_LOG(kWarning, kSource, "dropped: {}", pin.error().detail);
      damaged.emplace_back(key);
    }
    return true;
  }));
  num_damaged_ = damaged.size();
  // Newest first: if a crash left two versions of a name, the older one is dropped.
  std::ranges::sort(read, std::greater<>(), &Pin::created_us);
  for (Pin& pin : read) {
    const bool replaced = !pin.name.empty() && FindByName(pin.tenant, pin.name) != nullptr;
    if (replaced || HasExpired(pin) || pins_.contains(pin.leaf.hash)) {
      damaged.push_back(EncodeKvKey(pin.leaf));
      continue;
    }
    if (const auto pinned = kv_.Pin(pin.leaf, pin.expires_unix); !pinned) {
      KVGATE_LOG(kWarning, kSource, "{} is remembered but not protected: {}", ToHex(pin.leaf.hash),
                 pinned.error().detail);
    }
    NameOf(pin);  // no later call waits for all of them
    pins_.emplace(pin.leaf.hash, std::move(pin));
  }
  if (read_only) return {};
  // If the disk refuses writes, the next opening of the book drops them.
  for (const std::string& key : damaged) {
    if (const auto gone = meta_.Delete(MetaTable::kPins, key); !gone) {
      KVGATE_LOG(kWarning, kSource, "what is dropped stays on the disk: {}",
                 gone.error().ToString());
      break;
    }
  }
  return {};
}

// The pin of the same name, if it is of another prefix.
std::optional<Pin> PinBook::OlderOf(const Pin& pin) const {
  const Pin* const same = pin.name.empty() ? nullptr : FindByName(pin.tenant, pin.name);
  return same != nullptr && same->leaf.hash != pin.leaf.hash ? std::optional(*same) : std::nullopt;
}

Result<void> PinBook::Put(Pin pin) {
  KVGATE_TRY_VOID(CheckPin(pin));
  const std::lock_guard lock(mutex_);
  const std::optional<Pin> older = OlderOf(pin);
  const auto same = pins_.find(pin.leaf.hash);
  pin.created_us = std::max({WallClock::NowUs(), older ? older->created_us + 1 : 0,
                             same != pins_.end() ? same->second.created_us + 1 : 0,
                             removed_.RemovedUs(PrefixNameOf(meta_.keyring(), pin)) + 1});
  return Keep(std::move(pin), older);
}

Result<void> PinBook::Keep(Pin pin, const std::optional<Pin>& older) {
  if (!older && !pins_.contains(pin.leaf.hash) && pins_.size() >= kPinsMax) {
    return MakeError(ErrorCode::kOverloaded, kSource,
                     fmt::format("{} prefixes are pinned, which is the limit", kPinsMax));
  }
  // The older version is unpinned first to make room, and pinned again if the newer one is refused.
  if (older) kv_.Unpin(older->leaf);
  auto done = kv_.Pin(pin.leaf, pin.expires_unix);
  if (done) done = CheckShare(pin);
  if (done) done = Write(pin, older ? &older->leaf : nullptr);
  if (!done) {
    kv_.Unpin(pin.leaf);
    const auto found = pins_.find(pin.leaf.hash);
    if (found != pins_.end()) Repin(found->second);
    if (older) Repin(*older);
    return done;
  }
  // Failures to note these are no failures of the pin: at the worst one that was replaced comes
  // back from elsewhere.
  if (older) {
    (void)removed_.Note(RemovedNow(NameOf(*older), *older));
    names_.erase(older->leaf.hash);
    pins_.erase(older->leaf.hash);
  }
  const std::string name = PrefixNameOf(meta_.keyring(), pin);
  if (const auto same = pins_.find(pin.leaf.hash);
      same != pins_.end() && NameOf(same->second) != name) {
    // The model that it is of has become known.
    (void)removed_.Note(RemovedNow(NameOf(same->second), same->second));
  }
  (void)removed_.Erase(name);
  names_[pin.leaf.hash] = name;
  pins_.insert_or_assign(pin.leaf.hash, std::move(pin));
  return {};
}

// Hashing a long prefix takes milliseconds, so it is done once.
const std::string& PinBook::NameOf(const Pin& pin) const {
  const auto [found, is_new] = names_.try_emplace(pin.leaf.hash);
  if (is_new) found->second = PrefixNameOf(meta_.keyring(), pin);
  return found->second;
}

Result<PinBook::Taken> PinBook::Take(Pin pin) {
  KVGATE_TRY_VOID(CheckPin(pin));
  const std::lock_guard lock(mutex_);
  const std::string name = PrefixNameOf(meta_.keyring(), pin);
  const auto same = pins_.find(pin.leaf.hash);
  const bool is_known = same != pins_.end() && same->second.created_us >= pin.created_us;
  if (is_known || removed_.RemovedUs(name) >= pin.created_us) return Taken();
  std::optional<Pin> older = OlderOf(pin);
  const bool is_later =
      !older || std::pair(pin.created_us, name) > std::pair(older->created_us, NameOf(*older));
  if (!is_later) {
    KVGATE_TRY_VOID(
        removed_.Note({.prefix = name, .tenant = pin.tenant, .removed_us = pin.created_us + 1}));
    return Taken();
  }
  KVGATE_TRY_VOID(Keep(std::move(pin), older));
  Taken taken{.is_taken = true};
  if (older) taken.ended.push_back(*std::move(older));
  return taken;
}

Result<std::vector<Pin>> PinBook::TakeRemoval(const RemovedPin& removed) {
  const std::lock_guard lock(mutex_);
  std::vector<Pin> ended;
  bool is_pinned = false;  // again, since then
  for (const auto& [id, pin] : pins_) {
    if (pin.tenant != removed.tenant || NameOf(pin) != removed.prefix) continue;
    is_pinned |= pin.created_us > removed.removed_us;
    if (pin.created_us <= removed.removed_us) ended.push_back(pin);
  }
  if (!is_pinned) KVGATE_TRY_VOID(removed_.Note(removed));
  for (const Pin& pin : ended) KVGATE_TRY_VOID(Forget(pin));
  return ended;
}

std::vector<PinStamp> PinBook::Stamps() const {
  const std::lock_guard lock(mutex_);
  std::vector<PinStamp> stamps;
  for (const auto& [id, pin] : pins_) {
    if (HasExpired(pin)) continue;
    stamps.push_back(
        {.id = id, .prefix = NameOf(pin), .tenant = pin.tenant, .created_us = pin.created_us});
  }
  return stamps;
}

std::vector<RemovedPin> PinBook::Removed() const {
  const std::lock_guard lock(mutex_);
  return removed_.List();
}

// Writes the pin and deletes the one that it replaces in one batch.
Result<void> PinBook::Write(const Pin& pin, const KvKey* replaced) {
  std::vector<MetaWrite> writes = {
      {.key = EncodeKvKey(pin.leaf), .value = EncodePin(pin, meta_.keyring())}};
  if (replaced != nullptr) {
    writes.push_back({.key = EncodeKvKey(*replaced), .value = std::nullopt});
  }
  return meta_.PutAll(MetaTable::kPins, writes);
}

// Restores a pin after its replacement failed.
void PinBook::Repin(const Pin& pin) {
  if (!kv_.Pin(pin.leaf, pin.expires_unix)) {
    KVGATE_LOG(kWarning, kSource, "{} is no longer pinned", ToHex(pin.leaf.hash));
  }
}

// Blocks that several of the tenant's pins share count once. A prefix that is not stored yet is
// estimated by the largest bytes per block of the stored prefixes.
uint64_t PinBook::TenantBytes(const Pin& more) const {
  std::vector<const Pin*> own = {&more};
  for (const auto& [id, pin] : pins_) {
    if (pin.tenant == more.tenant && id != more.leaf.hash && !HasExpired(pin)) own.push_back(&pin);
  }
  std::map<BlockHash, uint64_t> block_bytes;  // by leaf
  uint64_t block_bytes_max = 0;
  for (const kv::KvPrefix& prefix : kv_.ListPrefixes()) {
    if (prefix.num_blocks == 0) continue;
    const uint64_t bytes = prefix.payload_bytes / prefix.num_blocks + kv::kKvOverheadBytes;
    block_bytes_max = std::max(block_bytes_max, bytes);
    if (prefix.pinned) block_bytes[prefix.leaf.hash] = bytes;
  }
  std::set<KvKey> counted;
  uint64_t total = 0;
  for (const Pin* pin : own) {
    const auto chain = kv_.Chain(pin->leaf.hash);
    const auto known = block_bytes.find(pin->leaf.hash);
    const uint64_t bytes = known == block_bytes.end() ? block_bytes_max : known->second;
    if (!chain) {
      total += pin->tokens.size() / kv::kKvTokensMax * bytes;
      continue;
    }
    for (const KvKey& key : *chain) total += counted.insert(key).second ? bytes : 0;
  }
  return total;
}

Result<void> PinBook::CheckShare(const Pin& pin) const {
  const double share = tenant_share_.load();
  if (share >= 1) return {};
  const auto num_own = std::count_if(pins_.begin(), pins_.end(), [&](const auto& entry) {
    return entry.second.tenant == pin.tenant && entry.first != pin.leaf.hash;
  });
  const auto num_max = static_cast<int64_t>(share * kPinsMax);
  if (num_own >= num_max) {
    return MakeError(ErrorCode::kOverloaded, kSource,
                     fmt::format("{} prefixes of this tenant are pinned; store.tenant_share allows "
                                 "{}; unpin some",
                                 num_own, num_max));
  }
  const uint64_t capacity = kv_.Stats().capacity_bytes;
  const auto limit = static_cast<uint64_t>(static_cast<double>(capacity / 2) * share);
  const uint64_t bytes = TenantBytes(pin);
  if (bytes <= limit) return {};
  return MakeError(ErrorCode::kTooLarge, kSource,
                   fmt::format("with this one the pinned prefixes of its tenant take {} bytes; "
                               "store.tenant_share of the half of store.disk_cache that can be "
                               "pinned is {}",
                               bytes, limit));
}

Result<Pin> PinBook::Remove(const BlockHash& id) {
  const std::lock_guard lock(mutex_);
  const auto found = pins_.find(id);
  if (found == pins_.end()) {
    return MakeError(ErrorCode::kNotFound, kSource, fmt::format("no pin has the id {}", ToHex(id)),
                     "id");
  }
  Pin pin = found->second;
  KVGATE_TRY_VOID(removed_.Note(RemovedNow(NameOf(pin), pin)));
  KVGATE_TRY_VOID(Forget(pin));
  return pin;
}

// Copies the key first, because `pin` may be the entry that is erased.
Result<void> PinBook::Forget(const Pin& pin) {
  const KvKey leaf = pin.leaf;
  KVGATE_TRY_VOID(meta_.Delete(MetaTable::kPins, EncodeKvKey(leaf)));
  kv_.Unpin(leaf);
  pins_.erase(leaf.hash);
  names_.erase(leaf.hash);
  return {};
}

Result<void> PinBook::Rekey(const BlockHash& id, const KvKey& leaf) {
  const std::lock_guard lock(mutex_);
  const auto found = pins_.find(id);
  if (found == pins_.end() || found->second.leaf == leaf) return {};
  const Pin old = found->second;
  Pin pin = old;
  pin.leaf = leaf;
  pin.created_us = old.created_us + 1;
  kv_.Unpin(old.leaf);
  auto done = kv_.Pin(leaf, pin.expires_unix);
  if (done) done = Write(pin, &old.leaf);
  if (!done) {
    kv_.Unpin(leaf);
    Repin(old);
    return done;
  }
  names_.erase(id);
  pins_.erase(found);
  pins_.insert_or_assign(leaf.hash, std::move(pin));
  return {};
}

Result<uint64_t> PinBook::DropExpired() {
  const std::lock_guard lock(mutex_);
  std::vector<Pin> expired;
  for (const auto& [id, pin] : pins_) {
    if (HasExpired(pin)) expired.push_back(pin);
  }
  for (const Pin& pin : expired) KVGATE_TRY_VOID(Forget(pin));
  return expired.size();
}

std::optional<Pin> PinBook::Find(const BlockHash& id) const {
  const std::lock_guard lock(mutex_);
  const auto found = pins_.find(id);
  if (found == pins_.end() || HasExpired(found->second)) return std::nullopt;
  return found->second;
}

std::vector<Pin> PinBook::List() const {
  std::vector<Pin> pins;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [id, pin] : pins_) {
      if (!HasExpired(pin)) pins.push_back(pin);
    }
  }
  std::ranges::sort(pins, [](const Pin& a, const Pin& b) {
    return std::tuple(b.priority, a.created_us) < std::tuple(a.priority, b.created_us);
  });
  return pins;
}

size_t PinBook::size() const {
  const std::lock_guard lock(mutex_);
  return pins_.size();
}

const Pin* PinBook::FindByName(const std::string& tenant, const std::string& name) const {
  for (const auto& [id, pin] : pins_) {
    if (pin.tenant == tenant && pin.name == name) return &pin;
  }
  return nullptr;
}

}  // namespace kvgate::store::meta
