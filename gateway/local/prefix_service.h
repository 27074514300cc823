// PrefixService: what can be done with stored prefixes: list, remove, verify, pin, export, import.
// It needs a data directory and no engine, so that commands can call it where no server runs; with
// an engine, pins also hold in memory. Thread-safe. The parts outlive it. Bodies are JSON.
//
// To a caller who is no admin the prefixes and pins of other tenants are not there: not listed, and
// their ids are answered as ids that nobody has.
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

#include <kvgate/result.h>
#include "base/seal.h"

#include "engine/engine.h"
#include "engine/tier/prefix_transfer.h"
#include "gateway/protocol/decode_limits.h"
#include "gateway/protocol/prefix_requests.h"
#include "gateway/access/access.h"
#include "store/kv/kv_store.h"
#include "store/meta/pin_book.h"

namespace kvgate::service {

class PrefixService {
 public:
  static constexpr size_t kOwnersReadMax = 1024;  // blocks that one List reads
  static constexpr size_t kOwnersMax = 16'384;    // remembered; about 300 bytes each
  struct Parts {
    store::KvStore* kv = nullptr;      // null: no disk tier, for the reason below
    store::PinBook* pins = nullptr;    // null: nothing can be pinned
    uint64_t hash_seed = 0;            // the data directory's
    const Keyring* keyring = nullptr;  // likewise; null where kv is
    std::string no_disk_reason = {};
    protocol::DecodeLimits limits = {};
  };
  explicit PrefixService(Parts parts) : parts_(std::move(parts)) {}

  static constexpr size_t kPreviewsMax = 64;  // of prefixes that one List reads for that alone
  // What of its model a list shows: its name, and the words that a prefix begins with.
  struct ModelWords {
    std::string name;
    std::function<std::string(const std::vector<TokenId>&)> text;  // thread-safe
  };
  // From then on pins hold in its memory, too. Call once; outlives this.
  void SetEngine(engine::Engine& engine, ModelWords words = {}) {
    words_ = std::move(words);
    engine_.store(&engine);
  }
  const Parts& parts() const { return parts_; }
  // The engine's view of a pin; priority 0 ends it.
  engine::Protection ToProtection(const store::Pin& pin, int priority) const;
  // What the hashes of a tenant's KV begin with. Without a data directory nothing can be brought in
  // from outside or found again: then the tenant's name is enough.
  std::string SaltOf(std::string_view tenant) const;

  // Stored prefixes, newest first, then pins whose KV is not stored; those of the engine's model
  // with its name and, for whose it is and nobody else, the words that they begin with. Whose a
  // prefix is, its first block tells, which is read from disk once: "has_more" says that
  // kOwnersReadMax were not enough, and that asking again goes on from there.
  Result<std::string> List(const Caller& caller);
  // kInvalidArgument: it is pinned, and `force` does not say to unpin it.
  Result<std::string> Remove(const Caller& caller, std::string_view id, bool force);
  using Progress = std::function<void(uint64_t done, uint64_t total)>;
  // Admins' alone, as StartImport is: of everybody's prefixes.
  Result<std::string> RemoveAll(bool force);
  Result<std::string> Verify(const Progress& progress);

  // `body` is PinOptions. A stored prefix can be pinned with its tenant's credential; one that is
  // pinned already also by an admin: then this changes the pin.
  Result<std::string> Pin(const Caller& caller, std::string_view id, std::string_view body);
  Result<std::string> Unpin(const Caller& caller, std::string_view id);

  // With its tenant's credential; a pinned one also by an admin.
  Result<std::unique_ptr<tier::PrefixExporter>> StartExport(const Caller& caller,
                                                            std::string_view id);
  // Takes KV of the engine's model; without an engine, of the models that something is stored of
  // already, if there are any. `any`: of whatever model.
  Result<std::unique_ptr<tier::PrefixImporter>> StartImport(bool any = false);
  static std::string Describe(const tier::ImportReport& report);

  // Pins durably, and in the engine's memory. `tokens` are whole blocks.
  Result<void> KeepPin(const store::KvKey& leaf, std::string tenant, std::vector<TokenId> tokens,
                       const protocol::PinOptions& options);

 private:
  Result<store::KvStore*> RequireStore() const;
  Result<store::PinBook*> RequirePins() const;
  tier::DirectoryKeys directory_keys() const;
  std::vector<tier::ImportTarget> ImportTargets(const store::KvStore& kv) const;
  void Protect(const store::Pin& pin, int priority) const;
  Result<void> EndPin(const BlockHash& leaf);
  // What proves whose a prefix is.
  struct FirstBlock {
    store::KvKey key;
    std::vector<TokenId> tokens;
    PrefixDigest digest;
  };
  // Null: it is not stored, or `reads_left` is 0 and it would have to be read.
  std::shared_ptr<const FirstBlock> FindFirstBlock(const BlockHash& leaf, size_t& reads_left);
  bool Owns(const Caller& caller, const BlockHash& leaf, size_t& reads_left);
  // What a list says of a prefix beside what the store knows of it.
  struct Shown {
    std::string model = {};
    std::string preview = {};
  };
  Shown Show(const Caller& caller, const store::KvPrefix& prefix, const store::Pin* pin,
             size_t& reads_left);
  // kNotFound, as of an id that nobody has.
  Result<void> RequireOwn(const Caller& caller, const BlockHash& leaf);
  std::vector<std::string> TenantsOf(const Caller& caller, const BlockHash& leaf) const;

  const Parts parts_;
  std::mutex owners_mutex_;
  std::map<store::KvKey, std::shared_ptr<const FirstBlock>> first_blocks_;  // at most kOwnersMax
  ModelWords words_;                                                        // set before engine_ is
  std::atomic<engine::Engine*> engine_{nullptr};
};

// Whose prefixes a request may share: without keys, a hash of the credential that it carries.
std::string TenantOf(std::string_view credential);

}  // namespace kvgate::service
