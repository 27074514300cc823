// The bytes of kv/: keys, records and index entries, as written down in store/FORMAT.md.
// It knows no database. Integers are little-endian, keys big-endian so that they sort as hex does.
// Pure functions; any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include <kvgate/ids.h>
#include <kvgate/result.h>

#include "store/kv_store.h"

namespace kvgate::store {

inline constexpr size_t kKvKeyBytes = 32;
inline constexpr size_t kKvHeaderBytes = 128;
inline constexpr size_t kKvIndexBytes = 88;
inline constexpr uint16_t kKvRecordVersion = 1;
inline constexpr uint16_t kKvIndexVersion = 1;
// What a record costs on disk beside its payload: header, blob framing with its key, the table
// entry, the index entry, and what block headers and filters add. Rounded up; used for the budget.
inline constexpr uint64_t kKvOverheadBytes = 384;

// What the index knows of a record.
struct KvIndexEntry {
  KvKey key;
  BlockHash parent;
  uint32_t depth = 0;
  PrefixDigest digest;
  uint32_t group = 0;
  uint32_t shape_tag = 0;
  uint64_t payload_bytes = 0;
  int64_t last_used_us = 0;  // microseconds since 1970
  friend bool operator==(const KvIndexEntry&, const KvIndexEntry&) = default;
};

std::string EncodeKvKey(const KvKey& key);
// kDataLoss unless exactly kKvKeyBytes.
Result<KvKey> DecodeKvKey(std::string_view bytes);

// Replaces `out` by header and payload, checksum in place.
void EncodeKvRecord(const KvRecord& record, std::string& out);

// The payload inside `bytes`, once magic, version, sizes, checksum and every field of `expected`
// hold. kDataLoss names the first check that failed.
Result<std::span<const std::byte>> ProveKvRecord(std::string_view bytes,
                                                 const KvIndexEntry& expected);

std::string EncodeKvIndexEntry(const KvIndexEntry& entry);
// kDataLoss when the size, the version or the checksum (over key and value) is wrong.
Result<KvIndexEntry> DecodeKvIndexEntry(std::string_view key, std::string_view value);

}  // namespace kvgate::store
