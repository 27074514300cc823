// ExpertFeedForward: the feed-forward part of a layer that is a mixture of experts. Each row goes
// through the few experts that its router chose, and through the shared one where there is one.
// A row's sum has one order (its experts ascending, then the shared one), whatever else is in the
// step, so its bits depend on itself only.
#pragma once

#include <memory>
#include <vector>

#include "engine/model/expert_routing.h"
#include "engine/model/model.h"
#include "engine/model/model_weights.h"

namespace kvgate::model {

class ExpertFeedForward {
 public:
  // Both must outlive this. REQUIRES: config.experts.num_experts > 0, no post_norms.
  ExpertFeedForward(kernels::Backend& backend, const ModelConfig& config);

  // Scratch for steps of so many rows; call once before Run. What it allocates, in floats.
  Result<uint64_t> Reserve(int step_tokens_max);
  // x += residual_scale * experts(normed), both [num_rows, hidden_dim].
  void Run(const ExpertWeights& weights, const float* normed, int num_rows, float* x);

  static ActivationFloats CountScratch(const ModelConfig& config);

 private:
  void Route(const ExpertWeights& weights, const float* normed, int num_rows);
  void RunByExpert(const ExpertWeights& weights, const float* normed, float* x);
  void RunByRow(const ExpertWeights& weights, const float* normed, int num_rows, float* x);
  void RunShared(const ExpertWeights& weights, const float* normed, int num_rows, float* x);
  void MultiplyDown(const ExpertWeights& weights, int expert, const float* input, int num_rows,
                    float* y);
  std::span<const float> Scaled(std::span<const float> shares);

  kernels::Backend& backend_;
  const ModelConfig& config_;
  std::unique_ptr<kernels::FloatBuffer> logits_;    // [rows, num_experts]
  std::unique_ptr<kernels::FloatBuffer> gathered_;  // [rows, hidden_dim]
  // [rows or rows x num_used of few, ffn_dim or shared_dim]
  std::unique_ptr<kernels::FloatBuffer> gate_;
  std::unique_ptr<kernels::FloatBuffer> up_;
  std::unique_ptr<kernels::FloatBuffer> down_;         // likewise, hidden_dim
  std::unique_ptr<kernels::FloatBuffer> shared_gate_;  // [rows]
  // Of one call, kept for their memory.
  std::vector<float> host_logits_;
  std::vector<float> host_shared_gate_;
  std::vector<ExpertShare> shares_;
  ExpertPlan plan_;
  std::vector<kernels::MatMulTask> tasks_;
  std::vector<int> rows_;
  std::vector<float> factors_;
};

}  // namespace kvgate::model
