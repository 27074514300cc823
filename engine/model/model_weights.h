// The weights of one model, checked and loaded. It knows names and shapes of tensors, not the
// forward.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "engine/model/embedding_table.h"
#include "engine/model/model.h"
#include "kernels/experts.h"

namespace kvgate::model {

// One expert of a layer: three matrices.
struct ExpertMatrices {
  std::unique_ptr<kernels::Weight> gate;  // [ffn_dim, hidden_dim]
  std::unique_ptr<kernels::Weight> up;    // [ffn_dim, hidden_dim]
  std::unique_ptr<kernels::Weight> down;  // [hidden_dim, ffn_dim]
};

struct ExpertWeights {
  std::unique_ptr<kernels::Weight> router;  // [num_experts, hidden_dim]
  std::unique_ptr<kernels::FloatBuffer> router_bias;
  std::vector<ExpertMatrices> experts;              // [num_experts]
  std::unique_ptr<kernels::FloatBuffer> gate_bias;  // [num_experts, ffn_dim]; null without biases
  std::unique_ptr<kernels::FloatBuffer> up_bias;    // as gate_bias
  std::unique_ptr<kernels::FloatBuffer> down_bias;  // [num_experts, hidden_dim]
  ExpertMatrices shared;  // of shared_dim; null members without a shared expert
  std::unique_ptr<kernels::Weight> shared_router;  // [1, hidden_dim]; null without shared_gate
  std::unique_ptr<kernels::ExpertSet> set;         // view of all these; null without experts
};

// A norm of an encoder.
struct NormWeights {
  std::unique_ptr<kernels::FloatBuffer> weight;  // [hidden_dim]
  std::unique_ptr<kernels::FloatBuffer> bias;    // [hidden_dim]
};

// Members that a model does not have are null.
struct LayerWeights {
  std::unique_ptr<kernels::FloatBuffer> attn_norm;    // [hidden_dim]
  std::unique_ptr<kernels::Weight> attn_q;            // [num_heads * head_dim, hidden_dim]
  std::unique_ptr<kernels::Weight> attn_k;            // [num_kv_heads * head_dim, hidden_dim]
  std::unique_ptr<kernels::Weight> attn_v;            // as attn_k
  std::unique_ptr<kernels::FloatBuffer> attn_q_bias;  // [num_heads * head_dim]
  std::unique_ptr<kernels::FloatBuffer> attn_k_bias;  // [num_kv_heads * head_dim]
  std::unique_ptr<kernels::FloatBuffer> attn_v_bias;
  // [head_dim], or the size of the whole projection
  std::unique_ptr<kernels::FloatBuffer> attn_q_norm;
  std::unique_ptr<kernels::FloatBuffer> attn_k_norm;
  std::unique_ptr<kernels::FloatBuffer> attn_sinks;        // [num_heads]
  std::unique_ptr<kernels::Weight> attn_output;            // [hidden_dim, num_heads * head_dim]
  std::unique_ptr<kernels::FloatBuffer> attn_output_bias;  // [hidden_dim]
  std::unique_ptr<kernels::FloatBuffer> attn_post_norm;    // [hidden_dim]
  std::unique_ptr<kernels::FloatBuffer> ffn_norm;          // [hidden_dim]
  std::unique_ptr<kernels::Weight> ffn_gate;               // [ffn_dim, hidden_dim]
  std::unique_ptr<kernels::Weight> ffn_up;                 // [ffn_dim, hidden_dim]
  std::unique_ptr<kernels::Weight> ffn_down;               // [hidden_dim, ffn_dim]
  std::unique_ptr<kernels::FloatBuffer> ffn_post_norm;     // [hidden_dim]
  std::unique_ptr<kernels::FloatBuffer> ffn_up_bias;       // [ffn_dim]
  std::unique_ptr<kernels::FloatBuffer> ffn_down_bias;     // [hidden_dim]
  NormWeights attn_stream_norm;
  NormWeights ffn_stream_norm;
  ExpertWeights experts;  // instead of ffn_gate, ffn_up, ffn_down
};

// Returns null for a part that the model lacks.
inline const float* DataOrNull(const std::unique_ptr<kernels::FloatBuffer>& buffer) {
  return buffer == nullptr ? nullptr : buffer->data();
}

// XXH3-128 of each tensor's bytes, {low, high}, in the file's order.
using TensorDigests = std::vector<std::pair<uint64_t, uint64_t>>;

struct ModelWeights {
  // [vocab_size, hidden_dim]; rows are read from the file when tokens need them
  EmbeddingTable token_embd;
  std::unique_ptr<kernels::FloatBuffer> position_embd;  // [num_positions, hidden_dim], or null
  std::unique_ptr<kernels::FloatBuffer> token_types;    // [num_token_types, hidden_dim], or null
  NormWeights embedding_norm;                           // of an encoder
  std::vector<LayerWeights> layers;
  std::unique_ptr<kernels::FloatBuffer> output_norm;  // [hidden_dim], or null
  // [vocab_size, hidden_dim]; null if the model was loaded for embeddings
  std::unique_ptr<kernels::Weight> output;
  size_t bytes = 0;  // of all these; includes the embedding table only if it is not the output, too
  TensorDigests digests;
};

// Checks every tensor (presence, shape, type, and that none would be ignored) before loading the
// first. Fails with kDataLoss or kUnsupported and the tensor's name. Logs progress if it takes
// long. Every byte is read from disk once, ahead of its use, hashed and loaded, and its page is
// released. Model::Load checks afterwards that the file was not written meanwhile.
Result<ModelWeights> LoadModelWeights(const modelfile::ModelFile& file, const ModelConfig& config,
                                      kernels::Backend& backend);

// XXH3-128 of the shape in `config` and of every tensor's name, type, shape and bytes.
Fingerprint ComputeWeightFingerprint(const modelfile::ModelFile& file, const ModelConfig& config,
                                     const TensorDigests& digests);

}  // namespace kvgate::model
