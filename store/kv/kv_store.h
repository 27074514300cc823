// KvStore: KV blocks at rest. It knows bytes and hashes, not tensors.
//
// A record is found by {fingerprint, hash}, and proved by its digest: Get compares the SHA-256
// chain digest of the whole prefix and the checksum of the payload before it returns a byte.
// Whatever fails a check is dropped and is a miss. A parent is never evicted before its children.
// All functions may be called from any thread. Format: store/FORMAT.md.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <kvgate/ids.h>
#include <kvgate/result.h>

namespace kvgate::store {

// What makes two payloads interchangeable: model, numerics, KV dtype, group, tenant salt.
struct KvKey {
  Fingerprint fingerprint;
  BlockHash hash;
  friend auto operator<=>(const KvKey&, const KvKey&) = default;
};

// One block to be written. The payload is borrowed for the duration of the call.
struct KvRecord {
  KvKey key;
  // Of the block before it; zero for the first. A window (group > 0) hangs from group 0's record of
  // its own block: then depth is one more than that one's.
  BlockHash parent;
  uint32_t depth = 0;      // blocks before it
  PrefixDigest digest;     // of the whole prefix, this block included
  uint32_t group = 0;      // KV group; 0: the one that prefixes are chains of
  uint32_t shape_tag = 0;  // the caller's shape code; compared on Get
  // What the block is of, at most kKvTokensMax. Kept with it, so that a stored prefix can be named,
  // exported and computed again; empty: it cannot.
  std::span<const TokenId> tokens = {};
  std::span<const std::byte> payload;
};

inline constexpr size_t kKvTokensMax = 32;

// One block as it is stored, proved.
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
  std::span<std::byte> payload;  // where the bytes go; its size must equal the record's
};

struct KvStoreStats {
  uint64_t num_records = 0;
  uint64_t payload_bytes = 0;  // live
  uint64_t disk_bytes = 0;     // files of the directory
  uint64_t capacity_bytes = 0;
  uint64_t pinned_bytes = 0;  // of disk_bytes, by estimate: what eviction may not take
  uint64_t num_writes = 0;
  uint64_t num_hits = 0;
  uint64_t num_misses = 0;
  uint64_t num_dropped = 0;  // records that failed a check
  uint64_t num_evicted = 0;
  uint64_t num_write_errors = 0;
  uint64_t num_unflushed = 0;  // records written that a crash would lose: not yet flushed
  uint64_t num_skipped = 0;    // put, but not kept: no parent, or the hash is another prefix's
  std::string error;           // why writing is off now; empty when healthy
};

// A stored prefix: one per leaf of the tree of blocks, and one per pinned block inside it.
struct KvPrefix {
  KvKey leaf;
  uint32_t num_blocks = 0;     // from the first block to the leaf
  uint64_t payload_bytes = 0;  // of those blocks (shared ones counted in each prefix)
  int64_t last_used_unix = 0;  // seconds
  bool pinned = false;
};

struct KvVerifyReport {
  uint64_t num_checked = 0;
  uint64_t num_dropped = 0;
  uint64_t num_orphans = 0;  // records whose parent is not there: unreachable, dropped
};

class KvStore {
 public:
  virtual ~KvStore() = default;

  // From an index in memory: never waits for the disk. Does not prove anything.
  virtual bool Contains(const KvKey& key) const = 0;
  // Copies the records; they are readable at once and survive a process crash after the next Flush
  // (explicit, or by the timer within StoreOptions.flush_interval). A key that is there already
  // with the same digest is only touched; with another digest the first one stays. A record whose
  // parent is neither stored nor in this call could never be reached and is skipped. Evicts to stay
  // under the cap. kIo / kOverloaded when the disk refuses: nothing of this call is kept, reading
  // goes on. kTooLarge: one record above 1/16 of the cap, or a call above 1/3 of it.
  // kInvalidArgument: depth 0 with a parent, or the reverse.
  virtual Result<void> Put(std::span<const KvRecord> records) = 0;
  // Fills the payload of a proved record. kNotFound: absent, or another prefix, shape or size.
  // kDataLoss: it was there and failed a check; it is gone now.
  virtual Result<void> Get(const KvLookup& lookup) = 0;
  // Marks as used now, for eviction.
  virtual void Touch(std::span<const KvKey> keys) = 0;
  virtual Result<void> Flush() = 0;

  virtual KvStoreStats Stats() const = 0;
  virtual std::vector<KvPrefix> ListPrefixes() const = 0;
  // The keys of a prefix, from its first block to the one whose hash is `last`. kNotFound.
  virtual Result<std::vector<KvKey>> Chain(const BlockHash& last) const = 0;
  // The keys of what other KV groups have of a block.
  virtual std::vector<KvKey> WindowKeys(const KvKey& key) const = 0;
  // One block, whole. Errors as Get's.
  virtual Result<KvBlock> Read(const KvKey& key) = 0;
  // Removes a prefix's last block and every ancestor that no other prefix or pin needs, with their
  // windows; returns the number of records. kInvalidArgument: it is pinned.
  virtual Result<uint64_t> RemovePrefix(const BlockHash& leaf) = 0;
  // kInvalidArgument: something is pinned.
  virtual Result<uint64_t> RemoveAll() = 0;

  // Eviction takes neither this block nor those before it, nor their windows, until `expires_unix`
  // (0: never). The block need not be stored yet: then the pin holds from the moment it is.
  // kTooLarge: pinned blocks would take more than half of the cap. In memory only: PinBook
  // (pin_book.h) keeps pins.
  virtual Result<void> Pin(const KvKey& key, int64_t expires_unix) = 0;
  // Unknown keys are ignored.
  virtual void Unpin(const KvKey& key) = 0;

  // Reads every record and drops what fails. `progress` is called with (done, total).
  virtual Result<KvVerifyReport> Verify(std::function<void(uint64_t, uint64_t)> progress) = 0;
};

}  // namespace kvgate::store
