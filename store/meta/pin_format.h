// The byte format of a pin, which keeps a prefix under a name, as specified in store/FORMAT.md. It
// knows no database. Pure functions; safe on any thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "base/seal.h"
#include "store/file/sealed_kinds.h"
#include "store/kv/kv_store.h"

namespace kvgate::store::meta {

// Token ids and tenant are included so that the prefix can be computed again if its KV is gone, was
// made with other numerics, or belongs to the salt of another secret.
struct Pin {
  kv::KvKey leaf;               // its hash is the pin's id
  Fingerprint model;            // weights and tokenizer, without numerics; zero if unknown
  std::string name;             // at most kPinTextMax bytes; may be empty
  std::string version;          // likewise
  std::string tenant;           // the owner, from which the salt is derived
  int32_t priority = 0;         // higher: loaded first, evicted from memory last
  int64_t expires_unix = 0;     // 0 means never
  int64_t created_us = 0;       // microseconds since 1970; orders pins with the same name
  std::vector<TokenId> tokens;  // of whole blocks
  friend bool operator==(const Pin&, const Pin&) = default;
};

inline constexpr size_t kPinTextMax = 256;
inline constexpr size_t kPinTokensMax = size_t{1} << 20;

std::string EncodePin(const Pin& pin, const Keyring& ring);
// Returns the errors of Unseal.
Result<Pin> DecodePin(std::string_view key, std::string_view value, const Keyring& ring);

}  // namespace kvgate::store::meta
