// SealedValue: a database value whose body holds prompt text or tokens. It starts with a checksum
// over everything behind it and over its key, which reveals damage and values stored under a wrong
// key; then follow magic, version and two zero bytes. The body is sealed with the directory's
// keyring for that key alone. FORMAT.md specifies each kind. Safe on any thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"
#include "base/seal.h"
#include "store/file/byte_codec.h"

namespace kvgate::store::file {

struct SealedKind {
  uint32_t magic = 0;
  uint16_t version = 0;
  uint16_t clear_version = 0;  // last version with plain-text bodies, still readable; 0 means none
  uint16_t sealed_version_min = 0;  // the oldest sealed version still readable; 0 means `version`
  const char* purpose;              // of its keys, such as "pins"
  const char* source;               // of errors, such as "store.pins"
  const char* name;                 // used in error texts, such as "a pin"
};

struct UnsealedValue {
  std::string body;
  bool was_clear = false;  // had clear_version; should be sealed and written again
  uint16_t version = 0;
};

// `tenant` names the owner of a value that belongs to one, so that no other's place takes it.
std::string Seal(const SealedKind& kind, const Keyring& ring, std::string_view key,
                 std::string_view body, std::string_view tenant = {});
// Returns kDataLoss if the value is truncated, damaged or of another kind or version. Returns
// kPermissionDenied if it is intact but sealed with a secret that is not in the ring; do not delete
// it, because the secret may come back.
Result<UnsealedValue> Unseal(const SealedKind& kind, const Keyring& ring, std::string_view key,
                             std::string_view value, std::string_view tenant = {});
// Returns true if the body is sealed with a secret that is not in the ring. Does not check for
// damage.
bool IsOfAnotherSecret(const SealedKind& kind, const Keyring& ring, std::string_view value);
// Makes a kDataLoss error that names the kind.
Error Damaged(const SealedKind& kind, std::string_view what);

}  // namespace kvgate::store::file
