// The prompt_cache_key of a conversation is chosen once and never changes. Conversations that share
// tools and system share a key, and with it a cache, until it has more requests than one machine
// takes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "gateway/ledger/prices.h"
#include "gateway/prompt/parse/segment.h"
#include "gateway/prompt/planner/plan_memory.h"

namespace kvgate::prompt::planner {

inline constexpr size_t kKeyShardsMax = 64;

// Returns the first shard with room for one more request; if none has, adds one up to
// kKeyShardsMax, then takes the emptiest.
size_t PickShard(std::vector<RateMeter>& shards, int64_t requests_per_minute, int64_t now_us);

// Returns "kvg-", as many hex digits of `of` as the rules allow, "-" and the shard.
std::string MakeKey(const parse::Identity& of, size_t shard, const ledger::CacheRules& rules);
// Returns the shard of a key that MakeKey made.
size_t ShardOf(const std::string& key);

}  // namespace kvgate::prompt::planner
