// Expert routing: from a router's logits to which rows go through which experts. It knows numbers,
// not weights. Rows do not influence each other, so a row's experts and shares do not depend on
// what else is in the step.
#pragma once

#include <span>
#include <vector>

#include "engine/model/model_config.h"

namespace kvgate::model {

struct ExpertShare {
  int expert = 0;
  float share = 0;  // what its output is multiplied by
};

// The experts of each row, [rows, num_used], ascending by expert within a row: the sum over them
// has one order. Of equal logits the lower expert is taken. `logits` is [rows, num_experts].
void ChooseExperts(const ExpertConfig& config, std::span<const float> logits,
                   std::vector<ExpertShare>& shares);

// The same, by expert.
class ExpertPlan {
 public:
  // `shares` as ChooseExperts made them.
  void Build(const ExpertConfig& config, std::span<const ExpertShare> shares);

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

}  // namespace kvgate::model
