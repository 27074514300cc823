// The weights of one model, checked and loaded. Knows names and shapes of tensors, not the forward.
#pragma once

#include <memory>
#include <vector>

#include "engine/model/model.h"

namespace kvgate::model {

struct LayerWeights {
  std::unique_ptr<kernels::FloatBuffer> attn_norm;    // [hidden_dim]
  std::unique_ptr<kernels::Weight> attn_q;            // [num_heads * head_dim, hidden_dim]
  std::unique_ptr<kernels::Weight> attn_k;            // [num_kv_heads * head_dim, hidden_dim]
  std::unique_ptr<kernels::Weight> attn_v;            // as attn_k
  std::unique_ptr<kernels::FloatBuffer> attn_q_bias;  // null without qkv_bias, as the next two
  std::unique_ptr<kernels::FloatBuffer> attn_k_bias;
  std::unique_ptr<kernels::FloatBuffer> attn_v_bias;
  std::unique_ptr<kernels::Weight> attn_output;    // [hidden_dim, num_heads * head_dim]
  std::unique_ptr<kernels::FloatBuffer> ffn_norm;  // [hidden_dim]
  std::unique_ptr<kernels::Weight> ffn_gate;       // [ffn_dim, hidden_dim]
  std::unique_ptr<kernels::Weight> ffn_up;         // [ffn_dim, hidden_dim]
  std::unique_ptr<kernels::Weight> ffn_down;       // [hidden_dim, ffn_dim]
};

struct ModelWeights {
  kernels::WeightView token_embd;  // [vocab_size, hidden_dim], in the file's mapping
  std::vector<LayerWeights> layers;
  std::unique_ptr<kernels::FloatBuffer> output_norm;  // [hidden_dim]
  std::unique_ptr<kernels::Weight> output;            // [vocab_size, hidden_dim]
  size_t bytes = 0;  // of all these; the embedding table counts only where it is not the output
};

// Checks every tensor (present, shape, type; none that we would ignore) before it loads the first.
// kDataLoss or kUnsupported with the tensor's name. Logs progress when it takes long.
Result<ModelWeights> LoadModelWeights(const ModelFile& file, const ModelConfig& config,
                                      kernels::Backend& backend);

// XXH3-128 of the shape in `config` and of every tensor's name, type, shape and bytes.
Fingerprint ComputeWeightFingerprint(const ModelFile& file, const ModelConfig& config);

}  // namespace kvgate::model
