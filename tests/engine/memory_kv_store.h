// MemoryKvStore is a KvStore in memory for engine tests: it keeps the contract of the real one and
// has switches for faults.
#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <map>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "store/kv/kv_store.h"
#include "tests/manual_clock.h"
#include "tests/wait_until.h"

namespace kvgate::store {

class MemoryKvStore : public kv::KvStore {
 public:
  std::atomic<bool> fail_put{false};
  std::atomic<int> fail_gets_from_depth{-1};  // records at or past this depth are damaged
  std::atomic<int> fail_gets_of_group{-1};    // records of this KV group are damaged
  std::atomic<int> get_delay_ms{0};
  std::atomic<int> first_get_delay_ms{0};  // delay of the next Get alone
  std::atomic<int> put_delay_ms{0};
  std::atomic<int> get_takes_us{0};     // time of a Get that passes on a test::ManualClock
  std::atomic<bool> holds_gets{false};  // a Get waits while this is true
  std::atomic<int> num_gets_held{0};    // since the test began

  bool Contains(const kv::KvKey& key) const override {
    const std::lock_guard lock(mutex_);
    return records_.contains(key);
  }
  Result<void> Put(std::span<const kv::KvRecord> records) override {
    std::this_thread::sleep_for(std::chrono::milliseconds(put_delay_ms));
    const std::lock_guard lock(mutex_);
    if (fail_put) return MakeError(ErrorCode::kIo, "memory_kv_store", "put fails by request");
    for (const kv::KvRecord& record : records) {
      Stored& stored = records_[record.key];
      stored.record = record;
      stored.payload.assign(record.payload.begin(), record.payload.end());
      stored.tokens.assign(record.tokens.begin(), record.tokens.end());
      ++stats_.num_writes;
    }
    return {};
  }
  Result<void> Get(const kv::KvLookup& lookup) override {
    std::this_thread::sleep_for(
        std::chrono::milliseconds(get_delay_ms + first_get_delay_ms.exchange(0)));
    if (holds_gets) {
      ++num_gets_held;
      EXPECT_TRUE(test::WaitUntil([this] { return !holds_gets; }, "the test lets a Get go on"));
      // They go on together: of two readers, one that slept longer would see the time that the
      // other's reads take as its own.
      ++num_gets_let_go_;
      while (num_gets_let_go_ < num_gets_held) std::this_thread::yield();
    }
    if (get_takes_us > 0) test::ManualClock::Advance(std::chrono::microseconds(get_takes_us));
    const std::lock_guard lock(mutex_);
    const auto found = records_.find(lookup.key);
    const auto miss = [this](ErrorCode code) {
      ++stats_.num_misses;
      return MakeError(code, "memory_kv_store", "miss");
    };
    if (found == records_.end()) return miss(ErrorCode::kNotFound);
    const Stored& stored = found->second;
    if (fail_gets_from_depth >= 0 &&
        stored.record.depth >= static_cast<uint32_t>(fail_gets_from_depth)) {
      return miss(ErrorCode::kDataLoss);
    }
    if (fail_gets_of_group == static_cast<int>(stored.record.group)) {
      return miss(ErrorCode::kDataLoss);
    }
    if (stored.record.digest != lookup.digest || stored.record.group != lookup.group ||
        stored.record.shape_tag != lookup.shape_tag ||
        stored.payload.size() != lookup.payload.size()) {
      return miss(ErrorCode::kNotFound);
    }
    std::memcpy(lookup.payload.data(), stored.payload.data(), stored.payload.size());
    ++stats_.num_hits;
    return {};
  }
  // Removes the records of a KV group at or past this depth.
  void RemoveGroup(uint32_t group, uint32_t depth) {
    const std::lock_guard lock(mutex_);
    std::erase_if(records_, [&](const auto& item) {
      const kv::KvRecord& record = item.second.record;
      return record.group == group && record.depth >= depth;
    });
  }
  void Touch(std::span<const kv::KvKey>) override {}
  void CountHits(std::span<const kv::KvKey> keys, const kv::KvUse& use) override {
    const std::lock_guard lock(mutex_);
    if (!keys.empty()) hits_.emplace_back(std::vector(keys.begin(), keys.end()), use);
  }
  // The hits that were counted, oldest first.
  std::vector<std::pair<std::vector<kv::KvKey>, kv::KvUse>> hits() const {
    const std::lock_guard lock(mutex_);
    return hits_;
  }
  Result<void> Flush() override { return {}; }
  kv::KvStoreStats Stats() const override {
    const std::lock_guard lock(mutex_);
    kv::KvStoreStats stats = stats_;
    stats.num_records = records_.size();
    return stats;
  }
  std::vector<kv::KvPrefix> ListPrefixes() const override { return {}; }
  Result<std::vector<kv::KvKey>> Chain(const BlockHash& last) const override {
    const std::lock_guard lock(mutex_);
    std::vector<kv::KvKey> keys;
    for (const auto& [key, stored] : records_) {
      if (key.hash == last) keys.push_back(key);
    }
    while (!keys.empty()) {
      const auto found = records_.find(keys.front());
      if (found == records_.end()) break;
      if (found->second.record.depth == 0) return keys;
      keys.insert(keys.begin(), kv::KvKey{keys.back().fingerprint, found->second.record.parent});
    }
    return MakeError(ErrorCode::kNotFound, "memory_kv_store", "no such prefix");
  }
  Result<std::vector<kv::KvKey>> Chain(const kv::KvKey& last) const override {
    return Chain(last.hash);
  }
  std::vector<kv::KvKey> WindowKeys(const kv::KvKey& key) const override {
    const std::lock_guard lock(mutex_);
    std::vector<kv::KvKey> keys;
    for (const auto& [other, stored] : records_) {
      if (stored.record.group != 0 && stored.record.parent == key.hash) keys.push_back(other);
    }
    return keys;
  }
  Result<kv::KvBlock> Read(const kv::KvKey& key) override {
    const std::lock_guard lock(mutex_);
    const auto found = records_.find(key);
    if (found == records_.end()) return MakeError(ErrorCode::kNotFound, "memory_kv_store", "miss");
    const Stored& stored = found->second;
    return kv::KvBlock{.key = key,
                       .parent = stored.record.parent,
                       .depth = stored.record.depth,
                       .digest = stored.record.digest,
                       .group = stored.record.group,
                       .shape_tag = stored.record.shape_tag,
                       .tokens = stored.tokens,
                       .payload = stored.payload};
  }
  Result<void> Pin(const kv::KvKey&, int64_t) override { return {}; }
  void Unpin(const kv::KvKey&) override {}
  Result<uint64_t> RemovePrefix(const BlockHash&) override { return uint64_t{0}; }
  Result<uint64_t> RemoveAll() override {
    const std::lock_guard lock(mutex_);
    const uint64_t count = records_.size();
    records_.clear();
    return count;
  }
  Result<kv::KvVerifyReport> Verify(std::function<void(uint64_t, uint64_t)>) override {
    return kv::KvVerifyReport{};
  }

 private:
  struct Stored {
    kv::KvRecord record;
    std::vector<TokenId> tokens;
    std::vector<std::byte> payload;
  };
  mutable std::mutex mutex_;
  std::map<kv::KvKey, Stored> records_;
  std::vector<std::pair<std::vector<kv::KvKey>, kv::KvUse>> hits_;
  std::atomic<int> num_gets_let_go_{0};
  kv::KvStoreStats stats_;
};

}  // namespace kvgate::store
