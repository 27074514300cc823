// A MetaStore in memory that can refuse a write, run out of memory in one, or hold one until it is
// released.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <mutex>
#include <new>
#include <string>

#include "store/meta/meta_store.h"
#include "tests/wait_until.h"

namespace kvgate::store {

class MemoryMetaStore final : public meta::MetaStore {
 public:
  std::atomic<bool> refuses{false};
  std::atomic<bool> has_no_memory{false};  // a write throws std::bad_alloc
  std::atomic<bool> holds{false};          // a write waits while this is true
  std::atomic<int> num_batches{0};
  std::atomic<int> num_refused{0};
  mutable std::atomic<int> num_scans{0};

  Result<void> PutAll(meta::MetaTable table, std::span<const meta::MetaWrite> writes) override {
    EXPECT_TRUE(test::WaitUntil([this] { return !holds; }, "the test lets a write go on"));
    if (has_no_memory || refuses) ++num_refused;
    if (has_no_memory) throw std::bad_alloc();
    if (refuses) return MakeError(ErrorCode::kIo, "memory", "the disk is full");
    const std::lock_guard lock(mutex_);
    ++num_batches;
    for (const meta::MetaWrite& write : writes) {
      if (write.value) {
        tables_[table][write.key] = *write.value;
      } else if (write.until.empty()) {
        tables_[table].erase(write.key);
      } else {
        auto& rows = tables_[table];
        rows.erase(rows.lower_bound(write.key), rows.lower_bound(write.until));
      }
    }
    return {};
  }
  Result<std::optional<std::string>> Get(meta::MetaTable table,
                                         std::string_view key) const override {
    const std::lock_guard lock(mutex_);
    const auto& rows = tables_[table];
    const auto found = rows.find(std::string(key));
    return found == rows.end() ? std::nullopt : std::optional(found->second);
  }
  Result<void> ScanFrom(meta::MetaTable table, const ScanArgs& args,
                        const Visit& visit) const override {
    const std::lock_guard lock(mutex_);
    ++num_scans;
    const auto& rows = tables_[table];
    const std::string first(std::max(args.prefix, args.from));
    for (auto at = rows.lower_bound(first); at != rows.end(); ++at) {
      if (!at->first.starts_with(args.prefix) || !visit(at->first, at->second)) break;
    }
    return {};
  }
  Result<void> ScanBack(meta::MetaTable table, const ScanBackArgs& args,
                        const Visit& visit) const override {
    const std::lock_guard lock(mutex_);
    const auto& rows = tables_[table];
    for (auto at = rows.rbegin(); at != rows.rend(); ++at) {
      if (!args.before.empty() && at->first >= args.before) continue;
      if (at->first.starts_with(args.prefix) && !visit(at->first, at->second)) break;
    }
    return {};
  }
  size_t CountRows(meta::MetaTable table, std::string_view prefix) const {
    size_t count = 0;
    (void)Scan(table, prefix, [&](std::string_view, std::string_view) { return ++count > 0; });
    return count;
  }

 private:
  mutable std::mutex mutex_;
  mutable std::map<meta::MetaTable, std::map<std::string, std::string>> tables_;
};

}  // namespace kvgate::store
