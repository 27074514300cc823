// SimulatedMetaStore is a MetaStore on a simulated disk: writes fail as the simulation says, the
// process may die in the middle of one, a power loss takes back unsynced writes, and rows are
// damaged. It is for one thread.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "store/meta/meta_store.h"

namespace kvgate::store {

class SimulatedMetaStore final : public meta::MetaStore {
 public:
  using Below = std::function<uint64_t(uint64_t)>;  // returns a random number below its argument
  explicit SimulatedMetaStore(Below below) : below_(std::move(below)) {}

  bool syncs = false;          // acknowledged writes survive a power loss
  bool refuses = false;        // writes fail and change nothing
  int writes_until_kill = -1;  // writes before the one that ends the process; negative: none does
  uint64_t num_faults = 0;

  bool is_killed() const { return is_killed_; }
  void Revive() {
    is_killed_ = false;
    writes_until_kill = -1;
  }
  // Takes back some of the last unsynced writes. REQUIRES: no store is open on it.
  void LosePower() {
    for (uint64_t left = below_(undo_.size() + 1); left > 0; --left) {
      for (auto write = undo_.back().rbegin(); write != undo_.back().rend(); ++write) {
        Apply(*write);
      }
      undo_.pop_back();
      ++num_faults;
    }
    undo_.clear();
  }
  void Sync() { undo_.clear(); }
  // Flips one bit of the row. Returns false if there is no such row.
  bool Damage(meta::MetaTable table, const std::string& key) {
    const auto found = tables_[table].find(key);
    if (found == tables_[table].end() || found->second.empty()) return false;
    char& byte = found->second[below_(found->second.size())];
    byte = static_cast<char>(byte ^ (1 << below_(8)));
    ++num_faults;
    return true;
  }

  Result<void> PutAll(meta::MetaTable table, std::span<const meta::MetaWrite> writes) override {
    if (is_killed_) return Fails("the process has ended");
    const bool dies = writes_until_kill == 0;
    if (writes_until_kill > 0) --writes_until_kill;
    if (dies) {
      is_killed_ = true;
      ++num_faults;
    } else if (refuses) {
      ++num_faults;
      return Fails("the disk is full");
    }
    // A write in which the process dies may be applied or not, but only as a whole.
    if (!dies || below_(2) == 0) {
      std::vector<Change>& undo = undo_.emplace_back();
      for (const meta::MetaWrite& write : writes) {
        for (const std::string& key : KeysOf(table, write)) {
          undo.push_back(Apply({.table = table, .key = key, .value = write.value}));
        }
      }
      if (syncs) undo_.clear();
    }
    return dies ? Fails("the process ends in this write") : Result<void>();
  }
  Result<std::optional<std::string>> Get(meta::MetaTable table,
                                         std::string_view key) const override {
    const Rows& rows = tables_[table];
    const auto found = rows.find(key);
    return found == rows.end() ? std::nullopt : std::optional(found->second);
  }
  Result<void> ScanFrom(meta::MetaTable table, const ScanArgs& args,
                        const Visit& visit) const override {
    const Rows& rows = tables_[table];
    for (auto at = rows.lower_bound(std::max(args.prefix, args.from)); at != rows.end(); ++at) {
      if (!at->first.starts_with(args.prefix) || !visit(at->first, at->second)) break;
    }
    return {};
  }
  Result<void> ScanBack(meta::MetaTable table, const ScanBackArgs& args,
                        const Visit& visit) const override {
    const Rows& rows = tables_[table];
    auto at = args.before.empty() ? rows.end() : rows.lower_bound(args.before);
    while (at != rows.begin()) {
      --at;
      if (at->first.starts_with(args.prefix)) {
        if (!visit(at->first, at->second)) break;
      } else if (at->first < args.prefix) {
        break;
      }
    }
    return {};
  }

 private:
  using Rows = std::map<std::string, std::string, std::less<>>;
  struct Change {
    meta::MetaTable table;
    std::string key;
    std::optional<std::string> value;
  };

  // Returns the keys that the write names.
  std::vector<std::string> KeysOf(meta::MetaTable table, const meta::MetaWrite& write) const {
    if (write.value || write.until.empty()) return {write.key};
    std::vector<std::string> keys;
    const Rows& rows = tables_[table];
    for (auto at = rows.lower_bound(write.key); at != rows.end() && at->first < write.until; ++at) {
      keys.push_back(at->first);
    }
    return keys;
  }

  // Applies a change and returns the one that takes it back.
  Change Apply(const Change& change) {
    Rows& rows = tables_[change.table];
    const auto found = rows.find(change.key);
    Change undo{.table = change.table, .key = change.key, .value = std::nullopt};
    if (found != rows.end()) undo.value = found->second;
    if (change.value) {
      rows[change.key] = *change.value;
    } else if (found != rows.end()) {
      rows.erase(found);
    }
    return undo;
  }
  static Error Fails(std::string why) {
    return MakeError(ErrorCode::kIo, "simulated_meta", std::move(why));
  }

  const Below below_;
  bool is_killed_ = false;
  mutable std::map<meta::MetaTable, Rows> tables_;
  std::vector<std::vector<Change>> undo_;  // for the unsynced writes, the oldest first
};

}  // namespace kvgate::store
