// Speed: decode and prefill as the engine serves them, and the share of a step that is CPU time.
#pragma once

#include <memory>
#include <string>

#include "gateway/bench/gpu/run.h"

namespace kvgate::bench::gpu {

struct SpeedParts {
  std::string dtype;  // of the weights, for the figures' names
  bool has_decode = true;
  bool has_prefill = true;
  bool is_first = true;  // the first dtype measures all contexts and the full batch; others fewer
};

// Measures the CPU's share of a step's time, then tok/s of decode and prefill, each with the limit
// that bytes and operations set.
Result<void> MeasureSpeed(Run& run, std::shared_ptr<const modelfile::ModelFile> file,
                          const SpeedParts& parts);

// Measures the cost of `invariant` numerics by running the same model in `fast`. Adds only a line
// if the device has no `fast`.
Result<void> MeasureNumerics(Run& run, std::shared_ptr<const modelfile::ModelFile> file,
                             const std::string& dtype);

struct BatchSpeed {
  double tokens_per_second = 0;
  double context = 0;  // mean number of tokens before a decoded one
};
struct BatchShape {
  int num_sequences = 1;
  int context = 0;
  int num_tokens = 0;  // decoded by each while all run
};
// Measures the time in which all sequences decode. Fails with kInternal if they never do so
// together, and with kDeadline if it takes longer than `seconds_max`.
Result<BatchSpeed> MeasureDecode(engine::Engine& engine, const BatchShape& shape,
                                 double seconds_max = 300);

// Returns tok/s of an uncached prompt, the better of two. Each fails with kDeadline as above.
Result<double> MeasurePrefill(engine::Engine& engine, int num_tokens, double seconds_max = 300);

}  // namespace kvgate::bench::gpu
