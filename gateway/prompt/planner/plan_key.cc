#include "gateway/prompt/planner/plan_key.h"

#include <algorithm>
#include <charconv>
#include <string_view>

namespace kvgate::prompt::planner {
namespace {

constexpr std::string_view kPrefix = "kvg-";

}  // namespace

size_t PickShard(std::vector<RateMeter>& shards, int64_t requests_per_minute, int64_t now_us) {
  if (shards.empty()) shards.emplace_back();
  if (requests_per_minute == 0) return 0;
  size_t emptiest = 0;
  for (size_t i = 0; i < shards.size(); ++i) {
    if (shards[i].At(now_us) + 1 <= static_cast<double>(requests_per_minute)) return i;
    if (shards[i].At(now_us) < shards[emptiest].At(now_us)) emptiest = i;
  }
  if (shards.size() >= kKeyShardsMax) return emptiest;
  shards.emplace_back();
  return shards.size() - 1;
}

std::string MakeKey(const parse::Identity& of, size_t shard, const ledger::CacheRules& rules) {
  const std::string end = "-" + std::to_string(shard);
  std::string digits = ToHex(of);
  if (rules.key_characters_max > 0) {
    const size_t around = kPrefix.size() + end.size();
    const size_t max = std::max(static_cast<size_t>(rules.key_characters_max), around) - around;
    digits.resize(std::min(digits.size(), max));
  }
  return std::string(kPrefix) + digits + end;
}

size_t ShardOf(const std::string& key) {
  const size_t dash = key.rfind('-');
  size_t shard = 0;
  std::from_chars(key.data() + dash + 1, key.data() + key.size(), shard);
  return std::min(shard, kKeyShardsMax - 1);
}

}  // namespace kvgate::prompt::planner
