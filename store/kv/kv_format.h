// The byte formats of kv/: keys, records and index entries, as specified in store/FORMAT.md. It
// knows no database. Integers are little-endian, keys big-endian so that they sort as hex does.
// Pure functions; safe on any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "store/kv/kv_store.h"

namespace kvgate::store::kv {

inline constexpr size_t kKvKeyBytes = 32;
inline constexpr size_t kKvHeaderBytes = 128;
inline constexpr size_t kKvIndexBytes = 88;
inline constexpr uint16_t kKvRecordVersion = 2;
inline constexpr uint16_t kKvIndexVersion = 1;
// Disk bytes that a record costs beside its payload: header, token ids, blob framing with its key,
// the table entry, the index entry, and a share of block headers and filters. It is rounded up and
// used for the disk budget.
inline constexpr uint64_t kKvOverheadBytes = 512;

// One record as the index knows it.
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
// Returns kDataLoss unless `bytes` has exactly kKvKeyBytes.
Result<KvKey> DecodeKvKey(std::string_view bytes);

// Replaces `out` by header, token ids and payload; the checksum is filled in.
void EncodeKvRecord(const KvRecord& record, std::string& out);

// Views into the bytes of a record that passed every check. The token ids may be unaligned.
struct ProvedRecord {
  std::span<const std::byte> token_bytes;
  std::span<const std::byte> payload;
};
// Returns the parts of `bytes` if magic, version, sizes, checksum and every field of `expected`
// match. Otherwise returns kDataLoss, whose detail names the first check that failed.
Result<ProvedRecord> ProveKvRecord(std::string_view bytes, const KvIndexEntry& expected);
std::vector<TokenId> DecodeTokens(std::span<const std::byte> token_bytes);

std::string EncodeKvIndexEntry(const KvIndexEntry& entry);
// Returns kDataLoss if the size, the version or the checksum (over key and value) is wrong.
Result<KvIndexEntry> DecodeKvIndexEntry(std::string_view key, std::string_view value);

}  // namespace kvgate::store::kv
