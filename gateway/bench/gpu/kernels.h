// Kernels: the products and the attention of one layer, each alone, beside the bandwidth or the
// peak that bounds it. Says where a step's time goes when a figure of the whole misses its bound.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "gateway/cli/gpu_bench/run.h"

namespace kvgate::cli::gpu_bench {

struct KernelParts {
  std::string dtype;          // of the weights, for the figures' names
  bool has_attention = true;  // which does not depend on it
};
Result<void> MeasureKernels(Run& run, std::shared_ptr<const model::ModelFile> file,
                            const KernelParts& parts);

// Seconds of one call of `issue`, whose work is waited for once behind a row of them; the row is as
// long as `seconds_min` wants. `issue` gets the number of the call.
double SecondsPerCall(kernels::Backend& backend, double seconds_min,
                      const std::function<void(int)>& issue);

}  // namespace kvgate::cli::gpu_bench
