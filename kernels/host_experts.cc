#include "kernels/host_experts.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace kvgate::kernels {
namespace {

// Up to this many rows, the products are issued per row: so few rows seldom share experts, and one
// call with all matrices of a row costs less than a call per expert.
constexpr int kFewRows = 4;

const float* BiasOf(const float* biases, int expert, int64_t size) {
  return biases == nullptr ? nullptr : biases + expert * size;
}

// Returns the floats per row of gate_ and up_.
int64_t GateFloats(const ExpertShape& shape) { return std::max(shape.ffn_dim, shape.shared_dim); }

// Returns the rows that gate_, up_ and down_ have for MixByRow in addition to those of the call.
int ExtraRows(const ExpertShape& shape) { return kFewRows * shape.num_used; }

MatMulTask DownTask(const ExpertSetView& view, int expert, int64_t hidden_dim, float* y) {
  return {.weight = view.experts[static_cast<size_t>(expert)].down,
          .bias = BiasOf(view.down_bias, expert, hidden_dim),
          .y = y};
}

}  // namespace

ExpertScratchFloats CountHostExpertScratch(const ExpertShape& shape) {
  const int64_t row = 2 * GateFloats(shape) + shape.hidden_dim;
  return {.per_row = static_cast<uint64_t>(row + shape.hidden_dim + shape.num_experts + 1),
          .fixed = static_cast<uint64_t>(ExtraRows(shape) * row)};
}

HostExpertScratch::HostExpertScratch(const ExpertShape& shape, int num_rows_max)
    : ExpertScratch(shape, num_rows_max,
                    CountHostExpertScratch(shape).per_row * static_cast<uint64_t>(num_rows_max) +
                        CountHostExpertScratch(shape).fixed) {}

Result<std::unique_ptr<ExpertScratch>> HostExpertScratch::Allocate(const ExpertShape& shape,
                                                                   int num_rows_max,
                                                                   Backend& backend) {
  std::unique_ptr<HostExpertScratch> made(new HostExpertScratch(shape, num_rows_max));
  KVGATE_TRY(made->buffer_, backend.AllocateFloats(made->num_floats()));
  const int64_t rows = num_rows_max;
  const int64_t all_rows = rows + ExtraRows(shape);
  // The widest parts come first, so that parts start at a cache line if rows are whole cache lines.
  made->gate_ = made->buffer_->data();
  made->up_ = made->gate_ + all_rows * GateFloats(shape);
  made->down_ = made->up_ + all_rows * GateFloats(shape);
  made->gathered_ = made->down_ + all_rows * shape.hidden_dim;
  made->logits_ = made->gathered_ + rows * shape.hidden_dim;
  made->shared_gate_ = made->logits_ + rows * shape.num_experts;
  return std::unique_ptr<ExpertScratch>(std::move(made));
}

void HostExpertScratch::Mix(const ExpertMixTask& task, Backend& backend) {
  Route(task, backend);
  if (task.num_rows <= kFewRows) {
    MixByRow(task, backend);
  } else {
    MixByExpert(task, backend);
  }
  if (task.experts->view().shared.gate != nullptr) MixShared(task, backend);
}

void HostExpertScratch::Route(const ExpertMixTask& task, Backend& backend) {
  const ExpertSetView& view = task.experts->view();
  const auto num_rows = static_cast<size_t>(task.num_rows);
  tasks_ = {{.weight = view.router, .bias = view.router_bias, .y = logits_}};
  if (view.shared_router != nullptr) {
    tasks_.push_back({.weight = view.shared_router, .bias = nullptr, .y = shared_gate_});
  }
  backend.MatMul(task.x, task.num_rows, tasks_);
  backend.Synchronize();
  host_logits_.resize(num_rows * static_cast<size_t>(view.rule.num_experts));
  backend.CopyOut(logits_, host_logits_);
  host_shared_gate_.resize(view.shared_router == nullptr ? 0 : num_rows);
  backend.CopyOut(shared_gate_, host_shared_gate_);
  ChooseExperts(view.rule, host_logits_, shares_);
}

// Multiplies the shares by the factor, which saves an extra pass over y.
std::span<const float> HostExpertScratch::Scaled(std::span<const float> shares, float factor) {
  factors_.clear();
  for (const float share : shares) factors_.push_back(share * factor);
  return factors_;
}

