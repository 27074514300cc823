// The forward function for every architecture, over any backend.
//
//   x = embedding_scale * token_embd[tokens]
//   for each layer:  x += residual_scale * post_norm(attention part(norm x))
//                    x += residual_scale * post_norm(feed-forward part(norm x))
//   logits = softcap(logit_scale * output(norm x))
//
// Norms, scales and caps that a model lacks are left out, not computed with neutral values. Only
// attention reads more than one row, so a row's bits do not depend on the other rows of the step.
// That also lets the last layer, after its K and V, compute only the rows whose logits are wanted,
// because the results of the others would not be used.
#include "engine/model/model.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <numeric>

#include "base/check.h"
#include "base/log.h"
#include "engine/model/model_weights.h"
#include "engine/modelfile/mapped_file.h"

namespace kvgate::model {

using modelfile::ModelFile;

namespace {

using kernels::FloatBuffer;
using kernels::MatMulTask;
using kernels::SequenceRows;

using Sequences = std::span<const SequenceRows>;

// Rows that go through a layer together: all rows of a step, or the wanted ones in the last layer.
struct RowSet {
  int num_rows = 0;
  std::span<const Sequences> groups;   // one per KV group
  std::span<const Sequences> seen;     // the same rows at the positions up to which they see
  float* x = nullptr;                  // [num_rows, hidden_dim]
  const float* rope_tables = nullptr;  // [ropes, num_rows, rotary_dim / 2, 2]
};

kernels::ExpertShape ExpertShapeOf(const ModelConfig& config) {
  return {.num_experts = config.experts.num_experts,
          .num_used = config.experts.num_used,
          .hidden_dim = config.hidden_dim,
          .ffn_dim = config.experts.ffn_dim,
          .shared_dim = config.experts.shared_dim};
}

int64_t QueryDim(const ModelConfig& config) { return int64_t{config.num_heads} * config.head_dim; }
int64_t KvDim(const ModelConfig& config) { return int64_t{config.num_kv_heads} * config.head_dim; }

MatMulTask QueryTask(const LayerWeights& weights, FloatBuffer& q) {
  return {.weight = weights.attn_q.get(), .bias = DataOrNull(weights.attn_q_bias), .y = q.data()};
}

kernels::NormArgs NormOf(const NormWeights& norm, const ModelConfig& config) {
  return {.kind = config.norm_kind,
          .weight = norm.weight->data(),
          .bias = DataOrNull(norm.bias),
          .eps = config.norm_eps};
}

void MakeRopeTables(const ModelConfig& config, std::span<const int> positions,
                    kernels::Backend& backend, float* tables) {
  for (const RopeConfig& rope : config.ropes) {
    backend.RopeTable(positions, rope.inv_freq, rope.magnitude, tables);
    tables += std::ssize(positions) * config.rotary_dim;
  }
}

// Appends each row as a sequence of its own at the last position of its text, so that it sees all
// of it. `texts` are whole ones, as ForwardRows requires.
void AppendSeeingAll(Sequences texts, std::vector<SequenceRows>& rows) {
  for (const SequenceRows& text : texts) {
    KVGATE_CHECK(text.first_position == 0 && text.num_dropped_tokens == 0, "a whole text");
    for (int i = 0; i < text.num_rows; ++i) {
      rows.push_back({.first_row = text.first_row + i,
                      .num_rows = 1,
                      .first_position = text.num_rows - 1,
                      .block_table = text.block_table});
    }
  }
}

class TransformerModel final : public Model {
 public:
  TransformerModel(std::shared_ptr<const ModelFile> file, kernels::Backend& backend,
                   ModelConfig config, ModelWeights weights, Fingerprint fingerprint);

