// SealedValue: a value of the database whose body holds prompts' text or tokens. In front stand a
// checksum over all that follows and over its key, so that a damaged value, and one that strayed
// under another key, is found out; then magic, version and two bytes that are 0. The body is sealed
// with the directory's keyring for that key alone. FORMAT.md has them per kind. Any thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include <kvgate/result.h>
#include "base/seal.h"

#include "store/byte_codec.h"

namespace kvgate::store {

struct SealedKind {
  uint32_t magic = 0;
  uint16_t version = 0;
  uint16_t clear_version = 0;  // the one before bodies were sealed, which is still read; 0: none
  const char* purpose;         // of its keys: "pins"
  const char* source;          // of errors: "store.pins"
  const char* name;            // in their words: "a pin"
};

struct UnsealedValue {
  std::string body;
  bool was_clear = false;  // of clear_version: to be written again
};

std::string Seal(const SealedKind& kind, const Keyring& ring, std::string_view key,
                 std::string_view body);
// kDataLoss: cut short, damaged, or of another kind or version. kPermissionDenied: whole, and
// sealed with a secret that the ring has not: it may come back, so it is not to be deleted.
Result<UnsealedValue> Unseal(const SealedKind& kind, const Keyring& ring, std::string_view key,
                             std::string_view value);
// Whether it has a body sealed with a secret that the ring has not; says nothing of damage.
bool IsOfAnotherSecret(const SealedKind& kind, const Keyring& ring, std::string_view value);
// kDataLoss, in the words of the kind.
Error Damaged(const SealedKind& kind, std::string_view what);

}  // namespace kvgate::store
