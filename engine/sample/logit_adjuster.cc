#include "engine/sample/logit_adjuster.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace kvgate::sample {
namespace {

constexpr float kLowest = -std::numeric_limits<float>::infinity();
constexpr float kBan = -100.0f;

}  // namespace

LogitAdjuster::LogitAdjuster(LogitAdjustments adjustments)
    : adjustments_(std::move(adjustments)),
      repetition_(adjustments_.repetition_penalty != 1.0f && adjustments_.repetition_window != 0),
      output_(adjustments_.presence_penalty != 0 || adjustments_.frequency_penalty != 0) {}

LogitAdjuster::Use& LogitAdjuster::UseOf(TokenId token) {
  const auto [found, is_new] = use_indices_.try_emplace(token, uses_.size());
  if (is_new) uses_.push_back({.token = token});
  return uses_[found->second];
}

void LogitAdjuster::AddToWindow(TokenId token) {
  ++UseOf(token).num_in_window;
  if (adjustments_.repetition_window < 0) return;
  window_.push_back(token);
  if (window_.size() <= static_cast<size_t>(adjustments_.repetition_window)) return;
  --UseOf(window_.front()).num_in_window;
  window_.pop_front();
}

void LogitAdjuster::AcceptPrompt(std::span<const TokenId> tokens) {
  if (!repetition_) return;
  if (adjustments_.repetition_window > 0) {
    tokens =
        tokens.last(std::min(tokens.size(), static_cast<size_t>(adjustments_.repetition_window)));
  }
  for (const TokenId token : tokens) AddToWindow(token);
}

void LogitAdjuster::Accept(TokenId token) {
  if (repetition_) AddToWindow(token);
  if (output_) ++UseOf(token).num_in_output;
}

void LogitAdjuster::Apply(std::span<float> logits) const {
  for (const TokenBias& bias : adjustments_.biases) {
    if (static_cast<size_t>(bias.token) >= logits.size()) continue;
    float& logit = logits[static_cast<size_t>(bias.token)];
    logit = bias.bias > kBan ? logit + bias.bias : kLowest;
  }
  for (const Use& use : uses_) {
    if (static_cast<size_t>(use.token) >= logits.size()) continue;
    float& logit = logits[static_cast<size_t>(use.token)];
    if (use.num_in_window > 0) {
      const float penalty = adjustments_.repetition_penalty;
      logit = logit > 0 ? logit / penalty : logit * penalty;
    }
    if (use.num_in_output > 0) {
      logit -= adjustments_.presence_penalty +
               adjustments_.frequency_penalty * static_cast<float>(use.num_in_output);
    }
  }
}

}  // namespace kvgate::sample
