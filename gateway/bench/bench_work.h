// The minimum work of a forward pass, operations and bytes, counted from a model's shape. Divided
// by the machine's measured rates it is the limit that a measured speed is compared with.
#pragma once

#include "engine/model/model.h"
#include "engine/modelfile/model_file.h"

namespace kvgate::bench {

// Operations of a prefill that needs the logits of its last row only. It counts the work that the
// forward really does, so a share of the peak is never overstated. A multiply-add counts as two.
double PrefillOperations(const model::ModelConfig& config, double num_tokens);

// Operations of one decoded token with `context` tokens before it.
double DecodeOperations(const model::ModelConfig& config, double context);

// Bytes of weights that decoding one token reads, each once: only the experts that the token uses,
// and the embedding table only if it is also the output matrix.
double WeightBytesRead(const modelfile::ModelFile& file, const model::ModelConfig& config);

}  // namespace kvgate::bench