  const ModelConfig& config() const override { return config_; }
  size_t weight_bytes() const override { return weights_.bytes; }
  Fingerprint fingerprint() const override { return fingerprint_; }
  const EmbeddingTable* rows_in_file() const override {
    return reads_rows_ ? &weights_.token_embd : nullptr;
  }
  Result<void> Reserve(int step_tokens_max, int logit_rows_max) override;
  Result<void> Forward(const StepInput& input, std::span<float> logits) override;
  Result<void> ForwardHeads(const StepInput& input, std::span<const float> scales,
                            LogitHeads& heads) override;
  void ReadLogits(size_t index, std::span<float> logits) override;
  Result<void> ForwardRows(const StepInput& input, std::span<float> rows) override;

 private:
  void CheckInput(const StepInput& input) const;
  Result<void> EmbedTokens(std::span<const TokenId> tokens);
  Result<void> RunStep(const StepInput& input);
  void StorePositions(Sequences sequences);
  void StoreWantedSequences(const StepInput& input);
  void AddPositions();
  RowSet GatherWanted(const StepInput& input);
  const float* PreNorm(const FloatBuffer* norm, const RowSet& rows);
  void RunLayer(int layer, const RowSet& rows, const StepInput& input);
  void RunLastLayer(const RowSet& rows, const StepInput& input, RowSet& wanted);
  void StoreKeysAndValues(int layer, const RowSet& rows, const StepInput& input);
  void NormAndRotate(int layer, const FloatBuffer* norm, int num_heads, const RowSet& rows,
                     float* x);
  void Attend(int layer, const RowSet& rows, const StepInput& input);
  void AddPart(const float* input, const RowSet& rows, const MatMulTask& product,
               const FloatBuffer* post_norm, const NormWeights& stream_norm);
  void FeedForward(const LayerWeights& weights, const RowSet& rows);
  void ComputeLogits(const RowSet& rows);

  std::shared_ptr<const ModelFile> file_;  // embeddings are read from it
  kernels::Backend& backend_;
  ModelConfig config_;
  ModelWeights weights_;
  Fingerprint fingerprint_;
  const bool reads_rows_;  // from the file; a backend with its own memory has a copy (LoadTable)

