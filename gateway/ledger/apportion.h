// ShareOut: a whole number in whole parts, by weight, that sum to it exactly (largest remainder).
// Pure; any thread.
#pragma once

#include <cstdint>
#include <span>

namespace kvgate::ledger {

// Each share is its exact part rounded down or up; where remainders are equal the earlier one gets
// more. Weights that are all 0 count as equal ones. REQUIRES: as many shares as weights, none of
// them negative; no weights only for a total of 0; 0 <= total.
void ShareOut(std::span<const int64_t> weights, int64_t total, std::span<int64_t> shares);

}  // namespace kvgate::ledger
