// Model: a transformer's weights and its one forward function over a Backend.
// Architectures differ as data (ModelConfig), not as code paths of their own. It knows tokens'
// positions and block tables, not requests. One thread at a time.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include <kvgate/ids.h>
#include <kvgate/result.h>

#include "engine/model/embedding_table.h"
#include "engine/model/model_config.h"
#include "engine/model/model_file.h"
#include "kernels/backend.h"

namespace kvgate::model {

// Floats that a model's Reserve allocates for each token of a step, for each row whose logits are
// wanted, and once: the engine's memory beside weights and KV.
struct ActivationFloats {
  uint64_t per_token = 0;
  uint64_t per_logit_row = 0;
  uint64_t fixed = 0;
};
// routes_experts: as kernels::BackendInfo has it.
ActivationFloats CountActivations(const ModelConfig& config, bool routes_experts);

// What a step needs of one KV group. Of a group with a window, a table's entries for positions that
// no row of the step sees may hold anything.
struct StepGroup {
  kernels::KvArena* arena = nullptr;                 // of the shape config().kv_shape(dtype, group)
  std::span<const kernels::SequenceRows> sequences;  // cover the rows 0..M-1 in order
};

// One step: the rows of several sequences, each a run at consecutive positions. Where blocks were
// dropped from a sequence's table, first_position is the slot behind what is left, and the rotation
// goes on from the place in the text. block_mass gets what the attention of every layer but the
// last adds: there only the rows whose logits are wanted attend, and those depend on how a prompt
// is cut into steps.
struct StepInput {
  std::span<const TokenId> tokens;    // [M]
  std::span<const StepGroup> groups;  // config().kv_groups; the same rows and positions in each
  std::span<const int> logit_rows;    // rows whose logits are wanted, ascending
};

// The heads of a step's logits (kernels::Backend::TopRows): of each wanted row the most likely
// tokens and the sums of its exponentials, as they are and scaled.
struct LogitHeads {
  int count = 0;                   // tokens of a row
  std::vector<TokenId> tokens;     // [rows, count]
  std::vector<float> logits;       // [rows, count]
  std::vector<float> exp_sums;     // [rows]
  std::vector<float> scaled_sums;  // [rows]
};

class Model {
 public:
  // Checks every tensor's presence, shape and type before loading any; an error names the tensor.
  // kDataLoss: the file was written while it was loaded. Keeps a reference to the file (rows of the
  // embedding table are read from it) and to the backend.
  static Result<std::unique_ptr<Model>> Load(std::shared_ptr<const ModelFile> file,
                                             kernels::Backend& backend,
                                             const ConfigOptions& options = {});
  virtual ~Model() = default;

  virtual const ModelConfig& config() const = 0;
  virtual size_t weight_bytes() const = 0;
  // XXH3-128 over the shape-giving metadata and every tensor's name, type, shape and bytes: two
  // files with one fingerprint give the same logits.
  virtual Fingerprint fingerprint() const = 0;
  // Stores the KV of all rows into the groups' arenas and writes logits [logit_rows.size(),
  // vocab_size] to host memory. tokens.size() <= max_step_tokens. kDataLoss, kIo: the model file is
  // not what was loaded; then nothing was computed or stored.
  virtual Result<void> Forward(const StepInput& input, std::span<float> logits) = 0;
  // The same, but the logits stay with the backend: their heads of min(heads.count, vocab_size)
  // tokens come to the host, which heads.count says then. scales: of each wanted row.
  // REQUIRES: 0 < heads.count <= kernels::kTopCountMax.
  virtual Result<void> ForwardHeads(const StepInput& input, std::span<const float> scales,
                                    LogitHeads& heads) = 0;
  // After ForwardHeads: the logits of its wanted row `index`, [vocab_size].
  virtual void ReadLogits(size_t index, std::span<float> logits) = 0;
  // What steps still read of the model file; null: nothing, the backend has all of it.
  virtual const EmbeddingTable* rows_in_file() const = 0;
  // Activations are allocated for this many rows a step; call once before Forward.
  virtual Result<void> Reserve(int step_tokens_max, int logit_rows_max) = 0;
};

}  // namespace kvgate::model
