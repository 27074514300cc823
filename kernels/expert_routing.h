// Expert routing on the host: computes from a router's logits which rows go to which experts. It
// knows numbers, not weights. Rows are independent, so a row's experts and shares do not depend on
// the other rows of the call.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace kvgate::kernels {

// How shares are computed from a router's logits.
enum class ExpertGating : uint8_t {
  kSoftmax,            // softmax over all logits; the selected ones keep their value
  kSoftmaxOfSelected,  // softmax over the selected logits only
};

// The rule for which experts a row selects and with which shares.
struct ExpertRule {
  int num_experts = 0;
  int num_used = 0;  // experts per row: those with the highest logits
  ExpertGating gating = ExpertGating::kSoftmax;
  bool renormalise = false;  // divide shares by their sum
  float share_scale = 1;     // then multiply them by this

  // Returns true if a share is a fraction of the weight of all experts, not only of the selected
  // ones.
  bool is_of_all() const { return gating == ExpertGating::kSoftmax && !renormalise; }
};

struct ExpertShare {
  int expert = 0;
  float share = 0;  // factor of the expert's output
};

// Selects the experts of each row, [rows, num_used], ascending by expert within a row, so that the
// sum over them has a fixed order. If logits are equal, the lower expert is selected; NaN counts as
// -infinity. `logits` is [rows, num_experts].
void ChooseExperts(const ExpertRule& rule, std::span<const float> logits,
                   std::vector<ExpertShare>& shares);

// The same assignment grouped by expert.
class ExpertPlan {
 public:
  // `shares` is the output of ChooseExperts.
  void Build(const ExpertRule& rule, std::span<const ExpertShare> shares);

  // rows: the rows that use the expert, ascending. shares: the expert's share in each of them.
  std::span<const int> rows(int expert) const { return Of(rows_, expert); }
  std::span<const float> shares(int expert) const { return Of(shares_, expert); }

 private:
  template <typename T>
  std::span<const T> Of(const std::vector<T>& values, int expert) const {
    const auto i = static_cast<size_t>(expert);
    return std::span(values).subspan(first_[i], first_[i + 1] - first_[i]);
  }

  std::vector<size_t> first_;  // [num_experts + 1]
  std::vector<int> rows_;
  std::vector<float> shares_;
  std::vector<size_t> next_;  // temporary of Build, kept to avoid allocation
};

}  // namespace kvgate::kernels
