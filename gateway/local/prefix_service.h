// PrefixService implements the operations on stored prefixes: list, remove, verify, pin, export and
// import. It needs a data directory but no engine, so that commands can call it when no server
// runs; with an engine, pins also hold in memory. It is thread-safe, and its parts must outlive it.
// Bodies are JSON.
//
// A caller who is not admin does not see prefixes and pins of other tenants: they are not listed,
// and their ids are answered like unknown ids.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "base/seal.h"
#include "engine/engine.h"
#include "engine/tier/prefix_transfer.h"
#include "gateway/access/access.h"
#include "gateway/dialect/form/decode_limits.h"
#include "gateway/dialect/own/prefix_requests.h"
#include "store/kv/kv_store.h"
#include "store/meta/pin_book.h"

namespace kvgate::local {

class PrefixService {
 public:
  static constexpr size_t kOwnersReadMax = 1024;  // blocks that one List may read from disk
  static constexpr size_t kOwnersMax = 16'384;    // remembered first blocks; about 300 bytes each
  struct Parts {
    store::kv::KvStore* kv = nullptr;      // null: no disk tier, because of no_disk_reason
    store::meta::PinBook* pins = nullptr;  // null: nothing can be pinned
    uint64_t hash_seed = 0;                // the data directory's
    const Keyring* keyring = nullptr;      // the data directory's; null if kv is
    std::string no_disk_reason = {};
    dialect::form::DecodeLimits limits = {};
  };
  explicit PrefixService(Parts parts) : parts_(std::move(parts)) {}

  static constexpr size_t kPreviewsMax = 64;  // prefixes that one List reads only for their preview
  // The engine's model as a list shows it: its name, and the text of given tokens.
  struct ModelWords {
    std::string name;
    std::function<std::string(const std::vector<TokenId>&)> text;  // thread-safe
  };
  // Makes pins hold in this engine's memory as well. Call it once; the engine must outlive this
  // object.
  void SetEngine(engine::Engine& engine, ModelWords words = {}) {
    words_ = std::move(words);
    hits_since_us_ = WallClock::NowUs();
    engine_.store(&engine);
  }
  const Parts& parts() const { return parts_; }
  // Returns a pin as the engine takes it; priority 0 ends it.
  engine::PinnedPrefix ToPinnedPrefix(const store::meta::Pin& pin, int priority) const;
  // Returns the salt with which the hashes of a tenant's KV begin. Without a data directory KV
  // cannot be imported or found again, so the tenant's name is enough.
  std::string SaltOf(std::string_view tenant) const;

  // Lists stored prefixes, newest first, then pins whose KV is not stored. Prefixes of the engine's
  // model show its name and, to their owner only, the words that they begin with. The owner is
  // known from a prefix's first block, which is read from disk once. "has_more" is true if
  // kOwnersReadMax reads were not enough; the next call continues from there. With an engine, which
  // may be waited for up to 0.7 s, each prefix also has its tier and its hits (README.md).
  Result<std::string> List(const access::Caller& caller);
  // Returns kInvalidArgument if the prefix is pinned and `force` is false; with `force` it is
  // unpinned.
  Result<std::string> Remove(const access::Caller& caller, std::string_view id, bool force);
  using Progress = std::function<void(uint64_t done, uint64_t total)>;
  // These two act on the prefixes of all tenants and, like StartImport, are for admins only.
  Result<std::string> RemoveAll(bool force);
  Result<std::string> Verify(const Progress& progress);

  // `body` is PinOptions. Pinning a stored prefix takes its tenant's credential. An admin may also
  // change the pin of one that is already pinned.
  Result<std::string> Pin(const access::Caller& caller, std::string_view id, std::string_view body);
  Result<std::string> Unpin(const access::Caller& caller, std::string_view id);

  // Exporting takes the tenant's credential; an admin may also export a pinned prefix.
  Result<std::unique_ptr<tier::PrefixExporter>> StartExport(const access::Caller& caller,
                                                            std::string_view id);
  // Accepts KV of the engine's model. Without an engine it accepts KV of the models that already
  // have KV stored, or of any model if there are none. `any` accepts KV of any model.
  Result<std::unique_ptr<tier::PrefixImporter>> StartImport(bool any = false);
  static std::string Describe(const tier::ImportReport& report);

  // Pins durably and in the engine's memory. `tokens` must be whole blocks.
  Result<void> KeepPin(const store::kv::KvKey& leaf, std::string tenant,
                       std::vector<TokenId> tokens, const dialect::own::PinOptions& options);

 private:
  Result<store::kv::KvStore*> RequireStore() const;
  Result<store::meta::PinBook*> RequirePins() const;
  tier::DirectoryKeys directory_keys() const;
  std::vector<tier::ImportTarget> ImportTargets(const store::kv::KvStore& kv) const;
  void Pin(const store::meta::Pin& pin, int priority) const;
  Result<void> EndPin(const BlockHash& leaf);
  // The block whose digest proves which tenant owns a prefix.
  struct FirstBlock {
    store::kv::KvKey key;
    std::vector<TokenId> tokens;
    PrefixDigest digest;
  };
  // Returns null if the block is not stored, or if it would have to be read and `reads_left` is 0.
  std::shared_ptr<const FirstBlock> FindFirstBlock(const store::kv::KvKey& first,
                                                   size_t& reads_left);
  bool Owns(const access::Caller& caller, const store::kv::KvPrefix& prefix, size_t& reads_left);
  // The fields of a listed prefix that the store does not know.
  struct Shown {
    std::string model = {};
    std::string preview = {};
  };
  Shown Show(const access::Caller& caller, const store::kv::KvPrefix& prefix,
             const store::meta::Pin* pin, size_t& reads_left);
  // Returns kNotFound, the same as for an unknown id, if the caller does not own the prefix.
  Result<void> RequireOwn(const access::Caller& caller, const BlockHash& leaf);
  std::vector<std::string> TenantsOf(const access::Caller& caller, const BlockHash& leaf) const;

  const Parts parts_;
  std::mutex owners_mutex_;
  std::map<store::kv::KvKey, std::shared_ptr<const FirstBlock>>
      first_blocks_;           // at most kOwnersMax
  ModelWords words_;           // set before engine_, which publishes it
  int64_t hits_since_us_ = 0;  // likewise
  std::atomic<engine::Engine*> engine_{nullptr};
};

// Removes a prefix from disk, back to where other prefixes or pins begin. Returns the number of
// records, which is 0 if something goes on from its last block, or `kv` is null. What is in memory
// ages there. A disk that refuses is logged.
uint64_t ForgetPrefix(store::kv::KvStore* kv, const BlockHash& last);

// Returns the tenant whose prefixes a request may share: a hash of the credential that it carries,
// or an empty text without one.
std::string TenantOf(std::string_view credential);

}  // namespace kvgate::local
