// The bytes of a pin in the store that gateways share: that a tenant's prefix is pinned, with its
// tokens, or that it was unpinned. store/FORMAT.md specifies them. Pure functions; any thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"
#include "store/meta/pin_format.h"
#include "store/meta/removed_pins.h"

namespace kvgate::runtime::sharing {

struct SharedPin {
  std::string prefix = {};  // as store::meta::PrefixNameOf
  int64_t changed_us = 0;   // when it was pinned or unpinned; the later change holds
  bool is_removed = false;
  // If it is not removed. Its leaf has the numerics of who pinned it and no hash, because hashes
  // differ between gateways; its tenant is empty here, because the map's value says it.
  store::meta::Pin pin = {};
};

std::string EncodeSharedPin(const std::string& prefix, const store::meta::Pin& pin);
std::string EncodeSharedPin(const store::meta::RemovedPin& removed);
// Fails with kDataLoss for what is damaged, and with kUnsupported for a newer version.
Result<SharedPin> DecodeSharedPin(std::string_view bytes);

}  // namespace kvgate::runtime::sharing
