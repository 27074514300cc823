// The forward function: every architecture we have, over any backend.
//
//   x = token_embd[tokens]
//   for each layer:  x += attn_output(attention(rope(q(norm x)), rope(k(norm x)), v(norm x)))
//                    x += ffn_down(silu(ffn_gate(norm x)) * ffn_up(norm x))
//   logits = output(norm x)
//
// Nothing but attention looks at more than one row, so a row's bits do not depend on what else is
// in the step. That also lets the last layer, behind its K and V, compute only the rows whose
// logits are wanted: the others' results would be thrown away.
#include "engine/model/model.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>

#include <kvgate/check.h>
#include <kvgate/log.h>

#include "engine/model/model_weights.h"

namespace kvgate::model {
namespace {

using kernels::FloatBuffer;
using kernels::MatMulTask;
using kernels::SequenceRows;

// Rows that go through a layer together: all of a step, or the wanted ones in the last layer.
struct RowSet {
  int num_rows = 0;
  std::span<const SequenceRows> sequences;
  float* x = nullptr;                 // [num_rows, hidden_dim]
  const float* rope_table = nullptr;  // [num_rows, rotary_dim / 2, 2]
};

class TransformerModel final : public Model {
 public:
  TransformerModel(std::shared_ptr<const ModelFile> file, kernels::Backend& backend,
                   ModelConfig config, ModelWeights weights, Fingerprint fingerprint);

  const ModelConfig& config() const override { return config_; }
  size_t weight_bytes() const override { return weights_.bytes; }
  Fingerprint fingerprint() const override { return fingerprint_; }
  Result<void> Reserve(int step_tokens_max, int logit_rows_max) override;
  void Forward(const StepInput& input, std::span<float> logits) override;

 private:
  void CheckInput(const StepInput& input, std::span<const float> logits) const;
  void StorePositions(std::span<const SequenceRows> sequences);
  void StoreWantedSequences(const StepInput& input);
  RowSet GatherWanted(const StepInput& input);
  void RunLayer(int layer, const RowSet& rows, kernels::KvArena& arena);
  void RunLastLayer(const RowSet& rows, const StepInput& input, kernels::KvArena& arena,
                    RowSet& wanted);
  void Rotate(float* x, int num_heads, const RowSet& rows);
  void Attend(int layer, const RowSet& rows, const kernels::KvArena& arena);
  void FeedForward(const LayerWeights& weights, const RowSet& rows);

  int64_t q_dim() const { return int64_t{config_.num_heads} * config_.head_dim; }
  int64_t kv_dim() const { return int64_t{config_.num_kv_heads} * config_.head_dim; }

  std::shared_ptr<const ModelFile> file_;  // weights are read from its mapping
  kernels::Backend& backend_;
  ModelConfig config_;
  ModelWeights weights_;
  Fingerprint fingerprint_;
  std::vector<float> inv_freq_;  // [rotary_dim / 2]

