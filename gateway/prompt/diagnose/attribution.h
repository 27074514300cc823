// Attribution splits a request's tokens by source into cached, written and uncached ones. The
// counts are estimated per segment and scaled so that they sum exactly to what the provider
// reported. All functions are pure and may be called from any thread.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "gateway/ledger/usage.h"
#include "gateway/prompt/history/conversation.h"

namespace kvgate::prompt::diagnose {

struct SourceTokens {
  int64_t cached = 0;
  int64_t written = 0;
  int64_t uncached = 0;
  friend bool operator==(const SourceTokens&, const SourceTokens&) = default;
};
using Attribution = std::array<SourceTokens, parse::kNumSources>;  // indexed by Source

// In render order, the front of the prompt counts as cached, then come the written tokens, then the
// uncached ones. Summed over sources, the counts equal `usage`: cache_read, both cache_writes
// together, and uncached tokens. Without segments, all tokens are the user's. If
// `tools_after_system` is set, the provider renders the tools behind the system prompt.
Attribution Attribute(const history::SentSegments& segments, const ledger::TokenUsage& usage,
                      bool tools_after_system = false);

// A part of a prompt whose tokens come from one source.
struct SourceRun {
  parse::Source source = parse::Source::kUser;
  int64_t num_tokens = 0;
};
// Returns runs in render order; neighbours with the same source are merged into one run. The counts
// sum to `num_tokens`.
std::vector<SourceRun> RunsOf(const history::SentSegments& segments, int64_t num_tokens,
                              bool tools_after_system = false);

}  // namespace kvgate::prompt::diagnose
