// SimulatedStore is a KvStore on a simulated disk: a put is readable at once and survives a crash
// after the next Flush; calls fail as the simulation says; leaves are evicted. It is for one
// thread.
#pragma once

#include <cstring>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include "store/kv/kv_store.h"

namespace kvgate::store {

class SimulatedStore final : public kv::KvStore {
 public:
  bool refuses_puts = false;
  int gets_to_damage = 0;  // the number of reads that find a damaged record
  uint64_t num_faults = 0;

  bool Contains(const kv::KvKey& key) const override { return records_.contains(key); }
  Result<void> Put(std::span<const kv::KvRecord> records) override {
    if (refuses_puts) {
      ++num_faults;
      return MakeError(ErrorCode::kIo, "simulated_store", "put fails by request");
    }
    for (const kv::KvRecord& record : records) {
      const bool has_parent =
          record.depth == 0 || records_.contains({record.key.fingerprint, record.parent});
      if (!has_parent || records_.contains(record.key)) continue;
      Stored& stored = records_[record.key];
      stored.record = record;
      stored.payload.assign(record.payload.begin(), record.payload.end());
      stored.tokens.assign(record.tokens.begin(), record.tokens.end());
    }
    return {};
  }
  Result<void> Get(const kv::KvLookup& lookup) override {
    const auto found = records_.find(lookup.key);
    const auto miss = [](ErrorCode code) { return MakeError(code, "simulated_store", "miss"); };
    if (found == records_.end()) return miss(ErrorCode::kNotFound);
    const Stored& stored = found->second;
    if (gets_to_damage > 0) {
      --gets_to_damage;
      ++num_faults;
      records_.erase(found);
      // A read that ends in the middle of a record leaves such a payload.
      std::memset(lookup.payload.data(), 0x5a, lookup.payload.size() / 2);
      return miss(ErrorCode::kDataLoss);
    }
    if (stored.record.digest != lookup.digest || stored.record.group != lookup.group ||
        stored.record.shape_tag != lookup.shape_tag ||
        stored.payload.size() != lookup.payload.size()) {
      return miss(ErrorCode::kNotFound);
    }
    std::memcpy(lookup.payload.data(), stored.payload.data(), stored.payload.size());
    return {};
  }
  Result<void> Flush() override {
    for (auto& [key, stored] : records_) stored.is_durable = true;
    return {};
  }
  // Drops what a crash of the process loses.
  void LoseUnflushed() {
    num_faults += std::erase_if(records_, [](const auto& item) { return !item.second.is_durable; });
  }
  // Evicts some records that have no children.
  void EvictLeaves(size_t count) {
    std::map<std::pair<Fingerprint, BlockHash>, int> num_children;
    for (const auto& [key, stored] : records_) {
      if (stored.record.depth > 0) ++num_children[{key.fingerprint, stored.record.parent}];
    }
    for (auto it = records_.begin(); it != records_.end() && count > 0;) {
      const bool is_leaf = !num_children.contains({it->first.fingerprint, it->first.hash});
      it = is_leaf ? (--count, records_.erase(it)) : std::next(it);
    }
  }
  size_t num_records() const { return records_.size(); }

  void Touch(std::span<const kv::KvKey>) override {}
  void CountHits(std::span<const kv::KvKey>, const kv::KvUse&) override {}
  kv::KvStoreStats Stats() const override {
    kv::KvStoreStats stats;
    stats.num_records = records_.size();
    return stats;
  }
  std::vector<kv::KvPrefix> ListPrefixes() const override { return {}; }
  Result<std::vector<kv::KvKey>> Chain(const BlockHash&) const override { return Absent(); }
  Result<std::vector<kv::KvKey>> Chain(const kv::KvKey&) const override { return Absent(); }
  std::vector<kv::KvKey> WindowKeys(const kv::KvKey&) const override { return {}; }
  Result<kv::KvBlock> Read(const kv::KvKey&) override { return Absent(); }
  Result<uint64_t> RemovePrefix(const BlockHash&) override { return Absent(); }
  Result<uint64_t> RemoveAll() override {
    return static_cast<uint64_t>(std::exchange(records_, {}).size());
  }
  Result<void> Pin(const kv::KvKey& key, int64_t expires_unix) override {
    if (!pins_.contains(key) && pins_.size() >= kPinsMax) {
      return MakeError(ErrorCode::kTooLarge, "simulated_store", "no more can be pinned");
    }
    pins_[key] = expires_unix;
    return {};
  }
  void Unpin(const kv::KvKey& key) override { pins_.erase(key); }
  bool IsPinned(const kv::KvKey& key, int64_t expires_unix) const {
    const auto found = pins_.find(key);
    return found != pins_.end() && found->second == expires_unix;
  }
  // Pins are in memory alone.
  void ForgetPins() { pins_.clear(); }
  Result<kv::KvVerifyReport> Verify(std::function<void(uint64_t, uint64_t)>) override {
    return kv::KvVerifyReport{};
  }

 private:
  static constexpr size_t kPinsMax = 8;
  struct Stored {
    kv::KvRecord record;
    std::vector<TokenId> tokens;
    std::vector<std::byte> payload;
    bool is_durable = false;
  };
  static Error Absent() {
    return MakeError(ErrorCode::kNotFound, "simulated_store", "the simulation does not ask for it");
  }
  std::map<kv::KvKey, Stored> records_;
  std::map<kv::KvKey, int64_t> pins_;
};

}  // namespace kvgate::store
