// Mixtures of experts, as computed by Backend::MixExperts. Each row is processed by the few experts
// that its router selects, and by the shared expert if there is one:
//
//   logits = router * x (+ router_bias)                       [num_experts]
//   {e_i, share_i} = the num_used experts with the highest logits, by `rule`, e_i ascending
//   out = sum_i share_i * expert(e_i, x), i rising
//   out += sigmoid(shared_router * x) * shared(x)             if there is a shared expert; without
//                                                             shared_router the factor is 1
//   expert(e, x) = down_e * glu(gate_e * x (+ gate_bias_e), up_e * x (+ up_bias_e)) (+ down_bias_e)
//
// If logits are equal, the lower expert is selected; -0 equals 0. NaN counts as -infinity for the
// selection, but shares computed from it are NaN. Shares are computed in f64. A row's sum has a
// fixed order, so on an invariant backend its bits depend on that row only.
// Source: Shazeer et al. 2017; Fedus et al. 2021; Dai et al. 2024 for the shared expert.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "kernels/backend.h"
#include "kernels/expert_routing.h"

namespace kvgate::kernels {

struct ExpertMatrices {
  const Weight* gate = nullptr;  // [ffn_dim, hidden_dim]
  const Weight* up = nullptr;    // [ffn_dim, hidden_dim]
  const Weight* down = nullptr;  // [hidden_dim, ffn_dim]
};

// The mixture of one layer. The caller owns everything it refers to, and must keep it valid as long
// as ExpertSets made from it. Optional members are null.
struct ExpertSetView {
  ExpertRule rule = {};
  GluKind glu = GluKind::kSilu;
  const Weight* router = nullptr;           // [num_experts, hidden_dim]
  const float* router_bias = nullptr;       // [num_experts]
  std::span<const ExpertMatrices> experts;  // [num_experts]; copied by ExpertSet
  const float* gate_bias = nullptr;         // [num_experts, ffn_dim]
  const float* up_bias = nullptr;           // [num_experts, ffn_dim]
  const float* down_bias = nullptr;         // [num_experts, hidden_dim]
  ExpertMatrices shared = {};               // with ffn dimension shared_dim instead of ffn_dim
  const Weight* shared_router = nullptr;    // [1, hidden_dim]
};

// A mixture prepared by one backend. Immutable.
class ExpertSet {
 public:
  explicit ExpertSet(const ExpertSetView& view)
      : experts_(view.experts.begin(), view.experts.end()), view_(view) {
    view_.experts = experts_;
  }
  virtual ~ExpertSet() = default;
  ExpertSet(const ExpertSet&) = delete;
  ExpertSet& operator=(const ExpertSet&) = delete;

  const ExpertSetView& view() const { return view_; }
  int64_t hidden_dim() const { return view_.router->columns(); }
  int64_t ffn_dim() const { return experts_[0].gate->rows(); }

 private:
  std::vector<ExpertMatrices> experts_;
  ExpertSetView view_;
};

// The common shape of all mixtures that share scratch.
struct ExpertShape {
  int num_experts = 0;
  int num_used = 0;
  int64_t hidden_dim = 0;
  int64_t ffn_dim = 0;
  int64_t shared_dim = 0;  // 0 means no shared expert
};

// Scratch memory, used by one MixExperts at a time.
class ExpertScratch {
 public:
  virtual ~ExpertScratch() = default;
  const ExpertShape& shape() const { return shape_; }
  int num_rows_max() const { return num_rows_max_; }
  uint64_t num_floats() const { return num_floats_; }

 protected:
  ExpertScratch(const ExpertShape& shape, int num_rows_max, uint64_t num_floats)
      : shape_(shape), num_rows_max_(num_rows_max), num_floats_(num_floats) {}

 private:
  ExpertShape shape_;
  int num_rows_max_;
  uint64_t num_floats_;
};

// Number of floats that AllocateExpertScratch needs: per_row for each row, plus `fixed`. `routes`
// is the backend's BackendInfo::routes_experts; memory can be planned without the backend itself.
struct ExpertScratchFloats {
  uint64_t per_row = 0;
  uint64_t fixed = 0;
};
ExpertScratchFloats CountExpertScratch(const ExpertShape& shape, bool routes);

// y += factor * mixture(x)
struct ExpertMixTask {
  const ExpertSet* experts = nullptr;
  ExpertScratch* scratch = nullptr;  // of the experts' shape
  const float* x = nullptr;          // [num_rows, hidden_dim]
  int num_rows = 0;                  // <= scratch->num_rows_max()
  float factor = 1;
  float* y = nullptr;  // [num_rows, hidden_dim]; must not overlap x
};

}  // namespace kvgate::kernels
