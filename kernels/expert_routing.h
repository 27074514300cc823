// Expert routing on the host: from a router's logits to which rows go through which experts. It
// knows numbers, not weights. Rows do not influence each other, so a row's experts and shares do
// not depend on what else is in the call.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace kvgate::kernels {

// From a router's logits to the experts' shares.
enum class ExpertGating : uint8_t {
  kSoftmax,            // the softmax of all logits, at the selected
  kSoftmaxOfSelected,  // the softmax of the selected logits
};

// Whom a row's logits select, and what each is multiplied by.
struct ExpertRule {
  int num_experts = 0;
  int num_used = 0;  // by a row: those with the highest logits
  ExpertGating gating = ExpertGating::kSoftmax;
  bool renormalise = false;  // shares are divided by their sum
  float share_scale = 1;     // and multiplied by this

  // Whether a share is a part of all experts' weights, not of the selected ones'.
  bool is_of_all() const { return gating == ExpertGating::kSoftmax && !renormalise; }
};

struct ExpertShare {
  int expert = 0;
  float share = 0;  // what its output is multiplied by
};

// The experts of each row, [rows, num_used], ascending by expert within a row: the sum over them
// has one order. Of equal logits the lower expert is taken, NaN counts as -infinity. `logits` is
// [rows, num_experts].
void ChooseExperts(const ExpertRule& rule, std::span<const float> logits,
                   std::vector<ExpertShare>& shares);

// The same, by expert.
class ExpertPlan {
 public:
  // `shares` as ChooseExperts made them.
  void Build(const ExpertRule& rule, std::span<const ExpertShare> shares);

  // Rows that take the expert, ascending, and the shares that they give it.
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
  std::vector<size_t> next_;  // of Build, kept for its memory
};

}  // namespace kvgate::kernels
