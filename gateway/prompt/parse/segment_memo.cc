#include "gateway/prompt/parse/segment_memo.h"

#include <algorithm>
#include <utility>

namespace kvgate::prompt::parse {
namespace {

Identity KeyOf(const Identity& raw, Content content) {
  return {raw.low ^ (static_cast<uint64_t>(content) + 1) * 0x9E3779B97F4A7C15U, raw.high};
}

}  // namespace

SegmentMemo::SegmentMemo(size_t entries_max)
    : young_max_(std::max<size_t>(entries_max / kNumShards / 2, 1)),
      turns_(entries_max * sizeof(Found)) {}

std::optional<CanonicalFacts> SegmentMemo::Find(const Identity& raw, Content content) {
  const Identity key = KeyOf(raw, content);
  Shard& shard = ShardOf(key);
  const std::lock_guard lock(shard.mutex);
  if (const auto found = shard.young.find(key); found != shard.young.end()) return found->second;
  const auto found = shard.old.find(key);
  if (found == shard.old.end()) return std::nullopt;
  const CanonicalFacts facts = found->second;
  Keep(shard, key, facts);
  return facts;
}

void SegmentMemo::Insert(const Identity& raw, Content content, const CanonicalFacts& facts) {
  const Identity key = KeyOf(raw, content);
  Shard& shard = ShardOf(key);
  const std::lock_guard lock(shard.mutex);
  Keep(shard, key, facts);
}

void SegmentMemo::Keep(Shard& shard, const Identity& key, const CanonicalFacts& facts) {
  if (shard.young.size() >= young_max_) {
    shard.old = std::exchange(shard.young, {});
  }
  shard.young.insert_or_assign(key, facts);
}

size_t SegmentMemo::num_entries() const {
  size_t count = 0;
  for (const Shard& shard : shards_) {
    const std::lock_guard lock(shard.mutex);
    count += shard.young.size() + shard.old.size();
  }
  return count;
}

}  // namespace kvgate::prompt::parse
