// SharedBlockStore: KV blocks in a store that gateways share (RespClient), so that a prefix which
// one of them computed is restored by all.
//
// A block is one value under kvg:b:FINGERPRINT:DIGEST[:GROUP]. Its digest begins with the tenant's
// secret salt, so only gateways with the same secret find the same blocks. The value is sealed with
// that secret for this very key: what is damaged, forged, or moved from another key does not open,
// is deleted, and counts as a miss. store/FORMAT.md specifies the bytes.
//
// The store fails open. Every call has a deadline; after several failures the client pauses, and
// the store then has nothing and takes nothing until a trial succeeds. The server evicts: values
// have a time to live, which a hit renews, and a server with maxmemory needs a policy that evicts
// keys with one (volatile-lru).
//
// There is no index here. What was found by LookUp, read or written is remembered for ten minutes;
// all else counts as absent. All functions may be called from any thread.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/lru_map.h"
#include "base/result.h"
#include "base/seal.h"
#include "store/kv/block_store.h"
#include "store/kv/kv_uses.h"
#include "store/remote/resp_client.h"

namespace kvgate::store::shared {

struct SharedBlockStats {
  uint64_t num_looked_up = 0;  // blocks that were asked for
  uint64_t num_found = 0;      // of those
  uint64_t num_reads = 0;      // blocks that came and passed every check
  uint64_t num_misses = 0;     // that were not there, or not the ones asked for
  uint64_t num_dropped = 0;    // that failed a check, and were deleted
  uint64_t num_writes = 0;
  uint64_t num_present = 0;  // not written, because another gateway had
  uint64_t num_write_errors = 0;
  uint64_t read_bytes = 0;     // payload
  uint64_t written_bytes = 0;  // payload
};

class SharedBlockStore final : public kv::BlockStore {
 public:
  struct Options {
    std::chrono::seconds time_to_live{7 * 86'400};   // of a block since its last hit; 0: no limit
    std::chrono::milliseconds call_time_max{2'000};  // of a read, or a write of up to 8 MiB
    std::chrono::seconds remembered{600};            // what is known to be there
    size_t known_max = size_t{1} << 18;              // blocks remembered
  };
  // The client and the keyring outlive it.
  SharedBlockStore(const Options& options, remote::RespClient& client, const Keyring& ring);

  bool Contains(const kv::KvKey& key) const override;
  Result<void> LookUp(std::span<const kv::KvName> names, SteadyClock::time_point deadline) override;
  bool is_paused() const override { return client_.is_paused(); }
  // Leaves out records that are there already. kOverloaded if the server has no memory for more.
  Result<void> Put(std::span<const kv::KvRecord> records) override;
  Result<void> Get(const kv::KvLookup& lookup) override;
  void Touch(std::span<const kv::KvKey>) override {}  // hits renew the time to live
  void CountHits(std::span<const kv::KvKey>, const kv::KvUse&) override {}
  Result<void> Flush() override { return {}; }  // Put has waited for the server

  SharedBlockStats Stats() const;
  remote::RespStats ClientStats() const { return client_.Stats(); }

 private:
  Result<std::vector<bool>> FindPresent(std::span<const std::string> keys,
                                        SteadyClock::time_point deadline);
  Result<void> PutSome(std::span<const kv::KvRecord> records, std::span<const std::string> keys);
  Error Drop(const kv::KvLookup& lookup, const std::string& key, const Error& cause);
  void Remember(const kv::KvKey& key);
  void Forget(const kv::KvKey& key);

  const Options options_;
  const std::string time_to_live_;  // in seconds, as a command has it
  remote::RespClient& client_;
  const Keyring& ring_;
  mutable std::mutex mutex_;                                         // guards the following
  LruMap<kv::KvKey, SteadyClock::time_point, kv::KvKeyHash> known_;  // until when
  SharedBlockStats stats_;
};

}  // namespace kvgate::store::shared
