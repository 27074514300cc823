// The bytes of a pin: a prefix that is kept by name, as written down in store/FORMAT.md.
// It knows no database. Pure functions; any thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <kvgate/ids.h>
#include <kvgate/result.h>
#include "base/seal.h"

#include "store/kv/kv_store.h"
#include "store/sealed_kinds.h"

namespace kvgate::store {

// The token ids and the tenant are here so that the prefix can be computed again when its KV is
// gone, of other numerics than the engine's now, or under the salt of another secret.
struct Pin {
  KvKey leaf;                   // its hash is the pin's id
  Fingerprint model;            // weights and tokenizer, whatever the numerics; zero: not known
  std::string name;             // at most kPinTextMax bytes; empty: none
  std::string version;          // likewise
  std::string tenant;           // whose it is; its salt is derived of it
  int32_t priority = 0;         // higher: brought in first, evicted from memory last
  int64_t expires_unix = 0;     // 0: never
  int64_t created_us = 0;       // microseconds since 1970; tells two of one name apart
  std::vector<TokenId> tokens;  // whole blocks
  friend bool operator==(const Pin&, const Pin&) = default;
};

inline constexpr size_t kPinTextMax = 256;
inline constexpr size_t kPinTokensMax = size_t{1} << 20;

std::string EncodePin(const Pin& pin, const Keyring& ring);
// Errors as Unseal's.
Result<Pin> DecodePin(std::string_view key, std::string_view value, const Keyring& ring);

}  // namespace kvgate::store
