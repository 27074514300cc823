// Model: a transformer's weights and its single forward function over a Backend. Architectures
// differ as data (ModelConfig), not as separate code paths. It knows tokens' positions and block
// tables, not requests. One thread at a time.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "engine/model/embedding_table.h"
#include "engine/model/model_config.h"
#include "engine/modelfile/model_file.h"
#include "kernels/backend.h"

namespace kvgate::model {

// The floats that Reserve allocates per token of a step, per row of logits, and once. They are the
// engine's memory besides weights and KV.
struct ActivationFloats {
  uint64_t per_token = 0;
  uint64_t per_logit_row = 0;
  uint64_t fixed = 0;
};
// `routes_experts` is the field of kernels::BackendInfo.
ActivationFloats CountActivations(const ModelConfig& config, bool routes_experts);

// A step's input for one KV group. In a group with a window, a table's entries for positions that
// no row of the step sees may be arbitrary.
struct StepGroup {
  kernels::KvArena* arena = nullptr;                 // of the shape config().kv_shape(dtype, group)
  std::span<const kernels::SequenceRows> sequences;  // cover the rows 0..M-1 in order
};

// One step: the rows of several sequences, each a run of consecutive positions. If blocks were
// dropped from a sequence's table, first_position is the slot after the remaining tokens, while the
// rotation continues from the position in the text. block_mass receives the attention of every
// layer except the last: there only the wanted rows attend, and those depend on how a prompt is cut
// into steps.
struct StepInput {
  std::span<const TokenId> tokens;    // [M]
  std::span<const StepGroup> groups;  // config().kv_groups; the same rows and positions in each
  std::span<const int> logit_rows;    // rows whose logits are computed, ascending
};

// The heads of a step's logits (kernels::Backend::TopK): for each wanted row the most likely
// tokens and the sums of its exponentials, unscaled and scaled.
struct LogitHeads {
  int count = 0;                   // tokens per row
  std::vector<TokenId> tokens;     // [rows, count]
  std::vector<float> logits;       // [rows, count]
  std::vector<float> exp_sums;     // [rows]
  std::vector<float> scaled_sums;  // [rows]
};

class Model {
 public:
  // Checks the presence, shape and type of every tensor before loading any; an error names the
  // tensor. Fails with kDataLoss if the file was written while it was loaded. Keeps references to
  // the file, from which embedding rows are read later, and to the backend.
  static Result<std::unique_ptr<Model>> Load(std::shared_ptr<const modelfile::ModelFile> file,
                                             kernels::Backend& backend,
                                             const ConfigOptions& options = {});
  virtual ~Model() = default;

  virtual const ModelConfig& config() const = 0;
  virtual size_t weight_bytes() const = 0;
  // XXH3-128 over the metadata that defines the shape and every tensor's name, type, shape and
  // bytes: two files with the same fingerprint give the same logits.
  virtual Fingerprint fingerprint() const = 0;
  // Stores the KV of all rows into the groups' arenas and writes logits [logit_rows.size(),
  // vocab_size] to host memory. tokens.size() must be at most Reserve's step_tokens_max. Fails with
  // kDataLoss or kIo if the model file is not what was loaded; then no KV was stored.
  virtual Result<void> Forward(const StepInput& input, std::span<float> logits) = 0;
  // The same, but the logits stay in the backend's memory and only their heads are copied to the
  // host. A head has min(heads.count, vocab_size) tokens; heads.count is set to that. `scales` has
  // one entry per wanted row. REQUIRES: 0 < heads.count <= kernels::kTopCountMax.
  virtual Result<void> ForwardHeads(const StepInput& input, std::span<const float> scales,
                                    LogitHeads& heads) = 0;
  // After ForwardHeads: copies the logits [vocab_size] of its wanted row `index`.
  virtual void ReadLogits(size_t index, std::span<float> logits) = 0;
  // Of a model that was loaded for embeddings, instead of those three: writes the last layer's
  // rows, normalised, [logit_rows.size(), hidden_dim] to host memory. Each sequence is a whole
  // text, from position 0 on.
  virtual Result<void> ForwardRows(const StepInput& input, std::span<float> rows) = 0;
  // Returns the table that steps still read from the model file; null if the backend has a copy.
  virtual const EmbeddingTable* rows_in_file() const = 0;
  // Allocates activations for these numbers of rows per step; to be called before Forward.
  virtual Result<void> Reserve(int step_tokens_max, int logit_rows_max) = 0;
};

}  // namespace kvgate::model
