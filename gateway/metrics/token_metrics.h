// TokenMetrics names the counters of tokens: those of prompts by what they are, by what the cache
// did for them and by the tier that they came from; and those that were generated.
//
// The sums over `source` and `state` and over `tier` are the same number: whoever counts a prompt
// counts all of its tokens in both.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "gateway/metrics/registry.h"

namespace kvgate::metrics {

enum class TokenState : uint8_t { kCached, kWritten, kUncached };
inline constexpr size_t kNumTokenStates = static_cast<size_t>(TokenState::kUncached) + 1;

enum class TokenTier : uint8_t {
  kGpu,       // the engine's block pool, whatever memory it lies in
  kRam,       // the host arena
  kDisk,      // the store
  kShared,    // a store that several gateways share
  kUpstream,  // read from a provider's cache
  kCompute,   // computed, by the engine or by a provider
};
inline constexpr size_t kNumTokenTiers = static_cast<size_t>(TokenTier::kCompute) + 1;

class TokenMetrics {
 public:
  static constexpr std::array<std::string_view, 9> kSources = {
      "tools",     "system",       "examples", "history", "summary",
      "retrieval", "tool_results", "media",    "user"};

  explicit TokenMetrics(Registry& registry);
  // Another name than those above counts as "user": tokens whose source is not known are those that
  // the caller sent.
  void AddPrompt(std::string_view source, TokenState state, int64_t num_tokens);
  void AddTier(TokenTier tier, int64_t num_tokens);

  Counter& generated;
  CounterFamily& upstream_evictions;  // by upstream

 private:
  static size_t IndexOf(std::string_view source);

  std::array<std::array<Counter*, kNumTokenStates>, kSources.size()> prompt_;
  std::array<Counter*, kNumTokenTiers> tiers_;
};

}  // namespace kvgate::metrics
