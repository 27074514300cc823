// HostExpertScratch: a mixture of experts by a backend's other operations, with routing on the
// host: it waits for the router's logits, then issues the products of each selected expert. It
// implements Backend::MixExperts for backends without their own implementation.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "base/result.h"
#include "kernels/expert_routing.h"
#include "kernels/experts.h"

namespace kvgate::kernels {

ExpertScratchFloats CountHostExpertScratch(const ExpertShape& shape);

class HostExpertScratch final : public ExpertScratch {
 public:
  static Result<std::unique_ptr<ExpertScratch>> Allocate(const ExpertShape& shape, int num_rows_max,
                                                         Backend& backend);
  // As Backend::MixExperts. `backend` must be the one given to Allocate.
  void Mix(const ExpertMixTask& task, Backend& backend);

 private:
  HostExpertScratch(const ExpertShape& shape, int num_rows_max);
  void Route(const ExpertMixTask& task, Backend& backend);
  void MixByExpert(const ExpertMixTask& task, Backend& backend);
  void MixByRow(const ExpertMixTask& task, Backend& backend);
  void MixShared(const ExpertMixTask& task, Backend& backend);
  std::span<const float> Scaled(std::span<const float> shares, float factor);

  std::unique_ptr<FloatBuffer> buffer_;
  // Parts of the buffer. gate_, up_ and down_ also fit rows x num_used rows if `rows` is at most
  // kFewRows.
  float* logits_ = nullptr;       // [rows, num_experts]
  float* shared_gate_ = nullptr;  // [rows]
  float* gathered_ = nullptr;     // [rows, hidden_dim]
  float* gate_ = nullptr;         // [rows, ffn_dim or shared_dim]
  float* up_ = nullptr;           // likewise
  float* down_ = nullptr;         // [rows, hidden_dim]
  // Temporaries of one call, kept to avoid allocation.
  std::vector<float> host_logits_;
  std::vector<float> host_shared_gate_;
  std::vector<ExpertShare> shares_;
  ExpertPlan plan_;
  std::vector<MatMulTask> tasks_;
  std::vector<int> rows_;
  std::vector<float> factors_;
};

}  // namespace kvgate::kernels
