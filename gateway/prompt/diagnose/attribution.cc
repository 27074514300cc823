#include "gateway/prompt/diagnose/attribution.h"

#include <algorithm>
#include <numeric>
#include <vector>

#include "gateway/ledger/apportion.h"
#include "gateway/prompt/diagnose/cache_effects.h"

namespace kvgate::prompt::diagnose {
namespace {

// Takes up to `tokens` from `left`, which is the rest of a budget spent segment by segment.
int64_t Take(int64_t tokens, int64_t& left) {
  const int64_t taken = std::min(tokens, left);
  left -= taken;
  return taken;
}

struct RenderedSegment {
  const history::SentSegment* segment;
  int64_t num_tokens;
};

// Returns the segments in render order with their shares of `num_tokens`.
std::vector<RenderedSegment> Render(const history::SentSegments& segments, int64_t num_tokens,
                                    bool tools_after_system) {
  std::vector<RenderedSegment> rendered;
  rendered.reserve(segments.size());
  std::vector<int64_t> estimates;
  for (const parse::Section section : RenderOrder(tools_after_system)) {
    for (const history::SentSegment& segment : segments) {
      if (segment.place.section != section) continue;
      rendered.push_back({.segment = &segment, .num_tokens = 0});
      estimates.push_back(segment.num_tokens);
    }
  }
  std::vector<int64_t> tokens(estimates.size());
  ledger::Apportion(estimates, num_tokens, tokens);
  for (size_t i = 0; i < rendered.size(); ++i) rendered[i].num_tokens = tokens[i];
  return rendered;
}

}  // namespace

std::vector<SourceRun> RunsOf(const history::SentSegments& segments, int64_t num_tokens,
                              bool tools_after_system) {
  // As in Attribute, a prompt without readable segments counts as its user's.
  if (segments.empty()) return {{.source = parse::Source::kUser, .num_tokens = num_tokens}};
  std::vector<SourceRun> runs;
  for (const RenderedSegment& part : Render(segments, num_tokens, tools_after_system)) {
    const parse::Source source = part.segment->source;
    if (runs.empty() || runs.back().source != source) runs.push_back({.source = source});
    runs.back().num_tokens += part.num_tokens;
  }
  return runs;
}

Attribution Attribute(const history::SentSegments& segments, const ledger::TokenUsage& usage,
                      bool tools_after_system) {
  Attribution sources{};
  int64_t cached = usage.cache_read_tokens;
  int64_t written = usage.cache_write_tokens + usage.cache_write_1h_tokens;
  if (segments.empty()) {
    sources[static_cast<size_t>(parse::Source::kUser)] = {cached, written, usage.uncached_tokens};
    return sources;
  }
  for (const auto& [segment, tokens] : Render(segments, usage.input_tokens(), tools_after_system)) {
    SourceTokens& source = sources[static_cast<size_t>(segment->source)];
    const int64_t from_cache = Take(tokens, cached);
    const int64_t to_cache = Take(tokens - from_cache, written);
    source.cached += from_cache;
    source.written += to_cache;
    source.uncached += tokens - from_cache - to_cache;
  }
  return sources;
}

}  // namespace kvgate::prompt::diagnose
