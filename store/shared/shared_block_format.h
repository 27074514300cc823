// The names and values of shared KV blocks, as store/FORMAT.md specifies them. Pure functions; safe
// on any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/ids.h"
#include "base/result.h"
#include "base/seal.h"
#include "store/kv/block_store.h"

namespace kvgate::store::shared {

inline constexpr uint16_t kSharedBlockVersion = 1;

// "kvg:b:FINGERPRINT:DIGEST", in hex, and ":GROUP" for a KV group other than 0.
std::string SharedBlockKey(const Fingerprint& fingerprint, const PrefixDigest& digest,
                           uint32_t group);

// What a value says about its block.
struct SharedBlock {
  Fingerprint fingerprint;
  PrefixDigest digest;
  uint32_t group = 0;
  uint32_t shape_tag = 0;
  friend bool operator==(const SharedBlock&, const SharedBlock&) = default;
};

// Returns the value of a block under its key.
std::string SealSharedBlock(const Keyring& ring, std::string_view key, const SharedBlock& block,
                            std::span<const std::byte> payload);
// Fills `payload` if the value opens under this key, is of this version, and is of this block and
// size. Errors: kPermissionDenied if another secret sealed it, kUnsupported for another version,
// kNotFound for a block of another shape or size, kDataLoss for anything else.
Result<void> OpenSharedBlock(const Keyring& ring, std::string_view key, std::string_view value,
                             const SharedBlock& expected, std::span<std::byte> payload);

}  // namespace kvgate::store::shared
