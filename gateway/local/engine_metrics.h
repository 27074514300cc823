// EngineMetrics: the numbers that the engine keeps, as metrics, and how full its tiers are.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "engine/engine.h"
#include "gateway/metrics/registry.h"

namespace kvgate::local {

// What a tier of KV holds.
struct TierFill {
  const char* name = "";   // "device", "host", "disk"
  const char* label = "";  // for metrics: "gpu", "ram", "disk"
  uint64_t used_bytes = 0;
  uint64_t capacity_bytes = 0;  // 0: no bound, or no such tier
};
// Of the pool and the host arena.
std::vector<TierFill> EngineTiers(const engine::EngineInfo& info, const engine::EngineStats& stats);

void CollectEngine(const engine::EngineStats& stats, metrics::TextWriter& writer);
void CollectTiers(const std::vector<TierFill>& tiers, metrics::TextWriter& writer);

}  // namespace kvgate::local
