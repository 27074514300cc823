#include "gateway/metrics/token_metrics.h"

#include <algorithm>

namespace kvgate::metrics {
namespace {

constexpr std::array<std::string_view, kNumTokenStates> kStates = {"cached", "written", "uncached"};
constexpr std::array<std::string_view, kNumTokenTiers> kTiers = {"gpu",    "ram",      "disk",
                                                                 "shared", "upstream", "compute"};

}  // namespace

TokenMetrics::TokenMetrics(Registry& registry)
    : generated(registry.AddCounter("kvgate_generation_tokens_total",
                                    "Tokens of answers, reasoning included.")),
      upstream_evictions(registry.AddCounterFamily(
          "kvgate_upstream_eviction_total",
          "Requests whose prefix an upstream had before its lifetime was over, and did not read.",
          {"upstream"}, 64)) {
  // All series are there from the start: queries find them before there is traffic.
  CounterFamily& prompt = registry.AddCounterFamily(
      "kvgate_prompt_tokens_total",
      "Tokens of prompts by what they are, and by what the cache did for them.",
      {"source", "state"});
  for (size_t i = 0; i < kSources.size(); ++i) {
    for (size_t j = 0; j < kNumTokenStates; ++j)
      prompt_[i][j] = &prompt.With({kSources[i], kStates[j]});
  }
  CounterFamily& tiers = registry.AddCounterFamily(
      "kvgate_prompt_tokens_by_tier_total",
      "Tokens of prompts by where their KV came from; the sum is that of all prompt tokens.",
      {"tier"});
  for (size_t i = 0; i < kNumTokenTiers; ++i) tiers_[i] = &tiers.With({kTiers[i]});
}

size_t TokenMetrics::IndexOf(std::string_view source) {
  const auto found = std::find(kSources.begin(), kSources.end(), source);
  return found == kSources.end() ? kSources.size() - 1
                                 : static_cast<size_t>(found - kSources.begin());
}

void TokenMetrics::AddPrompt(std::string_view source, TokenState state, int64_t num_tokens) {
  if (num_tokens <= 0) return;
  prompt_[IndexOf(source)][static_cast<size_t>(state)]->Add(static_cast<uint64_t>(num_tokens));
}

void TokenMetrics::AddTier(TokenTier tier, int64_t num_tokens) {
  if (num_tokens > 0) tiers_[static_cast<size_t>(tier)]->Add(static_cast<uint64_t>(num_tokens));
}

}  // namespace kvgate::metrics
