#include "kernels/expert_routing.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace kvgate::kernels {
namespace {

// Computes one row's shares in double: a softmax over all experts or over the selected ones.
void ChooseRow(const ExpertRule& rule, std::span<const float> logits, std::vector<int>& order,
               std::span<ExpertShare> shares) {
  std::iota(order.begin(), order.end(), 0);
  const auto rank = [&](int expert) {
    const float logit = logits[static_cast<size_t>(expert)];
    return std::isnan(logit) ? -std::numeric_limits<float>::infinity() : logit;
  };
  const auto before = [&](int a, int b) {
    const float x = rank(a);
    const float y = rank(b);
    return x > y || (x == y && a < b);
  };
  const auto selected_end = order.begin() + rule.num_used;
  std::partial_sort(order.begin(), selected_end, order.end(), before);
  const double largest = logits[static_cast<size_t>(order[0])];
  std::sort(order.begin(), selected_end);
  const auto weight = [&](int expert) {
    return std::exp(static_cast<double>(logits[static_cast<size_t>(expert)]) - largest);
  };
  double selected_sum = 0;
  for (auto at = order.begin(); at != selected_end; ++at) selected_sum += weight(*at);
  double sum = selected_sum;
  if (rule.is_of_all()) {
    sum = 0;
    for (int expert = 0; expert < rule.num_experts; ++expert) sum += weight(expert);
  }
  for (size_t i = 0; i < shares.size(); ++i) {
    const double share = weight(order[i]) / sum * rule.share_scale;
    shares[i] = {.expert = order[i], .share = static_cast<float>(share)};
  }
}

}  // namespace

void ChooseExperts(const ExpertRule& rule, std::span<const float> logits,
                   std::vector<ExpertShare>& shares) {
  const auto num_experts = static_cast<size_t>(rule.num_experts);
  const auto num_used = static_cast<size_t>(rule.num_used);
  const size_t num_rows = logits.size() / num_experts;
  shares.resize(num_rows * num_used);
  std::vector<int> order(num_experts);
  for (size_t row = 0; row < num_rows; ++row) {
    ChooseRow(rule, logits.subspan(row * num_experts, num_experts), order,
              std::span(shares).subspan(row * num_used, num_used));
  }
}

void ExpertPlan::Build(const ExpertRule& rule, std::span<const ExpertShare> shares) {
  first_.assign(static_cast<size_t>(rule.num_experts) + 1, 0);
  for (const ExpertShare& share : shares) ++first_[static_cast<size_t>(share.expert) + 1];
  std::partial_sum(first_.begin(), first_.end(), first_.begin());
  next_.assign(first_.begin(), first_.end() - 1);
  rows_.resize(shares.size());
  shares_.resize(shares.size());
  for (size_t i = 0; i < shares.size(); ++i) {
    const size_t at = next_[static_cast<size_t>(shares[i].expert)]++;
    rows_[at] = static_cast<int>(i / static_cast<size_t>(rule.num_used));
    shares_[at] = shares[i].share;
  }
}

}  // namespace kvgate::kernels
