// What `kvgate bench gpu` measures: one model shape on a device, by the forward, by the engine and
// through the cache's tiers, each figure beside its limit measured in the same run.
#pragma once

#include <string>
#include <vector>

#include <kvgate/result.h>

#include "gateway/cli/gpu_bench/run.h"

namespace kvgate::cli::gpu_bench {

// "kernels", "decode", "prefill", "numerics", "tiers", "agents": in the order in which they run.
std::vector<std::string> PartNames();

// Prints the figures. True: none misses its bound. A part that fails is said to have, the others
// run, and its error is returned in the end.
Result<bool> RunGpuBench(const RunOptions& options);

}  // namespace kvgate::cli::gpu_bench
