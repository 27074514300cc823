// SealedValue: what stands in front of a value in a database: a checksum over all that follows and
// over its key, so that a damaged value, and one that strayed under another key, is found out; then
// magic, version and two bytes that are 0. FORMAT.md has them per kind. Pure functions; any thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include <kvgate/result.h>

#include "store/byte_codec.h"

namespace kvgate::store {

struct SealedKind {
  uint32_t magic = 0;
  uint16_t version = 0;
  const char* source;  // of errors: "store.pins"
  const char* name;    // in their words: "a pin"
};

std::string Seal(const SealedKind& kind, std::string_view key, std::string_view body);
// A reader of the body. kDataLoss: cut short, damaged, or of another kind or version.
Result<ByteReader> Unseal(const SealedKind& kind, std::string_view key, std::string_view value);
// kDataLoss, in the words of the kind.
Error Damaged(const SealedKind& kind, std::string_view what);

}  // namespace kvgate::store
