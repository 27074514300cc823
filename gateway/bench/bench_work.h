// What a forward must at least do: operations and bytes, counted from a model's shape alone. The
// limit that a measured speed stands beside is this divided by what the machine can do.
#pragma once

#include "engine/model/model.h"
#include "engine/model/model_file.h"

namespace kvgate::cli {

// The work of a prefill whose last row alone wants logits: what the forward really computes, so
// that a share of the peak is never flattered. A multiply-add counts as two.
double PrefillOperations(const model::ModelConfig& config, double num_tokens);

// Of one decoded token with so many before it.
double DecodeOperations(const model::ModelConfig& config, double context);

// Bytes of the matrices that one step of one token reads, each once: of all experts those that the
// token takes, and the embedding table only where it is the output too.
double WeightBytesRead(const model::ModelFile& file, const model::ModelConfig& config);

}  // namespace kvgate::cli
