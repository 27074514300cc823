// Attribution: a request's tokens by source, each as cached, written and uncached. Estimates by
// section, scaled so that they sum exactly to what the provider reported. Pure; any thread.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "gateway/ledger/usage.h"
#include "gateway/prompt/history/conversation.h"

namespace kvgate::prompt {

struct SourceTokens {
  int64_t cached = 0;
  int64_t written = 0;
  int64_t uncached = 0;
  friend bool operator==(const SourceTokens&, const SourceTokens&) = default;
};
using Attribution = std::array<SourceTokens, kNumSources>;  // by Source

// Cached tokens are the front of the prompt in render order, then come written ones, then the rest.
// Sums over sources equal cache_read, both cache_writes together, and uncached tokens of `usage`.
// Of no segments all is the user's. `tools_after_system`: in the order of rendering.
Attribution Attribute(const SentSegments& segments, const ledger::TokenUsage& usage,
                      bool tools_after_system = false);

// A part of a prompt whose tokens come from one source.
struct SourceRun {
  Source source = Source::kUser;
  int64_t num_tokens = 0;
};
// In the order of rendering; neighbours of one source are one run. They sum to `num_tokens`.
std::vector<SourceRun> RunsOf(const SentSegments& segments, int64_t num_tokens,
                              bool tools_after_system = false);

}  // namespace kvgate::prompt
