// MetaStore: the small durable facts of a data directory: its hash seed, turns, ledger, pins
// and prefix memory. Values are the caller's bytes; each is in a named table.
// All functions may be called from any thread.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include <kvgate/result.h>

namespace kvgate::store {

enum class MetaTable : uint8_t { kDirectory, kTurns, kPrefixes, kLedger, kPins };

struct MetaWrite {
  std::string key;
  std::optional<std::string> value;  // absent: the key is deleted
};

class MetaStore {
 public:
  virtual ~MetaStore() = default;
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
};

}  // namespace kvgate::store
