// MetaStore: the small durable data of a data directory: its hash seed, turns, ledger, pins and
// prefix memory. Values are opaque bytes; each belongs to a named table. All functions may be
// called from any thread. Prompt text and tokens are never stored in plain text: the writer seals
// them with keyring() and names rows by secrets derived from it.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "base/result.h"
#include "base/seal.h"

namespace kvgate::store::meta {

enum class MetaTable : uint8_t { kDirectory, kTurns, kPrefixes, kLedger, kPins };

struct MetaWrite {
  std::string key;
  std::optional<std::string> value;  // absent means that the key is deleted
  // If set, and there is no value: all keys from `key` to this one are deleted, and this one is
  // not. It costs as much as one key.
  std::string until = {};
};

struct MetaStoreStats {
  // Rows that were acknowledged and are gone, by damage to the log or a power loss without
  // store.sync.
  uint64_t num_lost = 0;
  // Log bytes skipped because they were damaged. A loss at the very front of the log leaves no gap
  // in the numbering of rows and shows only here.
  uint64_t damaged_log_bytes = 0;
  uint64_t num_damaged_reads = 0;  // reads that met a damaged table
  uint64_t num_write_errors = 0;
  std::string error;  // why nothing can be written at the moment; empty when healthy
};

class MetaStore {
 public:
  virtual ~MetaStore() = default;
  virtual MetaStoreStats Stats() const { return {}; }
  // Applies all writes or none, even if the process crashes. On return they survive a process
  // crash, and with sync = true also a power loss.
  virtual Result<void> PutAll(MetaTable table, std::span<const MetaWrite> writes) = 0;
  Result<void> Put(MetaTable table, std::string_view key, std::string_view value) {
    const MetaWrite write{.key = std::string(key), .value = std::string(value)};
    return PutAll(table, {&write, 1});
  }
  Result<void> Delete(MetaTable table, std::string_view key) {
    const MetaWrite write{.key = std::string(key), .value = std::nullopt};
    return PutAll(table, {&write, 1});
  }
  virtual Result<std::optional<std::string>> Get(MetaTable table, std::string_view key) const = 0;
  // The callback returns false to stop the scan.
  using Visit = std::function<bool(std::string_view key, std::string_view value)>;
  struct ScanArgs {
    std::string_view prefix;
    std::string_view from = {};  // a key; empty means from the first one with the prefix
  };
  // Visits the keys that start with the prefix, in key order, from args.from on. A scan that knows
  // its beginning need not pass over what was deleted in front of it.
  virtual Result<void> ScanFrom(MetaTable table, const ScanArgs& args,
                                const Visit& visit) const = 0;
  Result<void> Scan(MetaTable table, std::string_view prefix, const Visit& visit) const {
    return ScanFrom(table, {.prefix = prefix}, visit);
  }

  struct ScanBackArgs {
    std::string_view prefix;
    std::string before = {};  // a key; empty means from the last one with the prefix
  };
  // As Scan, but backwards, visiting only the keys before args.before.
  virtual Result<void> ScanBack(MetaTable table, const ScanBackArgs& args,
                                const Visit& visit) const = 0;

  // Removes replaced and deleted values of the table from the disk now, if the store would
  // otherwise keep them for a while. Called after plain text has been sealed.
  virtual Result<void> Compact(MetaTable) { return {}; }

  // Returns the data directory's keyring. Until SetKeyring is called, which must happen before the
  // store is shared between threads, it is a random one known to this process only.
  virtual const Keyring& keyring() const { return *keyring_; }
  std::shared_ptr<const Keyring> shared_keyring() const { return keyring_; }
  void SetKeyring(std::shared_ptr<const Keyring> keyring) { keyring_ = std::move(keyring); }

 private:
  std::shared_ptr<const Keyring> keyring_ = Keyring::Generate();
};

}  // namespace kvgate::store::meta
