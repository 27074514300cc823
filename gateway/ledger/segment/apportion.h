// Apportion divides a whole number by weight into whole parts that sum to it exactly, by the method
// of the largest remainder. Pure; any thread may call it.
#pragma once

#include <cstdint>
#include <span>

namespace kvgate::ledger::segment {

// Each share is its exact part rounded down or up; among equal remainders, the earlier share is
// rounded up. If all weights are 0, they count as equal. REQUIRES: as many shares as weights; no
// negative weight; 0 <= total; a total of 0 if there are no weights.
void Apportion(std::span<const int64_t> weights, int64_t total, std::span<int64_t> shares);

}  // namespace kvgate::ledger::segment
