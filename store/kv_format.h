// The bytes of kv/: keys, records and index entries, as written down in store/FORMAT.md.
// It knows no database. Integers are little-endian, keys big-endian so that they sort as hex does.
// Pure functions; any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <kvgate/ids.h>
#include <kvgate/result.h>

#include "store/kv/kv_store.h"

namespace kvgate::store {

inline constexpr size_t kKvKeyBytes = 32;
inline constexpr size_t kKvHeaderBytes = 128;
inline constexpr size_t kKvIndexBytes = 88;
inline constexpr uint16_t kKvRecordVersion = 2;
inline constexpr uint16_t kKvIndexVersion = 1;
// What a record costs on disk beside its payload: header, token ids, blob framing with its key, the
// table entry, the index entry, and what block headers and filters add. Rounded up; for the budget.
inline constexpr uint64_t kKvOverheadBytes = 512;

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

// Replaces `out` by header, token ids and payload, checksum in place.
void EncodeKvRecord(const KvRecord& record, std::string& out);

// What stands inside a record; views into its bytes. The token ids may be unaligned.
struct ProvedRecord {
  std::span<const std::byte> token_bytes;
  std::span<const std::byte> payload;
};
// The parts of `bytes`, once magic, version, sizes, checksum and every field of `expected` hold.
// kDataLoss names the first check that failed.
Result<ProvedRecord> ProveKvRecord(std::string_view bytes, const KvIndexEntry& expected);
// The ids in `token_bytes`.
std::vector<TokenId> DecodeTokens(std::span<const std::byte> token_bytes);

std::string EncodeKvIndexEntry(const KvIndexEntry& entry);
// kDataLoss when the size, the version or the checksum (over key and value) is wrong.
Result<KvIndexEntry> DecodeKvIndexEntry(std::string_view key, std::string_view value);

}  // namespace kvgate::store
