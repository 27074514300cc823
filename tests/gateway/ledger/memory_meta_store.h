// A MetaStore in memory that can refuse to write, or hold a write until it is let go.
#pragma once

#include <atomic>
#include <chrono>
#include <map>
#include <mutex>
#include <string>
#include <thread>

#include "store/meta/meta_store.h"

namespace kvgate::store {

class MemoryMetaStore final : public MetaStore {
 public:
  std::atomic<bool> refuses{false};
  std::atomic<bool> holds{false};  // A write waits as long as this is true.
  std::atomic<int> num_batches{0};

  Result<void> Put(MetaTable table, std::string_view key, std::string_view value) override {
    const MetaWrite write{.key = std::string(key), .value = std::string(value)};
    return PutAll(table, {&write, 1});
  }
  Result<void> Delete(MetaTable table, std::string_view key) override {
    const MetaWrite write{.key = std::string(key), .value = std::nullopt};
    return PutAll(table, {&write, 1});
  }
  Result<void> PutAll(MetaTable table, std::span<const MetaWrite> writes) override {
    while (holds) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    if (refuses) return MakeError(ErrorCode::kIo, "memory", "the disk is full");
    const std::lock_guard lock(mutex_);
    ++num_batches;
    for (const MetaWrite& write : writes) {
      if (write.value) {
        tables_[table][write.key] = *write.value;
      } else {
        tables_[table].erase(write.key);
      }
    }
    return {};
  }
  Result<std::optional<std::string>> Get(MetaTable table, std::string_view key) const override {
    const std::lock_guard lock(mutex_);
    const auto& rows = tables_[table];
    const auto found = rows.find(std::string(key));
    return found == rows.end() ? std::nullopt : std::optional(found->second);
  }
  Result<void> Scan(MetaTable table, std::string_view prefix, const Visit& visit) const override {
    const std::lock_guard lock(mutex_);
    const auto& rows = tables_[table];
    for (auto at = rows.lower_bound(std::string(prefix)); at != rows.end(); ++at) {
      if (!at->first.starts_with(prefix) || !visit(at->first, at->second)) break;
    }
    return {};
  }
  Result<void> ScanBack(MetaTable table, const ScanBackArgs& args,
                        const Visit& visit) const override {
    const std::lock_guard lock(mutex_);
    const auto& rows = tables_[table];
    for (auto at = rows.rbegin(); at != rows.rend(); ++at) {
      if (!args.before.empty() && at->first >= args.before) continue;
      if (at->first.starts_with(args.prefix) && !visit(at->first, at->second)) break;
    }
    return {};
  }
  size_t CountRows(MetaTable table, std::string_view prefix) const {
    size_t count = 0;
    (void)Scan(table, prefix, [&](std::string_view, std::string_view) { return ++count > 0; });
    return count;
  }

 private:
  mutable std::mutex mutex_;
  mutable std::map<MetaTable, std::map<std::string, std::string>> tables_;
};

}  // namespace kvgate::store
