// Speed: decode and prefill as the engine serves them, and how much of a step the CPU has in it.
#pragma once

#include <memory>
#include <string>

#include "gateway/cli/gpu_bench/run.h"

namespace kvgate::cli::gpu_bench {

struct SpeedParts {
  std::string dtype;  // of the weights, for the figures' names
  bool has_decode = true;
  bool has_prefill = true;
  bool is_first = true;  // of the dtypes: all contexts and the full batch; else fewer
};

// Time of a step noted by the CPU, of all of it; then tok/s of decode and prefill, each beside what
// bytes and operations allow.
Result<void> MeasureSpeed(Run& run, std::shared_ptr<const model::ModelFile> file,
                          const SpeedParts& parts);

// What `invariant` numerics cost: the same model in `fast` beside it. Nothing but a line where the
// device has no `fast`.
Result<void> MeasureNumerics(Run& run, std::shared_ptr<const model::ModelFile> file,
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
// Of the time in which all sequences decode. kInternal: they never did so together; kDeadline: it
// takes longer than `seconds_max`.
Result<BatchSpeed> MeasureDecode(engine::Engine& engine, const BatchShape& shape,
                                 double seconds_max = 300);

// tok/s of a prompt with no part of it cached: the better of two. kDeadline, as above, for each.
Result<double> MeasurePrefill(engine::Engine& engine, int num_tokens, double seconds_max = 300);

}  // namespace kvgate::cli::gpu_bench
