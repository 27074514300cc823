// PrefixService: what can be done with stored prefixes: list, remove, verify, pin, export, import.
// It needs a data directory and no engine, so that commands can call it where no server runs; with
// an engine, pins also hold in memory. Thread-safe. The parts outlive it. Bodies are JSON.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <kvgate/result.h>

#include "engine/engine.h"
#include "engine/tier/prefix_transfer.h"
#include "gateway/protocol/decode_limits.h"
#include "gateway/protocol/prefix_requests.h"
#include "store/kv_store.h"
#include "store/pin_book.h"

namespace kvgate::service {

class PrefixService {
 public:
  struct Parts {
    store::KvStore* kv = nullptr;    // null: no disk tier, for the reason below
    store::PinBook* pins = nullptr;  // null: nothing can be pinned
    uint64_t hash_seed = 0;          // the data directory's
    std::string no_disk_reason = {};
    protocol::DecodeLimits limits = {};
  };
  explicit PrefixService(Parts parts) : parts_(std::move(parts)) {}

  // From then on pins hold in its memory, too. Call once; outlives this.
  void SetEngine(engine::Engine& engine) { engine_.store(&engine); }
  const Parts& parts() const { return parts_; }

  // Stored prefixes, newest first, then pins whose KV is not stored.
  Result<std::string> List() const;
  // kInvalidArgument: it is pinned, and `force` does not say to unpin it.
  Result<std::string> Remove(std::string_view id, bool force);
  Result<std::string> RemoveAll(bool force);
  using Progress = std::function<void(uint64_t done, uint64_t total)>;
  Result<std::string> Verify(const Progress& progress);

  // `body` is PinOptions. A stored prefix can be pinned with its tenant's credential; one that is
  // pinned already by anyone: then this changes the pin.
  Result<std::string> Pin(std::string_view id, std::string_view body, std::string_view credential);
  Result<std::string> Unpin(std::string_view id);

  // With its tenant's credential.
  Result<std::unique_ptr<tier::PrefixExporter>> StartExport(std::string_view id,
                                                            std::string_view credential);
  Result<std::unique_ptr<tier::PrefixImporter>> StartImport();
  static std::string Describe(const tier::ImportReport& report);

  // Pins durably, and in the engine's memory. `tokens` are whole blocks.
  Result<void> KeepPin(const store::KvKey& leaf, std::string salt, std::vector<TokenId> tokens,
                       const protocol::PinOptions& options);

 private:
  Result<store::KvStore*> RequireStore() const;
  Result<store::PinBook*> RequirePins() const;
  void Protect(const store::Pin& pin, int priority) const;

  const Parts parts_;
  std::atomic<engine::Engine*> engine_{nullptr};
};

// The engine's view of a pin; priority 0 ends it.
engine::Protection ToProtection(const store::Pin& pin, int priority);

// Whose prefixes a request may share: without keys, a hash of the credential that it carries.
std::string TenantOf(std::string_view credential);

}  // namespace kvgate::service
