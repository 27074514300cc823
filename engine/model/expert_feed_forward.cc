#include "engine/model/expert_feed_forward.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include <kvgate/check.h>

namespace kvgate::model {
namespace {

using kernels::FloatBuffer;
using kernels::MatMulTask;

// Up to so many rows, each row's products are issued together: rows that few seldom share experts,
// and one call with all matrices of a row costs less than one call for each.
constexpr int kFewRows = 4;

const float* BiasOf(const std::unique_ptr<FloatBuffer>& biases, int expert, int64_t size) {
  return biases == nullptr ? nullptr : biases->data() + int64_t{expert} * size;
}

// Floats of each row of scratch.
struct RowFloats {
  int64_t gate = 0;  // and up
  int64_t hidden = 0;
};

RowFloats RowOf(const ModelConfig& config) {
  return {.gate = std::max(config.experts.ffn_dim, config.experts.shared_dim),
          .hidden = config.hidden_dim};
}

// Rows of gate_, up_ and down_ beyond those of the step.
int ExtraRows(const ModelConfig& config) { return kFewRows * config.experts.num_used; }

}  // namespace

ExpertFeedForward::ExpertFeedForward(kernels::Backend& backend, const ModelConfig& config)
    : backend_(backend), config_(config) {
  KVGATE_CHECK(config.experts.num_experts > 0 && !config.post_norms, "a mixture without norms");
}

ActivationFloats ExpertFeedForward::CountScratch(const ModelConfig& config) {
  const RowFloats row = RowOf(config);
  const int64_t row_floats = 2 * row.gate + row.hidden;
  return {
      .per_token = static_cast<uint64_t>(row_floats + row.hidden + config.experts.num_experts + 1),
      .per_logit_row = 0,
      .fixed = static_cast<uint64_t>(ExtraRows(config) * row_floats)};
}

Result<uint64_t> ExpertFeedForward::Reserve(int step_tokens_max) {
  uint64_t num_floats = 0;
  const auto allocate = [&](std::unique_ptr<FloatBuffer>& buffer, int rows,
                            int64_t columns) -> Result<void> {
    buffer.reset();
    const size_t size = static_cast<size_t>(rows) * static_cast<size_t>(columns);
    KVGATE_TRY(buffer, backend_.AllocateFloats(size));
    num_floats += size;
    return {};
  };
  const RowFloats row = RowOf(config_);
  const int rows = step_tokens_max + ExtraRows(config_);
  KVGATE_TRY_VOID(allocate(logits_, step_tokens_max, config_.experts.num_experts));
  KVGATE_TRY_VOID(allocate(shared_gate_, step_tokens_max, 1));
  KVGATE_TRY_VOID(allocate(gathered_, step_tokens_max, row.hidden));
  KVGATE_TRY_VOID(allocate(gate_, rows, row.gate));
  KVGATE_TRY_VOID(allocate(up_, rows, row.gate));
  KVGATE_TRY_VOID(allocate(down_, rows, row.hidden));
  return num_floats;
}

void ExpertFeedForward::Run(const ExpertWeights& weights, const float* normed, int num_rows,
                            float* x) {
  Route(weights, normed, num_rows);
  if (num_rows <= kFewRows) {
    RunByRow(weights, normed, num_rows, x);
  } else {
    RunByExpert(weights, normed, x);
  }
  if (weights.shared.gate != nullptr) RunShared(weights, normed, num_rows, x);
}

void ExpertFeedForward::Route(const ExpertWeights& weights, const float* normed, int num_rows) {
  tasks_ = {{.weight = weights.router.get(),
             .bias = BiasOf(weights.router_bias, 0, 0),
             .y = logits_->data()}};
  if (weights.shared_router != nullptr) {
    tasks_.push_back(
        {.weight = weights.shared_router.get(), .bias = nullptr, .y = shared_gate_->data()});
  }
  backend_.MatMul(normed, num_rows, tasks_);
  backend_.Synchronize();
  const auto num_logits =
      static_cast<size_t>(num_rows) * static_cast<size_t>(config_.experts.num_experts);
  host_logits_.resize(num_logits);
  backend_.CopyOut(logits_->data(), host_logits_);
  host_shared_gate_.resize(weights.shared_router == nullptr ? 0 : static_cast<size_t>(num_rows));
  backend_.CopyOut(shared_gate_->data(), host_shared_gate_);
  ChooseExperts(config_.experts, host_logits_, shares_);
}

// Shares as they reach the residual stream. In place of an extra pass over it.
std::span<const float> ExpertFeedForward::Scaled(std::span<const float> shares) {
  factors_.clear();
  for (const float share : shares) factors_.push_back(share * config_.residual_scale);
  return factors_;
}

void ExpertFeedForward::MultiplyDown(const ExpertWeights& weights, int expert, const float* input,
                                     int num_rows, float* y) {
  const MatMulTask task = {.weight = weights.experts[static_cast<size_t>(expert)].down.get(),
                           .bias = BiasOf(weights.down_bias, expert, config_.hidden_dim),
                           .y = y};
  backend_.MatMul(input, num_rows, {&task, 1});
}

// Each expert once, with all rows that chose it.
void ExpertFeedForward::RunByExpert(const ExpertWeights& weights, const float* normed, float* x) {
  const int64_t ffn_dim = config_.experts.ffn_dim;
  plan_.Build(config_.experts, shares_);
  for (int expert = 0; expert < config_.experts.num_experts; ++expert) {
    const std::span<const int> rows = plan_.rows(expert);
    if (rows.empty()) continue;
    const int num_rows = static_cast<int>(rows.size());
    const ExpertMatrices& matrices = weights.experts[static_cast<size_t>(expert)];
    backend_.GatherRows(normed, rows, config_.hidden_dim, gathered_->data());
    const MatMulTask tasks[] = {{.weight = matrices.gate.get(),
                                 .bias = BiasOf(weights.gate_bias, expert, ffn_dim),
                                 .y = gate_->data()},
                                {.weight = matrices.up.get(),
                                 .bias = BiasOf(weights.up_bias, expert, ffn_dim),
                                 .y = up_->data()}};
    backend_.MatMul(gathered_->data(), num_rows, tasks);
    const size_t count = rows.size() * static_cast<size_t>(ffn_dim);
    backend_.Glu(config_.glu, gate_->data(), up_->data(), count, gate_->data());
    MultiplyDown(weights, expert, gate_->data(), num_rows, down_->data());
    backend_.ScatterAddRows(down_->data(), rows, Scaled(plan_.shares(expert)), config_.hidden_dim,
                            x);
  }
}

// All of a row's experts in one call, but for the last product, whose inputs differ.
void ExpertFeedForward::RunByRow(const ExpertWeights& weights, const float* normed, int num_rows,
                                 float* x) {
  const int64_t ffn_dim = config_.experts.ffn_dim;
  const int num_used = config_.experts.num_used;
  rows_.clear();
  factors_.clear();
  for (int row = 0; row < num_rows; ++row) {
    tasks_.clear();
    for (int i = 0; i < num_used; ++i) {
      const int at = row * num_used + i;
      const ExpertShare& share = shares_[static_cast<size_t>(at)];
      const ExpertMatrices& matrices = weights.experts[static_cast<size_t>(share.expert)];
      tasks_.push_back({.weight = matrices.gate.get(),
                        .bias = BiasOf(weights.gate_bias, share.expert, ffn_dim),
                        .y = gate_->data() + at * ffn_dim});
      tasks_.push_back({.weight = matrices.up.get(),
                        .bias = BiasOf(weights.up_bias, share.expert, ffn_dim),
                        .y = up_->data() + at * ffn_dim});
      rows_.push_back(row);
      factors_.push_back(share.share * config_.residual_scale);
    }
    backend_.MatMul(normed + int64_t{row} * config_.hidden_dim, 1, tasks_);
  }
  backend_.Glu(config_.glu, gate_->data(), up_->data(),
               shares_.size() * static_cast<size_t>(ffn_dim), gate_->data());
  for (int64_t at = 0; at < std::ssize(shares_); ++at) {
    MultiplyDown(weights, shares_[static_cast<size_t>(at)].expert, gate_->data() + at * ffn_dim, 1,
                 down_->data() + at * config_.hidden_dim);
  }
  backend_.ScatterAddRows(down_->data(), rows_, factors_, config_.hidden_dim, x);
}

void ExpertFeedForward::RunShared(const ExpertWeights& weights, const float* normed, int num_rows,
                                  float* x) {
  const MatMulTask tasks[] = {{.weight = weights.shared.gate.get(), .y = gate_->data()},
                              {.weight = weights.shared.up.get(), .y = up_->data()}};
  backend_.MatMul(normed, num_rows, tasks);
  const size_t count =
      static_cast<size_t>(num_rows) * static_cast<size_t>(config_.experts.shared_dim);
  backend_.Glu(config_.glu, gate_->data(), up_->data(), count, gate_->data());
  const MatMulTask down = {
      .weight = weights.shared.down.get(), .bias = nullptr, .y = down_->data()};
  backend_.MatMul(gate_->data(), num_rows, {&down, 1});
  rows_.resize(static_cast<size_t>(num_rows));
  std::iota(rows_.begin(), rows_.end(), 0);
  factors_.assign(static_cast<size_t>(num_rows), config_.residual_scale);
  for (size_t i = 0; i < host_shared_gate_.size(); ++i) {
    const double sigmoid = 1 / (1 + std::exp(-static_cast<double>(host_shared_gate_[i])));
    factors_[i] *= static_cast<float>(sigmoid);
  }
  backend_.ScatterAddRows(down_->data(), rows_, factors_, config_.hidden_dim, x);
}

}  // namespace kvgate::model
