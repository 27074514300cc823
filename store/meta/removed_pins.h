// RemovedPins: which prefixes were unpinned, and when, so that gateways which share pins can be
// told, and no pin that one of them still has comes back. Durable and sealed in the meta store; a
// prefix is named by a secret, and its tokens are not kept.
//
// They are forgotten after 30 days, and the oldest beyond kRemovedMax. Not thread-safe: the pin
// book locks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "store/meta/meta_store.h"
#include "store/meta/pin_format.h"

namespace kvgate::store::meta {

struct RemovedPin {
  std::string prefix = {};  // as PrefixNameOf
  std::string tenant = {};
  int64_t removed_us = 0;  // microseconds since 1970
};

// Names a tenant's prefix by its model and tokens, whatever the numerics and the data directory: 32
// bytes, equal for all gateways with the same secret. Without a model, it has that of the numerics.
std::string PrefixNameOf(const Keyring& ring, const Pin& pin);

class RemovedPins {
 public:
  static constexpr size_t kRemovedMax = 4096;
  static constexpr int64_t kAgeUsMax = int64_t{30} * 86'400 * 1'000'000;

  // Knows none yet. The store outlives it.
  explicit RemovedPins(MetaStore& meta) : meta_(&meta) {}
  // Reads the rows, and drops old and damaged ones unless `read_only`.
  static Result<RemovedPins> Load(MetaStore& meta, bool read_only);

  // Microseconds since 1970; 0 if it was not removed.
  int64_t RemovedUs(const std::string& prefix) const;
  // Notes a removal, unless a later one is noted. Durable on return.
  Result<void> Note(const RemovedPin& removed);
  // It is pinned again.
  Result<void> Erase(const std::string& prefix);
  std::vector<RemovedPin> List() const;

 private:
  MetaStore* meta_;
  std::map<std::string, RemovedPin> removed_;  // by prefix
};

}  // namespace kvgate::store::meta
