// KvStore: the KV blocks of a data directory. To what every block store does it adds the tree of
// prefixes: they are listed, pinned, removed and verified, and a parent is never evicted before its
// children. All functions may be called from any thread. Format: store/FORMAT.md.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "store/kv/block_store.h"

namespace kvgate::store::kv {

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

// What it does beside the contract of BlockStore:
// - Put: the records are readable at once and survive a process crash after the next Flush, which a
//   timer also triggers within StoreOptions.flush_interval. If a key exists with the same digest,
//   it is only touched; with another digest, the stored record stays. A record whose parent is
//   neither stored nor in this call is skipped, because no lookup could reach it. Evicts to stay
//   under the cap. If the disk refuses (kIo, kOverloaded), none of the call's records is kept, but
//   reads continue. kTooLarge means one record above 1/16 of the cap or a call above 1/3 of it;
//   kInvalidArgument, depth 0 with a parent or a greater depth without one.
// - CountHits: requests count at the last of the blocks that is stored, and later at a block behind
//   it that is put soon.
class KvStore : public BlockStore {
 public:
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
