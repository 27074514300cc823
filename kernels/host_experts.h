// HostExpertScratch: a mixture of experts by a backend's other operations, routed by the host: the
// router's logits are waited for, then come the products of each expert that was chosen. What
// Backend::MixExperts is where a backend has no way of its own.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include <kvgate/result.h>

#include "kernels/expert_routing.h"
#include "kernels/experts.h"

namespace kvgate::kernels {

ExpertScratchFloats CountHostExpertScratch(const ExpertShape& shape);

class HostExpertScratch final : public ExpertScratch {
 public:
  static Result<std::unique_ptr<ExpertScratch>> Allocate(const ExpertShape& shape, int num_rows_max,
                                                         Backend& backend);
  // As Backend::MixExperts; `backend` is the one of Allocate.
  void Mix(const ExpertMixTask& task, Backend& backend);

 private:
  HostExpertScratch(const ExpertShape& shape, int num_rows_max);
  void Route(const ExpertMixTask& task, Backend& backend);
  void MixByExpert(const ExpertMixTask& task, Backend& backend);
  void MixByRow(const ExpertMixTask& task, Backend& backend);
  void MixShared(const ExpertMixTask& task, Backend& backend);
  std::span<const float> Scaled(std::span<const float> shares, float factor);

  std::unique_ptr<FloatBuffer> buffer_;
  // Parts of the buffer.
  float* logits_ = nullptr;       // [rows, num_experts]
  float* shared_gate_ = nullptr;  // [rows]
  float* gathered_ = nullptr;     // [rows, hidden_dim]
  float* gate_ = nullptr;         // [rows or rows x num_used of few, ffn_dim or shared_dim]
  float* up_ = nullptr;           // likewise
  float* down_ = nullptr;         // likewise, hidden_dim
  // Of one call, kept for their memory.
  std::vector<float> host_logits_;
  std::vector<float> host_shared_gate_;
  std::vector<ExpertShare> shares_;
  ExpertPlan plan_;
  std::vector<MatMulTask> tasks_;
  std::vector<int> rows_;
  std::vector<float> factors_;
};

}  // namespace kvgate::kernels
