// PinBook: the pins of a data directory: which prefixes are kept, by whom named, until when.
//
// It keeps them in the meta store, where they survive whatever ends the process, and holds the KV
// store to them. A pin's prefix need not be stored: then the book alone remembers it. One pin per
// {tenant, name}: a newer version takes the older one's place. A pin that has expired is no longer
// listed, and goes for good with the next DropExpired. Any thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include <kvgate/ids.h>
#include <kvgate/result.h>

#include "store/kv/kv_store.h"
#include "store/meta/meta_store.h"
#include "store/meta/pin_format.h"

namespace kvgate::store {

inline constexpr size_t kPinsMax = 4096;

class PinBook {
 public:
  // Reads what is kept and pins it. What is damaged is logged and dropped; what has expired is
  // dropped; of two pins of one name the older one is. Both stores outlive the book. With
  // `read_only` nothing is dropped for good.
  static Result<std::unique_ptr<PinBook>> Open(MetaStore& meta, KvStore& kv, bool read_only);

  // From then on one tenant's pins take at most that part of what can be pinned, which is half of
  // the cap, and of kPinsMax. Before: all of it.
  void LimitTenants(double share) { tenant_share_.store(share); }

  // Pins; replaces the pin of the same leaf and the one of the same tenant and name. created_us is
  // set here. Durable when it returns. kInvalidArgument: a field is too long (named), or it has
  // expired already; kTooLarge: see KvStore::Pin, or the tenant's share; kOverloaded: kPinsMax
  // are kept, or the tenant's share of them.
  Result<void> Put(Pin pin);
  // The pin that was removed; kNotFound.
  Result<Pin> Remove(const BlockHash& id);
  // The same prefix under another key, since the numerics have changed.
  Result<void> Rekey(const BlockHash& id, const KvKey& leaf);
  // How many went.
  Result<uint64_t> DropExpired();

  std::optional<Pin> Find(const BlockHash& id) const;
  // Highest priority first, then oldest.
  std::vector<Pin> List() const;
  size_t size() const;
  uint64_t num_damaged() const { return num_damaged_; }
  // Sealed with a secret that is not there: kept, and not listed.
  uint64_t num_foreign() const { return num_foreign_; }

 private:
  PinBook(MetaStore& meta, KvStore& kv) : meta_(meta), kv_(kv) {}
  Result<void> Load(bool read_only);
  Result<void> Forget(const Pin& pin);
  Result<void> Write(const Pin& pin, const KvKey* replaced);
  void ProtectAgain(const Pin& pin);
  // What the pins of one tenant hold, with `more` among them.
  uint64_t TenantBytes(const Pin& more) const;
  Result<void> CheckShare(const Pin& pin) const;
  const Pin* FindByName(const std::string& tenant, const std::string& name) const;

  MetaStore& meta_;
  KvStore& kv_;
  std::atomic<double> tenant_share_{1.0};
  mutable std::mutex mutex_;
  std::map<BlockHash, Pin> pins_;
  uint64_t num_damaged_ = 0;
  uint64_t num_foreign_ = 0;
};

}  // namespace kvgate::store