  int step_tokens_max_ = 0;
  int logit_rows_max_ = 0;
  // Activations, [step_tokens_max, ...].
  std::unique_ptr<FloatBuffer> x_;           // hidden_dim: the residual stream
  std::unique_ptr<FloatBuffer> normed_;      // hidden_dim
  std::unique_ptr<FloatBuffer> q_;           // q_dim
  std::unique_ptr<FloatBuffer> k_;           // kv_dim
  std::unique_ptr<FloatBuffer> v_;           // kv_dim
  std::unique_ptr<FloatBuffer> attended_;    // q_dim
  std::unique_ptr<FloatBuffer> gate_;        // ffn_dim
  std::unique_ptr<FloatBuffer> up_;          // ffn_dim
  std::unique_ptr<FloatBuffer> rope_table_;  // rotary_dim
  // The same for the wanted rows, [logit_rows_max, ...].
  std::unique_ptr<FloatBuffer> wanted_x_;           // hidden_dim
  std::unique_ptr<FloatBuffer> wanted_normed_;      // hidden_dim
  std::unique_ptr<FloatBuffer> wanted_rope_table_;  // rotary_dim
  std::unique_ptr<FloatBuffer> logits_;             // vocab_size
  // Scratch of one step, kept for its memory.
  std::vector<int> positions_;
  std::vector<int> wanted_positions_;
  std::vector<SequenceRows> wanted_sequences_;
};

TransformerModel::TransformerModel(std::shared_ptr<const ModelFile> file, kernels::Backend& backend,
                                   ModelConfig config, ModelWeights weights,
                                   Fingerprint fingerprint)
    : file_(std::move(file)),
      backend_(backend),
      config_(std::move(config)),
      weights_(std::move(weights)),
      fingerprint_(fingerprint) {
  // In double: in f32 the pow of a large base is off by enough to show at position 10^5.
  for (int i = 0; i < config_.rotary_dim / 2; ++i) {
    const double exponent = -2.0 * i / config_.rotary_dim;
    inv_freq_.push_back(
        static_cast<float>(std::pow(static_cast<double>(config_.rope_theta), exponent)));
  }
}

Result<void> TransformerModel::Reserve(int step_tokens_max, int logit_rows_max) {
  KVGATE_CHECK(step_tokens_max > 0 && logit_rows_max > 0, "rows of a step");
  uint64_t num_floats = 0;
  const auto allocate = [&](std::unique_ptr<FloatBuffer>& buffer, int rows,
                            int64_t columns) -> Result<void> {
    buffer.reset();  // before its successor, so that both need not fit
    const size_t size = static_cast<size_t>(rows) * static_cast<size_t>(columns);
    KVGATE_TRY(buffer, backend_.AllocateFloats(size));
    num_floats += size;
    return {};
  };
  const int tokens = step_tokens_max;
  const int wanted = logit_rows_max;
  KVGATE_TRY_VOID(allocate(x_, tokens, config_.hidden_dim));
  KVGATE_TRY_VOID(allocate(normed_, tokens, config_.hidden_dim));
  KVGATE_TRY_VOID(allocate(q_, tokens, q_dim()));
  KVGATE_TRY_VOID(allocate(k_, tokens, kv_dim()));
  KVGATE_TRY_VOID(allocate(v_, tokens, kv_dim()));
  KVGATE_TRY_VOID(allocate(attended_, tokens, q_dim()));
  KVGATE_TRY_VOID(allocate(gate_, tokens, config_.ffn_dim));
  KVGATE_TRY_VOID(allocate(up_, tokens, config_.ffn_dim));
  KVGATE_TRY_VOID(allocate(rope_table_, tokens, config_.rotary_dim));
  KVGATE_TRY_VOID(allocate(wanted_x_, wanted, config_.hidden_dim));
  KVGATE_TRY_VOID(allocate(wanted_normed_, wanted, config_.hidden_dim));
  KVGATE_TRY_VOID(allocate(wanted_rope_table_, wanted, config_.rotary_dim));
  KVGATE_TRY_VOID(allocate(logits_, wanted, config_.vocab_size));
  const ActivationFloats counted = CountActivations(config_);
  KVGATE_CHECK(num_floats == counted.per_token * static_cast<uint64_t>(tokens) +
                                 counted.per_logit_row * static_cast<uint64_t>(wanted),
               "CountActivations counts what is allocated here");
  positions_.reserve(static_cast<size_t>(tokens));
  wanted_positions_.reserve(static_cast<size_t>(wanted));
  wanted_sequences_.reserve(static_cast<size_t>(wanted));
  step_tokens_max_ = step_tokens_max;
  logit_rows_max_ = logit_rows_max;
  return {};
}

void TransformerModel::CheckInput(const StepInput& input, std::span<const float> logits) const {
  KVGATE_CHECK(!input.tokens.empty() && std::ssize(input.tokens) <= step_tokens_max_,
               "tokens of a step: Reserve decides how many");
  KVGATE_CHECK(std::ssize(input.logit_rows) <= logit_rows_max_, "logit rows of a step");
  KVGATE_CHECK(logits.size() == input.logit_rows.size() * static_cast<size_t>(config_.vocab_size),
               "size of the logits");
  KVGATE_CHECK(input.groups.size() == config_.kv_groups.size(), "KV groups");
  for (size_t i = 0; i < input.groups.size(); ++i) {
    const kernels::KvShape& shape = input.groups[i].arena->shape();
    KVGATE_CHECK(shape == config_.kv_shape(shape.dtype, i), "KV arena of another model");
  }
  int previous = -1;
  for (const int row : input.logit_rows) {
    KVGATE_CHECK(row > previous && row < std::ssize(input.tokens), "logit rows ascend");
    previous = row;
  }
}

void TransformerModel::StorePositions(std::span<const SequenceRows> sequences) {
  positions_.clear();
  for (const SequenceRows& sequence : sequences) {
    KVGATE_CHECK(sequence.first_row == std::ssize(positions_), "sequences cover the rows in order");
    // The place in the text, which the rotation depends on; the slot may be another.
    const int first = sequence.first_position + sequence.num_dropped_tokens;
    for (int i = 0; i < sequence.num_rows; ++i) positions_.push_back(first + i);
  }
}

// The wanted rows as sequences of their own: runs of neighbours, at the positions they have.
void TransformerModel::StoreWantedSequences(const StepInput& input) {
  wanted_sequences_.clear();
  wanted_positions_.clear();
  size_t sequence_index = 0;
  int previous_row = -2;
  for (const int row : input.logit_rows) {
    const size_t before = sequence_index;
    while (row >= input.groups[0].sequences[sequence_index].first_row +
                      input.groups[0].sequences[sequence_index].num_rows) {
      ++sequence_index;
    }
    const SequenceRows& sequence = input.groups[0].sequences[sequence_index];
    const int slot = sequence.first_position + (row - sequence.first_row);
    if (row == previous_row + 1 && before == sequence_index && !wanted_sequences_.empty()) {
      ++wanted_sequences_.back().num_rows;
    } else {
      wanted_sequences_.push_back({.first_row = static_cast<int>(wanted_positions_.size()),
                                   .num_rows = 1,
                                   .first_position = slot,
                                   .block_table = sequence.block_table,
                                   .num_dropped_tokens = sequence.num_dropped_tokens,
                                   .block_mass = sequence.block_mass});
    }
    wanted_positions_.push_back(slot + sequence.num_dropped_tokens);
    previous_row = row;
  }
}

RowSet TransformerModel::GatherWanted(const StepInput& input) {
  StoreWantedSequences(input);
  backend_.GatherRows(x_->data(), input.logit_rows, config_.hidden_dim, wanted_x_->data());
  backend_.RopeTable(wanted_positions_, inv_freq_, wanted_rope_table_->data());
  return {.num_rows = static_cast<int>(input.logit_rows.size()),
          .sequences = wanted_sequences_,
          .x = wanted_x_->data(),
          .rope_table = wanted_rope_table_->data()};
}

void TransformerModel::Rotate(float* x, int num_heads, const RowSet& rows) {
  backend_.Rope(x, rows.num_rows,
                {.kind = config_.rope_kind,
                 .num_heads = num_heads,
                 .head_dim = config_.head_dim,
                 .rotary_dim = config_.rotary_dim},
                rows.rope_table);
}

// REQUIRES: q_ holds the rotated queries of `rows`; their K and V are stored.
void TransformerModel::Attend(int layer, const RowSet& rows, const kernels::KvArena& arena) {
  const kernels::AttentionShape shape = {
      .num_heads = config_.num_heads,
      .scale = static_cast<float>(1.0 / std::sqrt(static_cast<double>(config_.head_dim)))};
  backend_.Attention(q_->data(), rows.sequences, layer, arena, shape, attended_->data());
  const LayerWeights& weights = weights_.layers[static_cast<size_t>(layer)];
  const MatMulTask task = {
      .weight = weights.attn_output.get(), .bias = nullptr, .y = rows.x, .accumulate = true};
  backend_.MatMul(attended_->data(), rows.num_rows, {&task, 1});
}

void TransformerModel::FeedForward(const LayerWeights& weights, const RowSet& rows) {
  backend_.RmsNorm(rows.x, weights.ffn_norm->data(), config_.norm_eps, rows.num_rows,
                   config_.hidden_dim, normed_->data());
  const MatMulTask tasks[] = {{.weight = weights.ffn_gate.get(), .y = gate_->data()},
                              {.weight = weights.ffn_up.get(), .y = up_->data()}};
  backend_.MatMul(normed_->data(), rows.num_rows, tasks);
  const size_t count = static_cast<size_t>(rows.num_rows) * static_cast<size_t>(config_.ffn_dim);
  backend_.SwiGlu(gate_->data(), up_->data(), count, gate_->data());
  const MatMulTask down = {
      .weight = weights.ffn_down.get(), .bias = nullptr, .y = rows.x, .accumulate = true};
  backend_.MatMul(gate_->data(), rows.num_rows, {&down, 1});
}

const float* DataOrNull(const std::unique_ptr<FloatBuffer>& buffer) {
  return buffer == nullptr ? nullptr : buffer->data();
}

void TransformerModel::RunLayer(int layer, const RowSet& rows, kernels::KvArena& arena) {
  const LayerWeights& weights = weights_.layers[static_cast<size_t>(layer)];
  backend_.RmsNorm(rows.x, weights.attn_norm->data(), config_.norm_eps, rows.num_rows,
                   config_.hidden_dim, normed_->data());
  const MatMulTask tasks[] = {
      {.weight = weights.attn_q.get(), .bias = DataOrNull(weights.attn_q_bias), .y = q_->data()},
      {.weight = weights.attn_k.get(), .bias = DataOrNull(weights.attn_k_bias), .y = k_->data()},
      {.weight = weights.attn_v.get(), .bias = DataOrNull(weights.attn_v_bias), .y = v_->data()}};
  backend_.MatMul(normed_->data(), rows.num_rows, tasks);
  Rotate(q_->data(), config_.num_heads, rows);
  Rotate(k_->data(), config_.num_kv_heads, rows);
  backend_.StoreKv(k_->data(), v_->data(), rows.sequences, layer, arena);
  Attend(layer, rows, arena);
  FeedForward(weights, rows);
}

// As RunLayer, but only K and V are of all rows; the rest is of the wanted ones, maybe none.
void TransformerModel::RunLastLayer(const RowSet& rows, const StepInput& input,
                                    kernels::KvArena& arena, RowSet& wanted) {
  const int layer = config_.num_layers - 1;
  const LayerWeights& weights = weights_.layers[static_cast<size_t>(layer)];
  backend_.RmsNorm(rows.x, weights.attn_norm->data(), config_.norm_eps, rows.num_rows,
                   config_.hidden_dim, normed_->data());
  const MatMulTask tasks[] = {
      {.weight = weights.attn_k.get(), .bias = DataOrNull(weights.attn_k_bias), .y = k_->data()},
      {.weight = weights.attn_v.get(), .bias = DataOrNull(weights.attn_v_bias), .y = v_->data()}};
  backend_.MatMul(normed_->data(), rows.num_rows, tasks);
  Rotate(k_->data(), config_.num_kv_heads, rows);
  backend_.StoreKv(k_->data(), v_->data(), rows.sequences, layer, arena);
  if (input.logit_rows.empty()) return;

  wanted = GatherWanted(input);
  backend_.GatherRows(normed_->data(), input.logit_rows, config_.hidden_dim,
                      wanted_normed_->data());
  const MatMulTask query = {
      .weight = weights.attn_q.get(), .bias = DataOrNull(weights.attn_q_bias), .y = q_->data()};
  backend_.MatMul(wanted_normed_->data(), wanted.num_rows, {&query, 1});
  Rotate(q_->data(), config_.num_heads, wanted);
  Attend(layer, wanted, arena);
  FeedForward(weights, wanted);
}

void TransformerModel::Forward(const StepInput& input, std::span<float> logits) {
  CheckInput(input, logits);
  const StepGroup& group = input.groups[0];
  kernels::KvArena& arena = *group.arena;
  StorePositions(group.sequences);
  KVGATE_CHECK(positions_.size() == input.tokens.size(), "sequences cover all rows");
  backend_.EmbedRows(weights_.token_embd, input.tokens, x_->data());
  backend_.RopeTable(positions_, inv_freq_, rope_table_->data());
  const RowSet rows = {.num_rows = static_cast<int>(input.tokens.size()),
                       .sequences = group.sequences,
                       .x = x_->data(),
                       .rope_table = rope_table_->data()};
  for (int layer = 0; layer + 1 < config_.num_layers; ++layer) RunLayer(layer, rows, arena);

  RowSet wanted = rows;
  if (input.logit_rows.size() == input.tokens.size()) {
    RunLayer(config_.num_layers - 1, rows, arena);  // pure decode: nothing to leave out
  } else {
    RunLastLayer(rows, input, arena, wanted);
  }
  if (input.logit_rows.empty()) {
    backend_.Synchronize();  // the KV is there when Forward returns, as it is with logits
    return;
  }
  backend_.RmsNorm(wanted.x, weights_.output_norm->data(), config_.norm_eps, wanted.num_rows,
                   config_.hidden_dim, normed_->data());
  const MatMulTask output = {
      .weight = weights_.output.get(), .bias = nullptr, .y = logits_->data()};
  backend_.MatMul(normed_->data(), wanted.num_rows, {&output, 1});
  backend_.Synchronize();
  backend_.CopyOut(logits_->data(), logits);
}

}  // namespace

ActivationFloats CountActivations(const ModelConfig& config) {
  const auto count = [](int64_t n) { return static_cast<uint64_t>(n); };
  const int64_t head_dim = config.head_dim;
  return {.per_token = count(2 * int64_t{config.hidden_dim} + 2 * config.num_heads * head_dim +
                             2 * config.num_kv_heads * head_dim + 2 * int64_t{config.ffn_dim} +
                             config.rotary_dim),
          .per_logit_row =
              count(2 * int64_t{config.hidden_dim} + config.rotary_dim + config.vocab_size)};
}

Result<std::unique_ptr<Model>> Model::Load(std::shared_ptr<const ModelFile> file,
                                           kernels::Backend& backend) {
  const auto start = std::chrono::steady_clock::now();
  KVGATE_TRY(ModelConfig config, ReadModelConfig(*file));
  KVGATE_TRY(ModelWeights weights, LoadModelWeights(*file, config, backend));
  const Fingerprint fingerprint = ComputeWeightFingerprint(*file, config);
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  KVGATE_LOG(kInfo, "model", "loaded {} ({}, {} layers, {} MiB of weights) in {:.1f} s",
             config.name.empty() ? "a model without a name" : config.name, config.architecture,
             config.num_layers, weights.bytes >> 20, seconds.count());
  return std::unique_ptr<Model>(std::make_unique<TransformerModel>(
      std::move(file), backend, std::move(config), std::move(weights), fingerprint));
}

}  // namespace kvgate::model
