// Finds the tiers in which the KV of listed prefixes is now: the engine's memory ("device"), the
// host arena ("host") or the store ("disk"). It asks the engine once for all of them. Thread-safe.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "engine/engine.h"
#include "store/kv/kv_store.h"

namespace kvgate::local {

struct PrefixPlace {
  // The fastest tier that has the last block; empty if none has it, or if the engine was too busy
  // to say.
  std::string_view tier = {};
  // Tokens by the fastest tier that has them; empty if they were not asked for.
  struct Tokens {
    uint64_t on_device = 0;
    uint64_t on_host = 0;
    uint64_t on_disk = 0;
  };
  std::optional<Tokens> tokens = {};
};

struct ListedPrefix {
  store::kv::KvKey leaf;
  bool is_stored = true;  // false for a pin whose KV is not on disk
};

struct PlaceLimits {
  // Blocks that the engine's thread looks up for one list, at about 0.1 us each. Prefixes beyond it
  // have no tokens, and those far beyond it not even a tier.
  size_t blocks_max = 16'384;
  // Most steps of the engine are shorter. A worker that is held for a second counts as stalled.
  std::chrono::milliseconds timeout{700};
};

// Returns a place for each prefix. `engine` may be null.
std::vector<PrefixPlace> FindPlaces(engine::Engine* engine, const store::kv::KvStore& kv,
                                    std::span<const ListedPrefix> prefixes,
                                    const PlaceLimits& limits = {});

}  // namespace kvgate::local
