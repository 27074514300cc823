#include "gateway/prompt/attribution.h"

#include <algorithm>
#include <numeric>
#include <vector>

#include "gateway/ledger/share_out.h"
#include "gateway/prompt/cache_effects.h"

namespace kvgate::prompt {
namespace {

// Takes from the front of a prompt, segment by segment.
int64_t Take(int64_t tokens, int64_t& left) {
  const int64_t taken = std::min(tokens, left);
  left -= taken;
  return taken;
}

}  // namespace

Attribution Attribute(const SentSegments& segments, const ledger::TokenUsage& usage,
                      bool tools_after_system) {
  Attribution sources{};
  int64_t cached = usage.cache_read_tokens;
  int64_t written = usage.cache_write_tokens + usage.cache_write_1h_tokens;
  if (segments.empty()) {
    sources[static_cast<size_t>(Source::kUser)] = {cached, written, usage.uncached_tokens};
    return sources;
  }
  std::vector<const SentSegment*> rendered;
  rendered.reserve(segments.size());
  for (const Section section : RenderOrder(tools_after_system)) {
    for (const SentSegment& segment : segments) {
      if (segment.place.section == section) rendered.push_back(&segment);
    }
  }
  std::vector<int64_t> estimates;
  for (const SentSegment* segment : rendered) estimates.push_back(segment->num_tokens);
  std::vector<int64_t> tokens(estimates.size());
  ledger::ShareOut(estimates, usage.input_tokens(), tokens);
  for (size_t i = 0; i < rendered.size(); ++i) {
    SourceTokens& source = sources[static_cast<size_t>(rendered[i]->source)];
    const int64_t from_cache = Take(tokens[i], cached);
    const int64_t to_cache = Take(tokens[i] - from_cache, written);
    source.cached += from_cache;
    source.written += to_cache;
    source.uncached += tokens[i] - from_cache - to_cache;
  }
  return sources;
}

}  // namespace kvgate::prompt
