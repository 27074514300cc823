// SegmentMemo: what is known of segments by the hash of their raw bytes, so that a turn that comes
// again is not parsed again. Bounded: a generation that is full becomes the old one, whose entries
// come back when they are asked for. Thread-safe; a lock is held for one look-up.
#pragma once

#include <array>
#include <cstddef>
#include <mutex>
#include <optional>
#include <unordered_map>

#include "gateway/prompt/parse/canonical.h"
#include "gateway/prompt/parse/segment.h"
#include "gateway/prompt/parse/turn_memo.h"

namespace kvgate::prompt {

class SegmentMemo {
 public:
  explicit SegmentMemo(size_t entries_max);

  // `raw` alone does not decide: the same bytes mean another thing as another content.
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

  const size_t young_max_;  // a shard's
  std::array<Shard, kNumShards> shards_;
  TurnMemo turns_;
};

}  // namespace kvgate::prompt
