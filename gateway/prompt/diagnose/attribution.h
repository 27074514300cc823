// Attribution splits a request's tokens, part by part of its prompt, into cached, written and
// uncached ones. It is the one place that does: sums by source, runs of one source, and what is
// shown of each tool are added up from its parts. All functions are pure and may be called from any
// thread.
//
// The counts are estimated per segment and scaled so that they sum exactly to what the provider
// reported. The local engine knows where parts of the prompt begin and end among its tokens; there
// each such part has its own number of tokens, and only what lies within one is divided.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "gateway/ledger/reply/usage.h"
#include "gateway/prompt/history/conversation.h"

namespace kvgate::prompt::diagnose {

struct SourceTokens {
  int64_t cached = 0;
  int64_t written = 0;
  int64_t uncached = 0;
  int64_t tokens() const { return cached + written + uncached; }
  friend bool operator==(const SourceTokens&, const SourceTokens&) = default;
};
using Attribution = std::array<SourceTokens, parse::kNumSources>;  // indexed by Source

// A part of a rendered prompt whose tokens are counted.
struct CountedRun {
  bool is_tools = false;    // the definitions of tools, and nothing else
  bool is_results = false;  // results of tools, and nothing else
  // The index of the last element of the list of messages in it, which begins behind the run
  // before; -1: none, only the system prompt.
  int32_t last_element = -1;
  int64_t num_tokens = 0;
};

struct AttributeArgs {
  const history::SentSegments& segments;
  const ledger::reply::TokenUsage& usage;
  // The provider renders the tools behind the system prompt.
  bool tools_after_system = false;
  // The parts of the prompt in the order of rendering; empty, or with another sum than the usage:
  // they are not known.
  std::span<const CountedRun> runs = {};
};

// The tokens of one segment, by its index.
struct AttributedSegment {
  size_t segment = 0;
  SourceTokens tokens = {};
};

struct Attributed {
  // In the order of rendering. Without segments, it is empty: all tokens are the user's.
  std::vector<AttributedSegment> parts;
  bool is_counted = false;  // `runs` was used
};

// In render order, the front of the prompt counts as cached, then come the written tokens, then the
// uncached ones. Summed over segments, the counts equal `usage`: cache_read, both cache_writes
// together, and uncached tokens.
Attributed AttributeSegments(const AttributeArgs& args);

// The same, summed by source.
Attribution SumBySource(const AttributeArgs& args, const Attributed& attributed);
Attribution Attribute(const history::SentSegments& segments, const ledger::reply::TokenUsage& usage,
                      bool tools_after_system = false);

// A part of a prompt whose tokens come from one source.
struct SourceRun {
  parse::Source source = parse::Source::kUser;
  int64_t num_tokens = 0;
};
// Returns runs in render order; neighbours with the same source are merged into one run. The counts
// sum to the usage's input.
std::vector<SourceRun> RunsOf(const AttributeArgs& args, const Attributed& attributed);

// Returns the elements of the list of messages behind which the source of the prompt changes, the
// newest `cuts_max` of them, ascending: there it pays to count tokens.
std::vector<int32_t> CutsOf(const history::SentSegments& segments, size_t cuts_max);

}  // namespace kvgate::prompt::diagnose
