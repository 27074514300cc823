// `kvgate bench gpu`: measures one model shape on a device: its forward pass, its engine and the
// cache's tiers, each figure with its limit measured in the same run.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "gateway/bench/gpu/run.h"

namespace kvgate::bench::gpu {

// "kernels", "decode", "prefill", "numerics", "tiers", "agents", in the order in which they run.
std::vector<std::string> PartNames();

// Prints the figures. Returns true if none misses its bound. If a part fails, that is printed, the
// others still run, and the first error is returned at the end.
Result<bool> RunGpuBench(const RunOptions& options);

}  // namespace kvgate::bench::gpu