// Processes each expert once, with all rows that selected it.
void HostExpertScratch::MixByExpert(const ExpertMixTask& task, Backend& backend) {
  const ExpertSetView& view = task.experts->view();
  const auto& [num_experts, num_used, hidden_dim, ffn_dim, shared_dim] = shape();
  plan_.Build(view.rule, shares_);
  for (int expert = 0; expert < num_experts; ++expert) {
    const std::span<const int> rows = plan_.rows(expert);
    if (rows.empty()) continue;
    const int num_rows = static_cast<int>(rows.size());
    const ExpertMatrices& matrices = view.experts[static_cast<size_t>(expert)];
    backend.GatherRows(task.x, rows, hidden_dim, gathered_);
    const MatMulTask tasks[] = {
        {.weight = matrices.gate, .bias = BiasOf(view.gate_bias, expert, ffn_dim), .y = gate_},
        {.weight = matrices.up, .bias = BiasOf(view.up_bias, expert, ffn_dim), .y = up_}};
    backend.MatMul(gathered_, num_rows, tasks);
    backend.Glu(view.glu, gate_, up_, rows.size() * static_cast<size_t>(ffn_dim), gate_);
    const MatMulTask down = DownTask(view, expert, hidden_dim, down_);
    backend.MatMul(gate_, num_rows, {&down, 1});
    backend.ScatterAddRows(down_, rows, Scaled(plan_.shares(expert), task.factor), hidden_dim,
                           task.y);
  }
}

// Processes all experts of a row in one call, except for the last product, whose inputs differ.
void HostExpertScratch::MixByRow(const ExpertMixTask& task, Backend& backend) {
  const ExpertSetView& view = task.experts->view();
  const auto& [num_experts, num_used, hidden_dim, ffn_dim, shared_dim] = shape();
  rows_.clear();
  factors_.clear();
  for (int row = 0; row < task.num_rows; ++row) {
    tasks_.clear();
    for (int i = 0; i < num_used; ++i) {
      const int at = row * num_used + i;
      const ExpertShare& share = shares_[static_cast<size_t>(at)];
      const ExpertMatrices& matrices = view.experts[static_cast<size_t>(share.expert)];
      tasks_.push_back({.weight = matrices.gate,
                        .bias = BiasOf(view.gate_bias, share.expert, ffn_dim),
                        .y = gate_ + at * ffn_dim});
      tasks_.push_back({.weight = matrices.up,
                        .bias = BiasOf(view.up_bias, share.expert, ffn_dim),
                        .y = up_ + at * ffn_dim});
      rows_.push_back(row);
      factors_.push_back(share.share * task.factor);
    }
    backend.MatMul(task.x + row * hidden_dim, 1, tasks_);
  }
  backend.Glu(view.glu, gate_, up_, shares_.size() * static_cast<size_t>(ffn_dim), gate_);
  for (int64_t at = 0; at < std::ssize(shares_); ++at) {
    const MatMulTask down = DownTask(view, shares_[static_cast<size_t>(at)].expert, hidden_dim,
                                     down_ + at * hidden_dim);
    backend.MatMul(gate_ + at * ffn_dim, 1, {&down, 1});
  }
  backend.ScatterAddRows(down_, rows_, factors_, hidden_dim, task.y);
}

void HostExpertScratch::MixShared(const ExpertMixTask& task, Backend& backend) {
  const ExpertMatrices& shared = task.experts->view().shared;
  const MatMulTask tasks[] = {{.weight = shared.gate, .y = gate_}, {.weight = shared.up, .y = up_}};
  backend.MatMul(task.x, task.num_rows, tasks);
  const auto num_rows = static_cast<size_t>(task.num_rows);
  const size_t count = num_rows * static_cast<size_t>(shape().shared_dim);
  backend.Glu(task.experts->view().glu, gate_, up_, count, gate_);
  const MatMulTask down = {.weight = shared.down, .bias = nullptr, .y = down_};
  backend.MatMul(gate_, task.num_rows, {&down, 1});
  rows_.resize(num_rows);
  std::iota(rows_.begin(), rows_.end(), 0);
  factors_.assign(num_rows, task.factor);
  for (size_t i = 0; i < host_shared_gate_.size(); ++i) {
    const double sigmoid = 1 / (1 + std::exp(-static_cast<double>(host_shared_gate_[i])));
    factors_[i] *= static_cast<float>(sigmoid);
  }
  backend.ScatterAddRows(down_, rows_, factors_, shape().hidden_dim, task.y);
}

}  // namespace kvgate::kernels
