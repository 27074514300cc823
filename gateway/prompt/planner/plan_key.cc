#include "gateway/prompt/planner/plan_key.h"

#include <algorithm>
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

std::string MakeKey(const KeyArgs& args, const ledger::CacheRules& rules) {
  using ledger::CacheKeyUse;
  if (!args.is_own && rules.cache_key != CacheKeyUse::kRequired) {
    // A provider that matches keys needs none. Where a key only routes, requests without one are
    // the first shard.
    if (rules.cache_key != CacheKeyUse::kRouting || args.shard == 0) return "";
  }
  const std::string end = "-" + std::to_string(args.shard);
  std::string digits = ToHex(args.of);
  if (rules.key_characters_max > 0) {
    const size_t around = kPrefix.size() + end.size();
    const size_t max = std::max(static_cast<size_t>(rules.key_characters_max), around) - around;
    digits.resize(std::min(digits.size(), max));
  }
  return std::string(kPrefix) + digits + end;
}

}  // namespace kvgate::prompt::planner
