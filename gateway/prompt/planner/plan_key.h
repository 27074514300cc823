// The prompt_cache_key of a conversation: chosen once, never changed. Conversations that share
// tools and system share a key, and with it a cache, until it has more requests than one machine
// takes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "gateway/ledger/prices.h"
#include "gateway/prompt/planner/plan_memory.h"
#include "gateway/prompt/parse/segment.h"

namespace kvgate::prompt {

inline constexpr size_t kKeyShardsMax = 64;

// The first shard that has room for one more request now; the emptiest where none has.
size_t PickShard(std::vector<RateMeter>& shards, int64_t requests_per_minute, int64_t now_us);

// "kvg-" and the hex digits of `of`, as many as the rules allow, and the shard.
std::string MakeKey(const Identity& of, size_t shard, const ledger::CacheRules& rules);
// The shard of such a key.
size_t ShardOf(const std::string& key);

}  // namespace kvgate::prompt
