// StoreTiers: the stores below an engine's memory, in the order in which they are searched.
#pragma once

#include <array>

#include "engine/tier/block_finder.h"
#include "engine/tier/store_tier.h"

namespace kvgate::tier {

struct StoreTiers {
  StoreTier* disk = nullptr;      // the data directory; null: none
  StoreTier* shared = nullptr;    // what gateways share; null: none
  BlockFinder* finder = nullptr;  // of the shared store's blocks; null if that is

  std::array<StoreTier*, 2> all() const { return {disk, shared}; }
  bool empty() const { return disk == nullptr && shared == nullptr; }
};

}  // namespace kvgate::tier
