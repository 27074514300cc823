// The salt of a tenant, with which the hashes of its KV begin. It is a secret derived from the
// keyring, so that nobody who knows a tenant's name, or a hash of its credential, can compute a key
// of its KV.
#pragma once

#include <string>
#include <string_view>

#include "base/digest.h"
#include "base/seal.h"

namespace kvgate::kv {

inline std::string TenantSalt(const Keyring& ring, std::string_view tenant) {
  return ToHex(ring.Derive("salt", tenant));
}

}  // namespace kvgate::kv
