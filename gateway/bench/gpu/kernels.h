// Kernels: the matrix products and the attention of one layer, each alone, compared with the
// bandwidth or the peak that bounds it. They show where a step's time goes when a figure of the
// whole misses its bound.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "gateway/bench/gpu/run.h"

namespace kvgate::bench::gpu {

struct KernelParts {
  std::string dtype;          // of the weights, for the figures' names
  bool has_attention = true;  // measure attention, which does not depend on dtype
};
Result<void> MeasureKernels(Run& run, std::shared_ptr<const modelfile::ModelFile> file,
                            const KernelParts& parts);

// Returns the seconds of one call of `issue`, averaged over a row of calls that is synchronized
// once at its end; the row is extended until it takes `seconds_min`. `issue` gets the call's index.
double SecondsPerCall(kernels::Backend& backend, double seconds_min,
                      const std::function<void(int)>& issue);

}  // namespace kvgate::bench::gpu
