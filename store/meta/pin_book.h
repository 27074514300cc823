// PinBook: the pins of a data directory: which prefixes are kept, under which name, and until when.
//
// It persists them in the meta store and applies them to the KV store. A pinned prefix need not be
// stored yet. There is one pin per {tenant, name}: a newer version replaces the older one. An
// expired pin is no longer listed, and the next DropExpired deletes it. Safe to call from any
// thread.
//
// Gateways that share pins take over what the others have pinned and unpinned (Take, TakeRemoval):
// of two changes of one prefix the later one holds. What is changed here is later than all that was
// known of the prefix, whatever the clock says.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "store/kv/kv_store.h"
#include "store/meta/meta_store.h"
#include "store/meta/pin_format.h"
#include "store/meta/removed_pins.h"

namespace kvgate::store::meta {

inline constexpr size_t kPinsMax = 4096;

// A pin without its tokens.
struct PinStamp {
  BlockHash id;
  std::string prefix;      // as PrefixNameOf
  std::string tenant;      // the owner
  int64_t created_us = 0;  // when it was pinned, or its pin changed
};

class PinBook {
 public:
  // Reads the stored pins and applies them. Damaged pins are logged and dropped, expired ones
  // dropped, and of two pins with one name the older one is dropped. Both stores must outlive the
  // book. With `read_only`, the rows stay in the meta store.
  static Result<std::unique_ptr<PinBook>> Open(MetaStore& meta, kv::KvStore& kv, bool read_only);

  // From this call on, the pins of one tenant may take at most `share` of what can be pinned, which
  // is half of the cap, and of kPinsMax. The default is 1.
  void LimitTenants(double share) { tenant_share_.store(share); }

  // Adds a pin and replaces the pin of the same leaf and the one of the same tenant and name. Sets
  // created_us. Durable on return. Returns kInvalidArgument if a field is too long (the detail
  // names it) or the pin has expired already; kTooLarge as kv::KvStore::Pin does, or above the
  // tenant's share; kOverloaded if kPinsMax pins are kept, or the tenant's share of them.
  Result<void> Put(Pin pin);
  // Returns the pin that was removed, or kNotFound.
  Result<Pin> Remove(const BlockHash& id);
  // Moves the pin to the key that the same prefix has after a change of numerics.
  Result<void> Rekey(const BlockHash& id, const kv::KvKey& leaf);

  struct Taken {
    bool is_taken = false;        // false: what is here is later
    std::vector<Pin> ended = {};  // pins whose place it took
  };
  // Adds a pin of another gateway, made at created_us, under the leaf that its prefix has here. One
  // whose name a later pin here has is noted as removed. Errors as for Put.
  Result<Taken> Take(Pin pin);
  // Notes that another gateway has unpinned a prefix. Returns the pins that ended here.
  Result<std::vector<Pin>> TakeRemoval(const RemovedPin& removed);
  std::vector<PinStamp> Stamps() const;
  // Prefixes that were unpinned in the last 30 days.
  std::vector<RemovedPin> Removed() const;

  // Returns how many pins were deleted.
  Result<uint64_t> DropExpired();

  std::optional<Pin> Find(const BlockHash& id) const;
  // Sorted by priority, highest first, then by age, oldest first.
  std::vector<Pin> List() const;
  size_t size() const;
  uint64_t num_damaged() const { return num_damaged_; }
  // Returns the number of pins sealed with a missing secret, which stay in the meta store but are
  // not listed.
  uint64_t num_foreign() const { return num_foreign_; }

 private:
  PinBook(MetaStore& meta, kv::KvStore& kv) : meta_(meta), kv_(kv), removed_(meta) {}
  Result<void> Load(bool read_only);
  Result<void> Forget(const Pin& pin);
  Result<void> Keep(Pin pin, const std::optional<Pin>& older);
  std::optional<Pin> OlderOf(const Pin& pin) const;
  const std::string& NameOf(const Pin& pin) const;
  Result<void> Write(const Pin& pin, const kv::KvKey* replaced);
  void Repin(const Pin& pin);
  // Returns the bytes that the tenant's pins hold, `more` included.
  uint64_t TenantBytes(const Pin& more) const;
  Result<void> CheckShare(const Pin& pin) const;
  const Pin* FindByName(const std::string& tenant, const std::string& name) const;

  MetaStore& meta_;
  kv::KvStore& kv_;
  std::atomic<double> tenant_share_{1.0};
  mutable std::mutex mutex_;
  std::map<BlockHash, Pin> pins_;
  RemovedPins removed_;
  mutable std::map<BlockHash, std::string> names_;  // of prefixes, once they were asked for
  uint64_t num_damaged_ = 0;
  uint64_t num_foreign_ = 0;
};

}  // namespace kvgate::store::meta
