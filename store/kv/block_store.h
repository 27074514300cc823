// BlockStore: where KV blocks are put and from where they come back. It knows bytes and hashes, not
// tensors. A data directory has one (kv_store.h), and gateways may share another one
// (store/shared/shared_block_store.h).
//
// A record is found by {fingerprint, hash} and proved by its digest: Get compares the SHA-256 chain
// digest of the whole prefix and the checksum of the payload before it returns a byte. A record
// that fails a check is dropped and counts as a miss. All functions may be called from any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/clock.h"
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

// The name of a record, by which a store that holds no index of its own finds it.
struct KvName {
  KvKey key;
  PrefixDigest digest;
  uint32_t group = 0;
};

struct KvLookup {
  KvKey key;
  PrefixDigest digest;
  uint32_t group = 0;
  uint32_t shape_tag = 0;
  std::span<std::byte> payload;  // output; its size must equal the record's payload size
};

// Requests that read stored or cached KV, and what that spared them. Counts are in memory only and
// begin anew with each process.
struct KvUse {
  uint64_t num_hits = 0;
  uint64_t num_tokens = 0;  // that were read instead of computed
  uint64_t compute_us = 0;  // expected time of computing them
};

class BlockStore {
 public:
  virtual ~BlockStore() = default;

  // Answers from memory, without I/O: true means that the store has the record as far as it knows.
  // Does not prove the record.
  virtual bool Contains(const KvKey& key) const = 0;
  // Finds out which of these records the store has, so that Contains knows, as far as that takes no
  // longer than until `deadline`. A store that has its whole index in memory has nothing to do.
  // Errors: kUnavailable or kDeadline if it did not answer.
  virtual Result<void> LookUp(std::span<const KvName> /*names*/,
                              SteadyClock::time_point /*deadline*/) {
    return {};
  }
  // True while the store cannot be reached: Contains is false for all, and Put and Get fail at
  // once.
  virtual bool is_paused() const { return false; }
  // Copies the records; those with a key that is stored already may be left out. Errors: kTooLarge
  // for a record or a call above what the store takes at once; kIo, kOverloaded or kUnavailable if
  // it can take nothing at the moment.
  virtual Result<void> Put(std::span<const KvRecord> records) = 0;
  // Fills the payload from a proved record. Returns kNotFound if it is absent or has another
  // digest, shape or size; kDataLoss if it failed a check, in which case it has been dropped.
  virtual Result<void> Get(const KvLookup& lookup) = 0;
  // Marks the records as used now, which postpones their eviction. Never waits.
  virtual void Touch(std::span<const KvKey> keys) = 0;
  // Counts requests that read the KV of these blocks, which are a prefix from its first block on,
  // from memory or from here. Changes nothing that is stored.
  virtual void CountHits(std::span<const KvKey> keys, const KvUse& use) = 0;
  // What was put before is kept when this process ends, as far as the store keeps it at all.
  virtual Result<void> Flush() = 0;
};

}  // namespace kvgate::store::kv