  int step_tokens_max_ = 0;
  int logit_rows_max_ = 0;
  // Activations, [step_tokens_max, ...].
  std::unique_ptr<FloatBuffer> x_;                          // hidden_dim: the residual stream
  std::unique_ptr<FloatBuffer> normed_;                     // hidden_dim
  std::unique_ptr<FloatBuffer> q_;                          // q_dim
  std::unique_ptr<FloatBuffer> k_;                          // kv_dim
  std::unique_ptr<FloatBuffer> v_;                          // kv_dim
  std::unique_ptr<FloatBuffer> attended_;                   // q_dim
  std::unique_ptr<FloatBuffer> gate_;                       // ffn_dim
  std::unique_ptr<FloatBuffer> up_;                         // ffn_dim
  std::unique_ptr<kernels::ExpertScratch> expert_scratch_;  // replaces gate_ and up_ with experts
  std::unique_ptr<FloatBuffer> rope_tables_;                // rotary_dim for each rope
  // Activations of the wanted rows, [logit_rows_max, ...].
  std::unique_ptr<FloatBuffer> wanted_x_;            // hidden_dim
  std::unique_ptr<FloatBuffer> wanted_normed_;       // hidden_dim
  std::unique_ptr<FloatBuffer> wanted_rope_tables_;  // rotary_dim for each rope
  std::unique_ptr<FloatBuffer> logits_;              // vocab_size; nothing for embeddings
  const float* final_rows_ = nullptr;  // of the last step: its wanted rows, normalised
  // Scratch of one step, kept to reuse its memory.
  std::vector<TokenId> places_;  // 0, 1, 2, ...
  std::vector<int> positions_;
  std::vector<int> wanted_positions_;
  std::vector<Sequences> groups_;
  std::vector<std::vector<SequenceRows>> wanted_sequences_;  // per KV group
  std::vector<Sequences> wanted_groups_;
  std::vector<SequenceRows> seeing_sequences_;  // of a model whose rows see later ones
  std::vector<Sequences> seeing_groups_;        // they are of its only KV group
};

TransformerModel::TransformerModel(std::shared_ptr<const ModelFile> file, kernels::Backend& backend,
                                   ModelConfig config, ModelWeights weights,
                                   Fingerprint fingerprint)
    : file_(std::move(file)),
      backend_(backend),
      config_(std::move(config)),
      weights_(std::move(weights)),
      fingerprint_(fingerprint),
      reads_rows_(backend.Info().kv_host_visible) {
  KVGATE_CHECK(config_.experts.num_experts == 0 || !config_.post_norms,
               "a mixture adds to the stream by itself");
  KVGATE_CHECK(!config_.stream_norms || (!config_.post_norms && config_.residual_scale == 1),
               "a stream that is normalised takes its parts as they are");
}

Result<void> TransformerModel::Reserve(int step_tokens_max, int logit_rows_max) {
  KVGATE_CHECK(step_tokens_max > 0 && logit_rows_max > 0, "rows of a step");
  uint64_t num_floats = 0;
  const auto allocate = [&](std::unique_ptr<FloatBuffer>& buffer, int rows,
                            int64_t columns) -> Result<void> {
    buffer.reset();  // freed before the new one is allocated, so that both need not fit
    const size_t size = static_cast<size_t>(rows) * static_cast<size_t>(columns);
    KVGATE_TRY(buffer, backend_.AllocateFloats(size));
    num_floats += size;
    return {};
  };
  const int tokens = step_tokens_max;
  const int wanted = logit_rows_max;
  KVGATE_TRY_VOID(allocate(x_, tokens, config_.hidden_dim));
  KVGATE_TRY_VOID(allocate(normed_, tokens, config_.hidden_dim));
  KVGATE_TRY_VOID(allocate(q_, tokens, QueryDim(config_)));
  KVGATE_TRY_VOID(allocate(k_, tokens, KvDim(config_)));
  KVGATE_TRY_VOID(allocate(v_, tokens, KvDim(config_)));
  KVGATE_TRY_VOID(allocate(attended_, tokens, QueryDim(config_)));
  const int64_t rope_columns = std::ssize(config_.ropes) * config_.rotary_dim;
  if (config_.experts.num_experts == 0) {
    KVGATE_TRY_VOID(allocate(gate_, tokens, config_.ffn_dim));
    KVGATE_TRY_VOID(allocate(up_, tokens, config_.ffn_dim));
  } else {
    expert_scratch_.reset();
    KVGATE_TRY(expert_scratch_, backend_.AllocateExpertScratch(ExpertShapeOf(config_), tokens));
    num_floats += expert_scratch_->num_floats();
  }
  KVGATE_TRY_VOID(allocate(rope_tables_, tokens, rope_columns));
  KVGATE_TRY_VOID(allocate(wanted_x_, wanted, config_.hidden_dim));
  KVGATE_TRY_VOID(allocate(wanted_normed_, wanted, config_.hidden_dim));
  KVGATE_TRY_VOID(allocate(wanted_rope_tables_, wanted, rope_columns));
  KVGATE_TRY_VOID(allocate(logits_, wanted, config_.pooling ? 0 : config_.vocab_size));
  const ActivationFloats counted = CountActivations(config_, backend_.Info().routes_experts);
  KVGATE_CHECK(num_floats == counted.per_token * static_cast<uint64_t>(tokens) +
                                 counted.per_logit_row * static_cast<uint64_t>(wanted) +
                                 counted.fixed,
               "CountActivations counts what is allocated here");
  if (reads_rows_) weights_.token_embd.Reserve(static_cast<size_t>(tokens));
  places_.resize(static_cast<size_t>(tokens));
  std::iota(places_.begin(), places_.end(), 0);
  positions_.reserve(static_cast<size_t>(tokens));
  wanted_positions_.reserve(static_cast<size_t>(wanted));
  step_tokens_max_ = step_tokens_max;
  logit_rows_max_ = logit_rows_max;
  return {};
}

void TransformerModel::CheckInput(const StepInput& input) const {
  KVGATE_CHECK(!input.tokens.empty() && std::ssize(input.tokens) <= step_tokens_max_,
               "tokens of a step: Reserve decides how many");
  KVGATE_CHECK(std::ssize(input.logit_rows) <= logit_rows_max_, "logit rows of a step");
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

void TransformerModel::StorePositions(Sequences sequences) {
  positions_.clear();
  for (const SequenceRows& sequence : sequences) {
    KVGATE_CHECK(sequence.first_row == std::ssize(positions_), "sequences cover the rows in order");
    // The rotation depends on the position in the text, which differs from the slot after drops.
    const int first = sequence.first_position + sequence.num_dropped_tokens;
    for (int i = 0; i < sequence.num_rows; ++i) positions_.push_back(first + i);
  }
}

// Appends the wanted rows of one KV group as separate sequences: runs of adjacent rows at their
// positions. They have no block_mass, because which rows are wanted depends on the cut into steps.
void AppendWanted(Sequences sequences, std::span<const int> wanted_rows,
                  std::vector<SequenceRows>& wanted) {
  size_t sequence_index = 0;
  int previous_row = -2;
  int num_wanted = 0;
  for (const int row : wanted_rows) {
    const size_t before = sequence_index;
    while (row >= sequences[sequence_index].first_row + sequences[sequence_index].num_rows) {
      ++sequence_index;
    }
    const SequenceRows& sequence = sequences[sequence_index];
    if (row == previous_row + 1 && before == sequence_index && !wanted.empty()) {
      ++wanted.back().num_rows;
    } else {
      wanted.push_back({.first_row = num_wanted,
                        .num_rows = 1,
                        .first_position = sequence.first_position + (row - sequence.first_row),
                        .block_table = sequence.block_table,
                        .num_dropped_tokens = sequence.num_dropped_tokens});
    }
    ++num_wanted;
    previous_row = row;
  }
}

void TransformerModel::StoreWantedSequences(const StepInput& input) {
  wanted_sequences_.resize(input.groups.size());
  wanted_groups_.clear();
  for (size_t i = 0; i < input.groups.size(); ++i) {
    wanted_sequences_[i].clear();
    const Sequences sequences =
        config_.sees_later_rows ? Sequences(seeing_sequences_) : input.groups[i].sequences;
    AppendWanted(sequences, input.logit_rows, wanted_sequences_[i]);
    wanted_groups_.push_back(wanted_sequences_[i]);
  }
  wanted_positions_.clear();
  for (const int row : input.logit_rows) {
    wanted_positions_.push_back(positions_[static_cast<size_t>(row)]);
  }
}

RowSet TransformerModel::GatherWanted(const StepInput& input) {
  StoreWantedSequences(input);
  backend_.GatherRows(x_->data(), input.logit_rows, config_.hidden_dim, wanted_x_->data());
  MakeRopeTables(config_, wanted_positions_, backend_, wanted_rope_tables_->data());
  return {.num_rows = static_cast<int>(input.logit_rows.size()),
          .groups = wanted_groups_,
          .seen = wanted_groups_,
          .x = wanted_x_->data(),
          .rope_tables = wanted_rope_tables_->data()};
}

// Returns the input of a layer's part: the residual stream, normalised if the part has a norm.
const float* TransformerModel::PreNorm(const FloatBuffer* norm, const RowSet& rows) {
  if (norm == nullptr) return rows.x;
  backend_.Norm(rows.x, {.weight = norm->data(), .eps = config_.norm_eps}, rows.num_rows,
                config_.hidden_dim, normed_->data());
  return normed_->data();
}

// Adds the output of a layer's part to the residual stream: residual_scale * post_norm(product of
// input), and normalises the stream then, if the model does so. REQUIRES: input is not normed_.
void TransformerModel::AddPart(const float* input, const RowSet& rows, const MatMulTask& product,
                               const FloatBuffer* post_norm, const NormWeights& stream_norm) {
  MatMulTask task = product;
  const bool is_direct = post_norm == nullptr && config_.residual_scale == 1;
  task.y = is_direct ? rows.x : normed_->data();
  task.accumulate = is_direct;
  backend_.MatMul(input, rows.num_rows, {&task, 1});
  if (config_.stream_norms) {
    backend_.Norm(rows.x, NormOf(stream_norm, config_), rows.num_rows, config_.hidden_dim, rows.x);
  }
  if (is_direct) return;
  if (post_norm != nullptr) {
    backend_.Norm(task.y, {.weight = post_norm->data(), .eps = config_.norm_eps}, rows.num_rows,
                  config_.hidden_dim, task.y);
  }
  const size_t count = static_cast<size_t>(rows.num_rows) * static_cast<size_t>(config_.hidden_dim);
  backend_.AddScaled(task.y, config_.residual_scale, count, rows.x);
}

// Prepares queries or keys [num_rows, num_heads, head_dim] for attention.
void TransformerModel::NormAndRotate(int layer, const FloatBuffer* norm, int num_heads,
                                     const RowSet& rows, float* x) {
  if (norm != nullptr) {
    const bool is_head = config_.qk_norm == QkNorm::kHead;
    const int64_t columns = int64_t{config_.head_dim} * (is_head ? 1 : num_heads);
    backend_.Norm(x, {.weight = norm->data(), .eps = config_.norm_eps},
                  rows.num_rows * (is_head ? num_heads : 1), columns, x);
  }
  const int rope = config_.layers[static_cast<size_t>(layer)].rope;
  if (rope < 0) return;
  backend_.Rope(x, rows.num_rows,
                {.kind = config_.rope_kind,
                 .num_heads = num_heads,
                 .head_dim = config_.head_dim,
                 .rotary_dim = config_.rotary_dim},
                rows.rope_tables + int64_t{rope} * rows.num_rows * config_.rotary_dim);
}

// REQUIRES: k_ and v_ hold the products of `rows`.
void TransformerModel::StoreKeysAndValues(int layer, const RowSet& rows, const StepInput& input) {
  const LayerConfig& place = config_.layers[static_cast<size_t>(layer)];
  const auto group = static_cast<size_t>(place.kv_group);
  NormAndRotate(layer, weights_.layers[static_cast<size_t>(layer)].attn_k_norm.get(),
                config_.num_kv_heads, rows, k_->data());
  backend_.StoreKv(k_->data(), v_->data(), rows.groups[group], place.kv_layer,
                   *input.groups[group].arena);
}

// REQUIRES: q_ holds the products of `rows`; their K and V are stored.
void TransformerModel::Attend(int layer, const RowSet& rows, const StepInput& input) {
  const LayerConfig& place = config_.layers[static_cast<size_t>(layer)];
  const LayerWeights& weights = weights_.layers[static_cast<size_t>(layer)];
  const auto group = static_cast<size_t>(place.kv_group);
  NormAndRotate(layer, weights.attn_q_norm.get(), config_.num_heads, rows, q_->data());
  const kernels::AttentionShape shape = {.num_heads = config_.num_heads,
                                         .scale = config_.attention_scale,
                                         .window = place.window,
                                         .softcap = config_.attention_softcap,
                                         .sinks = DataOrNull(weights.attn_sinks)};
  backend_.Attention(q_->data(), rows.seen[group], place.kv_layer, *input.groups[group].arena,
                     shape, attended_->data());
  AddPart(attended_->data(), rows,
          {.weight = weights.attn_output.get(), .bias = DataOrNull(weights.attn_output_bias)},
          weights.attn_post_norm.get(), weights.attn_stream_norm);
}

void TransformerModel::FeedForward(const LayerWeights& weights, const RowSet& rows) {
  const float* normed = PreNorm(weights.ffn_norm.get(), rows);
  if (weights.experts.set != nullptr) {
    return backend_.MixExperts({.experts = weights.experts.set.get(),
                                .scratch = expert_scratch_.get(),
                                .x = normed,
                                .num_rows = rows.num_rows,
                                .factor = config_.residual_scale,
                                .y = rows.x});
  }
  const size_t count = static_cast<size_t>(rows.num_rows) * static_cast<size_t>(config_.ffn_dim);
  const float* const up_bias = DataOrNull(weights.ffn_up_bias);
  if (config_.has_ffn_gate) {
    const MatMulTask tasks[] = {
        {.weight = weights.ffn_gate.get(), .y = gate_->data()},
        {.weight = weights.ffn_up.get(), .bias = up_bias, .y = up_->data()}};
    backend_.MatMul(normed, rows.num_rows, tasks);
    backend_.Glu(config_.glu, gate_->data(), up_->data(), count, gate_->data());
  } else {
    const MatMulTask task = {.weight = weights.ffn_up.get(), .bias = up_bias, .y = gate_->data()};
    backend_.MatMul(normed, rows.num_rows, {&task, 1});
    backend_.Glu(config_.glu, gate_->data(), nullptr, count, gate_->data());
  }
  AddPart(gate_->data(), rows,
          {.weight = weights.ffn_down.get(), .bias = DataOrNull(weights.ffn_down_bias)},
          weights.ffn_post_norm.get(), weights.ffn_stream_norm);
}

void TransformerModel::RunLayer(int layer, const RowSet& rows, const StepInput& input) {
  const LayerWeights& weights = weights_.layers[static_cast<size_t>(layer)];
  const float* normed = PreNorm(weights.attn_norm.get(), rows);
  const MatMulTask tasks[] = {
      QueryTask(weights, *q_),
      {.weight = weights.attn_k.get(), .bias = DataOrNull(weights.attn_k_bias), .y = k_->data()},
      {.weight = weights.attn_v.get(), .bias = DataOrNull(weights.attn_v_bias), .y = v_->data()}};
  backend_.MatMul(normed, rows.num_rows, tasks);
  StoreKeysAndValues(layer, rows, input);
  Attend(layer, rows, input);
  FeedForward(weights, rows);
}

// Same as RunLayer, but computes only K and V for all rows, and the rest for the wanted rows, if
// any.
void TransformerModel::RunLastLayer(const RowSet& rows, const StepInput& input, RowSet& wanted) {
  const int layer = config_.num_layers - 1;
  const LayerWeights& weights = weights_.layers[static_cast<size_t>(layer)];
  const float* normed = PreNorm(weights.attn_norm.get(), rows);
  const MatMulTask tasks[] = {
      {.weight = weights.attn_k.get(), .bias = DataOrNull(weights.attn_k_bias), .y = k_->data()},
      {.weight = weights.attn_v.get(), .bias = DataOrNull(weights.attn_v_bias), .y = v_->data()}};
  backend_.MatMul(normed, rows.num_rows, tasks);
  StoreKeysAndValues(layer, rows, input);
  if (input.logit_rows.empty()) return;

  wanted = GatherWanted(input);
  backend_.GatherRows(normed, input.logit_rows, config_.hidden_dim, wanted_normed_->data());
  const MatMulTask query = QueryTask(weights, *q_);
  backend_.MatMul(wanted_normed_->data(), wanted.num_rows, {&query, 1});
  Attend(layer, wanted, input);
  FeedForward(weights, wanted);
}

void TransformerModel::ComputeLogits(const RowSet& rows) {
  const float* normed = PreNorm(weights_.output_norm.get(), rows);
  final_rows_ = normed;
  if (config_.pooling) return;
  const MatMulTask output = {
      .weight = weights_.output.get(), .bias = nullptr, .y = logits_->data()};
  backend_.MatMul(normed, rows.num_rows, {&output, 1});
  const size_t count = static_cast<size_t>(rows.num_rows) * static_cast<size_t>(config_.vocab_size);
  if (config_.logit_scale != 1) backend_.Scale(config_.logit_scale, count, logits_->data());
  if (config_.logit_softcap != 0) backend_.SoftCap(config_.logit_softcap, count, logits_->data());
}

Result<void> TransformerModel::Forward(const StepInput& input, std::span<float> logits) {
  KVGATE_CHECK(logits.size() == input.logit_rows.size() * static_cast<size_t>(config_.vocab_size),
               "size of the logits");
  KVGATE_TRY_VOID(RunStep(input));
  backend_.Synchronize();  // the KV is in place when Forward returns, even without logits
  if (!logits.empty()) backend_.CopyOut(logits_->data(), logits);
  return {};
}

Result<void> TransformerModel::ForwardHeads(const StepInput& input, std::span<const float> scales,
                                            LogitHeads& heads) {
  const size_t num_rows = input.logit_rows.size();
  heads.count = std::min(heads.count, config_.vocab_size);
  heads.tokens.resize(num_rows * static_cast<size_t>(heads.count));
  heads.logits.resize(heads.tokens.size());
  heads.exp_sums.resize(num_rows);
  heads.scaled_sums.resize(num_rows);
  KVGATE_TRY_VOID(RunStep(input));
  if (num_rows == 0) {
    backend_.Synchronize();
    return {};
  }
  backend_.TopK({.x = logits_->data(),
                 .num_rows = static_cast<int>(num_rows),
                 .columns = config_.vocab_size,
                 .count = heads.count,
                 .scales = scales},
                {.ids = heads.tokens.data(),
                 .values = heads.logits.data(),
                 .exp_sums = heads.exp_sums.data(),
                 .scaled_exp_sums = heads.scaled_sums.data()});
  return {};
}

void TransformerModel::ReadLogits(size_t index, std::span<float> logits) {
  KVGATE_CHECK(std::ssize(logits) == config_.vocab_size, "size of the logits");
  backend_.CopyOut(logits_->data() + index * logits.size(), logits);
}

// Runs first in a step, so that whatever can fail does so before any KV is written.
Result<void> TransformerModel::EmbedTokens(std::span<const TokenId> tokens) {
  if (reads_rows_) {
    KVGATE_TRY(const kernels::WeightView rows, weights_.token_embd.Stage(tokens));
    backend_.EmbedRows(rows, std::span(places_).first(tokens.size()), x_->data());
  } else {
    backend_.EmbedRows(weights_.token_embd.view(), tokens, x_->data());
  }
  if (config_.embedding_scale != 1) {
    const size_t count = tokens.size() * static_cast<size_t>(config_.hidden_dim);
    backend_.Scale(config_.embedding_scale, count, x_->data());
  }
  AddPositions();
  return {};
}

// What an encoder adds to its embeddings, for the rows at positions_: learned positions, and the
// first type of token.
void TransformerModel::AddPositions() {
  const int num_rows = static_cast<int>(positions_.size());
  const size_t count = positions_.size() * static_cast<size_t>(config_.hidden_dim);
  if (weights_.token_types != nullptr) {
    const std::vector<int> types(positions_.size(), 0);
    backend_.GatherRows(weights_.token_types->data(), types, config_.hidden_dim, normed_->data());
    backend_.AddScaled(normed_->data(), 1, count, x_->data());
  }
  if (weights_.position_embd != nullptr) {
    backend_.GatherRows(weights_.position_embd->data(), positions_, config_.hidden_dim,
                        normed_->data());
    backend_.AddScaled(normed_->data(), 1, count, x_->data());
  }
  if (!config_.embedding_norm) return;
  backend_.Norm(x_->data(), NormOf(weights_.embedding_norm, config_), num_rows, config_.hidden_dim,
                x_->data());
}

Result<void> TransformerModel::RunStep(const StepInput& input) {
  CheckInput(input);
  StorePositions(input.groups[0].sequences);
  KVGATE_CHECK(positions_.size() == input.tokens.size(), "sequences cover all rows");
  KVGATE_TRY_VOID(EmbedTokens(input.tokens));
  MakeRopeTables(config_, positions_, backend_, rope_tables_->data());
  groups_.clear();
  for (const StepGroup& group : input.groups) groups_.push_back(group.sequences);
  seeing_sequences_.clear();
  if (config_.sees_later_rows) AppendSeeingAll(groups_[0], seeing_sequences_);
  seeing_groups_ = {seeing_sequences_};
  const RowSet rows = {.num_rows = static_cast<int>(input.tokens.size()),
                       .groups = groups_,
                       .seen = config_.sees_later_rows ? seeing_groups_ : groups_,
                       .x = x_->data(),
                       .rope_tables = rope_tables_->data()};
  for (int layer = 0; layer + 1 < config_.num_layers; ++layer) RunLayer(layer, rows, input);

  RowSet wanted = rows;
  if (input.logit_rows.size() == input.tokens.size()) {  // pure decode: all rows are wanted
    StoreWantedSequences(input);
    if (!config_.sees_later_rows) wanted.groups = wanted.seen = wanted_groups_;
    RunLayer(config_.num_layers - 1, wanted, input);
  } else {
    RunLastLayer(rows, input, wanted);
  }
  if (!input.logit_rows.empty()) ComputeLogits(wanted);
  return {};
}

Result<void> TransformerModel::ForwardRows(const StepInput& input, std::span<float> rows) {
  KVGATE_CHECK(config_.pooling.has_value(), "a model that was loaded for embeddings");
  KVGATE_CHECK(rows.size() == input.logit_rows.size() * static_cast<size_t>(config_.hidden_dim),
               "size of the rows");
  KVGATE_TRY_VOID(RunStep(input));
  backend_.CopyOut(final_rows_, rows);
  return {};
}

// Hashing and packing read the weights separately. They read the same bytes if nobody wrote the
// file between its opening and the end of both.
Result<void> CheckUnwritten(const ModelFile& file) {
  for (const modelfile::MappedFile* const mapping : file.mappings()) {
    KVGATE_TRY(const modelfile::FileIdentity now, mapping->CurrentIdentity());
    if (!modelfile::MayDiffer(mapping->identity(), now)) continue;
    return MakeError(ErrorCode::kDataLoss, "model",
                     fmt::format("{} was written while it was loaded; load it again when it is "
                                 "whole, and replace model files by rename",
                                 mapping->path().string()));
  }
  return {};
}

}  // namespace

ActivationFloats CountActivations(const ModelConfig& config, bool routes_experts) {
  const auto count = [](int64_t n) { return static_cast<uint64_t>(n); };
  const int64_t head_dim = config.head_dim;
  const int64_t rope_columns = std::ssize(config.ropes) * config.rotary_dim;
  ActivationFloats floats = {
      .per_token = count(2 * int64_t{config.hidden_dim} + 2 * config.num_heads * head_dim +
                         2 * config.num_kv_heads * head_dim + rope_columns),
      .per_logit_row = count(2 * int64_t{config.hidden_dim} + rope_columns +
                             (config.pooling ? 0 : config.vocab_size)),
      .fixed = 0};
  if (config.experts.num_experts == 0) {
    floats.per_token += count(2 * int64_t{config.ffn_dim});
  } else {
    const auto scratch = kernels::CountExpertScratch(ExpertShapeOf(config), routes_experts);
    floats.per_token += scratch.per_row;
    floats.fixed += scratch.fixed;
  }
  return floats;
}

Result<std::unique_ptr<Model>> Model::Load(std::shared_ptr<const ModelFile> file,
                                           kernels::Backend& backend,
                                           const ConfigOptions& options) {
  const auto start = std::chrono::steady_clock::now();
  KVGATE_TRY(ModelConfig config, ReadModelConfig(*file, options));
  KVGATE_TRY(ModelWeights weights, LoadModelWeights(*file, config, backend));
  KVGATE_TRY_VOID(backend.LoadTable(weights.token_embd.view()));
  KVGATE_TRY_VOID(CheckUnwritten(*file));
  const Fingerprint fingerprint = ComputeWeightFingerprint(*file, config, weights.digests);
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  KVGATE_LOG(kInfo, "model", "loaded {} ({}, {} layers, {} MiB of weights) in {:.1f} s",
             config.name.empty() ? "a model without a name" : config.name, config.architecture,
             config.num_layers, weights.bytes >> 20, seconds.count());
  return std::unique_ptr<Model>(std::make_unique<TransformerModel>(
      std::move(file), backend, std::move(config), std::move(weights), fingerprint));
}

}  // namespace kvgate::model
