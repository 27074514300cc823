// A store of KV blocks that engines share, in memory: SharedBlocks are the server's, and each
// engine sees them through a MemorySharedStore of its own, which knows a block only once it has
// asked for it, read it or written it. Switches make it fail.
#pragma once

#include <atomic>
#include <chrono>
#include <cstring>
#include <map>
#include <mutex>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include "store/kv/block_store.h"

namespace kvgate::store {

class SharedBlocks {
 public:
  using Name = std::pair<PrefixDigest, uint32_t>;  // with the KV group
  struct Block {
    Fingerprint fingerprint;
    uint32_t shape_tag = 0;
    std::vector<std::byte> payload;
  };
  std::mutex mutex;
  std::map<Name, Block> blocks;

  size_t size() {
    const std::lock_guard lock(mutex);
    return blocks.size();
  }
  // Leaves the first `count` blocks, in the order of their digests.
  void Keep(size_t count) {
    const std::lock_guard lock(mutex);
    while (blocks.size() > count) blocks.erase(std::prev(blocks.end()));
  }
};

class MemorySharedStore : public kv::BlockStore {
 public:
  explicit MemorySharedStore(SharedBlocks& shared) : shared_(shared) {}

  std::atomic<bool> paused{false};
  std::atomic<bool> hangs{false};  // look-ups take as long as they may
  std::atomic<bool> loses_half{false};  // after a look-up half of all blocks are gone
  std::atomic<int> num_look_ups{0};
  std::atomic<int> num_gets{0};

  bool is_paused() const override { return paused; }
  bool Contains(const kv::KvKey& key) const override {
    const std::lock_guard lock(mutex_);
    return !paused && known_.contains(key);
  }
  Result<void> LookUp(std::span<const kv::KvName> names,
                      SteadyClock::time_point deadline) override {
    ++num_look_ups;
    if (hangs) {
      std::this_thread::sleep_until(deadline);
      return MakeError(ErrorCode::kDeadline, "memory_shared_store", "it hangs by request");
    }
    for (const kv::KvName& name : names) {
      const std::scoped_lock lock(mutex_, shared_.mutex);
      if (shared_.blocks.contains({name.digest, name.group})) known_.insert(name.key);
    }
    if (loses_half) shared_.Keep(shared_.size() / 2);
    return {};
  }
  Result<void> Put(std::span<const kv::KvRecord> records) override {
    if (paused) return MakeError(ErrorCode::kUnavailable, "memory_shared_store", "paused");
    for (const kv::KvRecord& record : records) {
      const std::scoped_lock lock(mutex_, shared_.mutex);
      shared_.blocks[{record.digest, record.group}] = {
          .fingerprint = record.key.fingerprint,
          .shape_tag = record.shape_tag,
          .payload = {record.payload.begin(), record.payload.end()}};
      known_.insert(record.key);
    }
    return {};
  }
  Result<void> Get(const kv::KvLookup& lookup) override {
    ++num_gets;
    const std::scoped_lock lock(mutex_, shared_.mutex);
    const auto found = shared_.blocks.find({lookup.digest, lookup.group});
    if (paused || found == shared_.blocks.end() ||
        found->second.fingerprint != lookup.key.fingerprint ||
        found->second.shape_tag != lookup.shape_tag ||
        found->second.payload.size() != lookup.payload.size()) {
      known_.erase(lookup.key);
      return MakeError(ErrorCode::kNotFound, "memory_shared_store", "a miss");
    }
    std::memcpy(lookup.payload.data(), found->second.payload.data(), lookup.payload.size());
    return {};
  }
  void Touch(std::span<const kv::KvKey>) override {}
  void CountHits(std::span<const kv::KvKey>, const kv::KvUse&) override {}
  Result<void> Flush() override { return {}; }

 private:
  SharedBlocks& shared_;
  mutable std::mutex mutex_;
  std::set<kv::KvKey> known_;
};

}  // namespace kvgate::store
