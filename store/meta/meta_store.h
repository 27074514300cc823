// MetaStore: the small durable facts of a data directory: its hash seed, turns, ledger, pins
// and prefix memory. Values are the caller's bytes; each is in a named table.
// All functions may be called from any thread. Prompts' text and tokens do not stand in it in
// clear: who writes them seals them with keyring(), and names rows by secrets that it derives.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include <kvgate/result.h>
#include "base/seal.h"

namespace kvgate::store {

enum class MetaTable : uint8_t { kDirectory, kTurns, kPrefixes, kLedger, kPins };

struct MetaWrite {
  std::string key;
  std::optional<std::string> value;  // absent: the key is deleted
};

struct MetaStoreStats {
  // Rows that were acknowledged and are gone: damage of the log, or power lost without store.sync.
  uint64_t num_lost = 0;
  // Of the log, skipped because they were damaged. What was lost at its very front is no gap in the
  // numbering of rows, and shows only here.
  uint64_t damaged_log_bytes = 0;
  uint64_t num_damaged_reads = 0;  // reads that met a damaged table
  uint64_t num_write_errors = 0;
  std::string error;  // why nothing can be written now; empty when healthy
};

class MetaStore {
 public:
  virtual ~MetaStore() = default;
  virtual MetaStoreStats Stats() const { return {}; }
  // Durable against a process crash when it returns (and against power loss with sync = true).
  virtual Result<void> Put(MetaTable table, std::string_view key, std::string_view value) = 0;
  virtual Result<std::optional<std::string>> Get(MetaTable table, std::string_view key) const = 0;
  virtual Result<void> Delete(MetaTable table, std::string_view key) = 0;
  // Returns false to stop.
  using Visit = std::function<bool(std::string_view key, std::string_view value)>;
  // In key order from `prefix` while keys start with it.
  virtual Result<void> Scan(MetaTable table, std::string_view prefix, const Visit& visit) const = 0;

  // All of them or none, also after a crash.
  virtual Result<void> PutAll(MetaTable table, std::span<const MetaWrite> writes) = 0;
  struct ScanBackArgs {
    std::string_view prefix;
    std::string before = {};  // a key; empty: from the last one with the prefix
  };
  // As Scan, backwards: keys with the prefix that are before that one.
  virtual Result<void> ScanBack(MetaTable table, const ScanBackArgs& args,
                                const Visit& visit) const = 0;

  // What was replaced or deleted in the table leaves the disk now, where the store keeps it for a
  // while: after text in clear has been sealed.
  virtual Result<void> Compact(MetaTable) { return {}; }

  // The data directory's; a ring of this process alone until one is set, before it is shared.
  virtual const Keyring& keyring() const { return *keyring_; }
  std::shared_ptr<const Keyring> shared_keyring() const { return keyring_; }
  void SetKeyring(std::shared_ptr<const Keyring> keyring) { keyring_ = std::move(keyring); }

 private:
  std::shared_ptr<const Keyring> keyring_ = Keyring::Generate();
};

}  // namespace kvgate::store
