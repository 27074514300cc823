// SegmentMemo keeps facts about segments by the hash of their raw bytes, so that a repeated turn is
// not parsed again. It is bounded by two generations: a full young one replaces the old one, and
// entries of the old one return when they are found. Thread-safe; a lock is held for one look-up.
#pragma once

#include <array>
#include <cstddef>
#include <mutex>
#include <optional>
#include <unordered_map>

#include "gateway/prompt/parse/canonical.h"
#include "gateway/prompt/parse/segment.h"
#include "gateway/prompt/parse/turn_memo.h"

namespace kvgate::prompt::parse {

class SegmentMemo {
 public:
  explicit SegmentMemo(size_t entries_max);

  // The key includes the content, because equal bytes mean different things as different contents.
  std::optional<CanonicalFacts> Find(const Identity& raw, Content content);
  void Insert(const Identity& raw, Content content, const CanonicalFacts& facts);
  size_t num_entries() const;
  TurnMemo& turns() { return turns_; }

 private:
  using Map = std::unordered_map<Identity, CanonicalFacts>;
  struct Shard {
    mutable std::mutex mutex;
    Map young;
    Map old;
  };
  static constexpr size_t kNumShards = 16;
  Shard& ShardOf(const Identity& key) { return shards_[key.high % kNumShards]; }
  void Keep(Shard& shard, const Identity& key, const CanonicalFacts& facts);

  const size_t young_max_;  // per shard
  std::array<Shard, kNumShards> shards_;
  TurnMemo turns_;
};

}  // namespace kvgate::prompt::parse
