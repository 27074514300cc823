// Model: a transformer's weights and its one forward function over a Backend.
// Architectures differ as data (ModelConfig), not as code paths of their own. It knows tokens'
// positions and block tables, not requests. One thread at a time.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <kvgate/ids.h>
#include <kvgate/result.h>

#include "engine/model/model_file.h"
#include "kernels/backend.h"

namespace kvgate::model {

// Layers whose KV lives and dies together: they have an arena and block tables of their own.
struct KvGroup {
  // A layer of this group reads the last `window` positions, its own included; what lies before
  // them need not be kept. 0: all positions.
  int window = 0;
  int num_layers = 0;
};

struct ModelConfig {
  std::string architecture;  // "llama", "qwen2"
  std::string name;          // general.name, may be empty
  int num_layers = 0;
  int num_heads = 0;
  int num_kv_heads = 0;
  int head_dim = 0;
  int hidden_dim = 0;
  int ffn_dim = 0;
  int vocab_size = 0;
  int context_length = 0;  // the model's own maximum, in tokens
  float norm_eps = 0;
  float rope_theta = 0;
  int rotary_dim = 0;
  kernels::RopeKind rope_kind = kernels::RopeKind::kInterleaved;
  bool qkv_bias = false;
  bool tied_embeddings = false;
  // The first is of the layers without a window, and of all layers where each has one: its blocks
  // are kept from position 0 on. Then one for each size of window.
  std::vector<KvGroup> kv_groups;

  kernels::KvShape kv_shape(kernels::DType dtype, size_t group = 0) const {
    return {.num_layers = kv_groups[group].num_layers,
            .num_kv_heads = num_kv_heads,
            .head_dim = head_dim,
            .dtype = dtype};
  }
};

// kUnsupported: unknown architecture (detail lists those we have) or a feature we lack (rope
// scaling and the like); kDataLoss: a key is missing or senseless.
Result<ModelConfig> ReadModelConfig(const ModelFile& file);

// Floats that a model's Reserve allocates for each token of a step and for each row whose logits
// are wanted: the engine's memory beside weights and KV.
struct ActivationFloats {
  uint64_t per_token = 0;
  uint64_t per_logit_row = 0;
};
ActivationFloats CountActivations(const ModelConfig& config);

// What a step needs of one KV group. Of a group with a window, a table's entries for positions that
// no row of the step sees may hold anything.
struct StepGroup {
  kernels::KvArena* arena = nullptr;                 // of the shape config().kv_shape(dtype, group)
  std::span<const kernels::SequenceRows> sequences;  // cover the rows 0..M-1 in order
};

// One step: the rows of several sequences, each a run at consecutive positions. Where blocks were
// dropped from a sequence's table, first_position is the slot behind what is left, and the rotation
// goes on from the place in the text. block_mass gets what every layer's attention adds; in the
// last layer only the rows whose logits are wanted attend.
struct StepInput {
  std::span<const TokenId> tokens;    // [M]
  std::span<const StepGroup> groups;  // config().kv_groups; the same rows and positions in each
  std::span<const int> logit_rows;    // rows whose logits are wanted, ascending
};

class Model {
 public:
  // Checks every tensor's presence, shape and type before loading any; an error names the tensor.
  // Keeps a reference to the file (weights are read from its mapping) and to the backend.
  static Result<std::unique_ptr<Model>> Load(std::shared_ptr<const ModelFile> file,
                                             kernels::Backend& backend);
  virtual ~Model() = default;

  virtual const ModelConfig& config() const = 0;
  virtual size_t weight_bytes() const = 0;
  // XXH3-128 over the shape-giving metadata and every tensor's name, type, shape and bytes: two
  // files with one fingerprint give the same logits.
  virtual Fingerprint fingerprint() const = 0;
  // Stores the KV of all rows into the groups' arenas and writes logits [logit_rows.size(),
  // vocab_size] to host memory. tokens.size() <= max_step_tokens.
  virtual void Forward(const StepInput& input, std::span<float> logits) = 0;
  // Activations are allocated for this many rows a step; call once before Forward.
  virtual Result<void> Reserve(int step_tokens_max, int logit_rows_max) = 0;
};

}  // namespace kvgate::model
