// KvStore: persistent KV blocks. It knows bytes and hashes, not tensors.
//
// A record is found by {fingerprint, hash} and proved by its digest: Get compares the SHA-256 chain
// digest of the whole prefix and the checksum of the payload before it returns a byte. A record
// that fails a check is dropped and counts as a miss. A parent is never evicted before its
// children. All functions may be called from any thread. Format: store/FORMAT.md.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/ids.h"
#include "base/result.h"

namespace kvgate::store::kv {

// The fingerprint says which payloads are interchangeable: same model, numerics, KV dtype, group
// and tenant salt.
struct KvKey {
  Fingerprint fingerprint;
  BlockHash hash;
  friend auto operator<=>(const KvKey&, const KvKey&) = default;
};

// One block to write. The payload is borrowed for the duration of the call.
struct KvRecord {
  KvKey key;
  // Hash of the preceding block; zero for the first. The parent of a window (group > 0) is group
  // 0's record of the same block, so its depth is one more than that record's.
  BlockHash parent;
  uint32_t depth = 0;      // number of blocks before it
  PrefixDigest digest;     // of the whole prefix, this block included
  uint32_t group = 0;      // KV group; 0 is the one whose blocks form prefix chains
  uint32_t shape_tag = 0;  // the caller's shape code; compared on Get
  // The block's tokens, at most kKvTokensMax. They are stored with it so that the prefix can be
  // named, exported and computed again; with an empty span it cannot.
  std::span<const TokenId> tokens = {};
  std::span<const std::byte> payload;
};

inline constexpr size_t kKvTokensMax = 32;

// One stored block that passed every check.
struct KvBlock {
  KvKey key;
  BlockHash parent;
  uint32_t depth = 0;
  PrefixDigest digest;
  uint32_t group = 0;
  uint32_t shape_tag = 0;
  std::vector<TokenId> tokens;
  std::vector<std::byte> payload;
};

struct KvLookup {
  KvKey key;
  PrefixDigest digest;
  uint32_t group = 0;
  uint32_t shape_tag = 0;
  std::span<std::byte> payload;  // output; its size must equal the record's payload size
};

struct KvStoreStats {
  uint64_t num_records = 0;
  uint64_t payload_bytes = 0;  // of live records
  uint64_t disk_bytes = 0;     // size of the directory's files
  uint64_t capacity_bytes = 0;
  uint64_t pinned_bytes = 0;  // estimated part of disk_bytes that eviction may not take
  uint64_t num_writes = 0;
  uint64_t num_hits = 0;
  uint64_t num_misses = 0;
  uint64_t num_dropped = 0;  // records that failed a check
  uint64_t num_evicted = 0;
  uint64_t num_write_errors = 0;
  uint64_t num_unflushed = 0;  // written but not yet flushed, so a crash would lose them
  uint64_t num_skipped = 0;    // put but not kept: no parent, or another prefix has this hash
  std::string error;           // why writing is disabled at the moment; empty when healthy
};

// Requests that read stored or cached KV, and what that spared them. Counts are in memory only and
// begin anew with each process.
struct KvUse {
  uint64_t num_hits = 0;
  uint64_t num_tokens = 0;  // that were read instead of computed
  uint64_t compute_us = 0;  // expected time of computing them
};

// A stored prefix. There is one per leaf of the block tree and one per pinned block inside it.
struct KvPrefix {
  KvKey leaf;
  BlockHash first;             // its first block; the fingerprint is the leaf's
  uint32_t num_blocks = 0;     // from the first block to the leaf
  uint64_t payload_bytes = 0;  // of those blocks; shared blocks count in each prefix
  int64_t last_used_unix = 0;  // seconds
  bool pinned = false;
  // Requests that read blocks which no other listed prefix has, or went on behind the leaf; of the
  // latter only this prefix's share of the tokens and the time counts.
  KvUse use = {};
  // Requests that read blocks of this prefix, but only such as others share.
  uint64_t num_shared_hits = 0;
};

struct KvVerifyReport {
  uint64_t num_checked = 0;
  uint64_t num_dropped = 0;
  uint64_t num_orphans = 0;  // records without a parent: unreachable, therefore dropped
};

class KvStore {
 public:
  virtual ~KvStore() = default;

  // Answers from an index in memory, without disk access. Does not prove the record.
  virtual bool Contains(const KvKey& key) const = 0;
  // Copies the records. They are readable at once and survive a process crash after the next Flush,
  // which a timer also triggers within StoreOptions.flush_interval. If a key exists with the same
  // digest, it is only touched; with another digest, the stored record stays. A record whose parent
  // is neither stored nor in this call is skipped, because no lookup could reach it. Evicts to stay
  // under the cap. Returns kIo or kOverloaded if the disk refuses: none of this call's records is
  // kept, but reads continue. Returns kTooLarge for one record above 1/16 of the cap or a call
  // above 1/3 of it, and kInvalidArgument for depth 0 with a parent or a greater depth without one.
  virtual Result<void> Put(std::span<const KvRecord> records) = 0;
  // Fills the payload from a proved record. Returns kNotFound if it is absent or has another
  // digest, shape or size; kDataLoss if it failed a check, in which case it has been dropped.
  virtual Result<void> Get(const KvLookup& lookup) = 0;
  // Marks the records as used now, which postpones their eviction.
  virtual void Touch(std::span<const KvKey> keys) = 0;
  // Counts requests that read the KV of these blocks, which are a prefix from its first block on,
  // from memory or from here. They count at the last of the blocks that is stored, and later at a
  // block behind it that is put soon. Changes nothing on disk.
  virtual void CountHits(std::span<const KvKey> keys, const KvUse& use) = 0;
  virtual Result<void> Flush() = 0;

  virtual KvStoreStats Stats() const = 0;
  virtual std::vector<KvPrefix> ListPrefixes() const = 0;
  // Returns the keys of a prefix, from its first block to the one whose hash is `last`, or
  // kNotFound.
  virtual Result<std::vector<KvKey>> Chain(const BlockHash& last) const = 0;
  // The same in time that depends on the prefix alone, not on how much is stored.
  virtual Result<std::vector<KvKey>> Chain(const KvKey& last) const = 0;
  // Returns the keys of the block's records in other KV groups.
  virtual std::vector<KvKey> WindowKeys(const KvKey& key) const = 0;
  // Returns one whole block. Errors as for Get.
  virtual Result<KvBlock> Read(const KvKey& key) = 0;
  // Removes a prefix's last block and every ancestor that no other prefix or pin needs, with their
  // windows. Returns the number of records removed, or kInvalidArgument if it is pinned.
  virtual Result<uint64_t> RemovePrefix(const BlockHash& leaf) = 0;
  // Returns kInvalidArgument if anything is pinned.
  virtual Result<uint64_t> RemoveAll() = 0;

  // Keeps this block, the blocks before it and their windows from eviction until `expires_unix` (0
  // means forever). The block need not be stored yet: then the pin takes effect when it is put.
  // Returns kTooLarge if pinned blocks would take more than half of the cap. Pins are held in
  // memory only; PinBook (pin_book.h) makes them durable.
  virtual Result<void> Pin(const KvKey& key, int64_t expires_unix) = 0;
  // Unknown keys are ignored.
  virtual void Unpin(const KvKey& key) = 0;

  // Reads every record and drops those that fail a check. `progress` is called with (done, total).
  virtual Result<KvVerifyReport> Verify(std::function<void(uint64_t, uint64_t)> progress) = 0;
};

}  // namespace kvgate::store::kv
