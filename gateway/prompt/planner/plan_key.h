// The prompt_cache_key of a conversation is chosen with its first request and never changes.
// Providers cache together what has the same key, so all requests of a tenant to a model share one,
// as they share prefixes: most have none, as if sent directly. Only where a shape has more requests
// than one machine takes do further conversations get a key of another shard.
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

struct KeyArgs {
  parse::Identity of;
  bool is_own = false;  // the conversation's alone
  size_t shard = 0;
};
// Returns "kvg-", as many hex digits of `of` as the rules allow, "-" and the shard. Returns an
// empty key where one would only part requests that are cached together without it.
std::string MakeKey(const KeyArgs& args, const ledger::CacheRules& rules);

}  // namespace kvgate::prompt::planner
