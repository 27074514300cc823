#include "gateway/prompt/diagnose/attribution.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "gateway/ledger/segment/apportion.h"
#include "gateway/prompt/diagnose/cache_effects.h"

namespace kvgate::prompt::diagnose {
namespace {

using history::SentSegment;
using history::SentSegments;

// Takes up to `tokens` from `left`, which is the rest of a budget spent segment by segment.
int64_t Take(int64_t tokens, int64_t& left) {
  const int64_t taken = std::min(tokens, left);
  left -= taken;
  return taken;
}

// The element of the list of messages that a segment is in; -1: it is in none.
int32_t ElementOf(const SentSegment& segment) {
  const bool is_listed = segment.place.field == "messages" || segment.place.field == "input";
  return is_listed ? segment.place.element : -1;
}

std::vector<size_t> RenderedOrder(const SentSegments& segments, bool tools_after_system) {
  std::vector<size_t> order;
  order.reserve(segments.size());
  for (const parse::Section section : RenderOrder(tools_after_system)) {
    for (size_t i = 0; i < segments.size(); ++i) {
      if (segments[i].place.section == section) order.push_back(i);
    }
  }
  return order;
}

// Divides the tokens of a prompt, in the order of rendering.
class Divider {
 public:
  Divider(const SentSegments& segments, const ledger::reply::TokenUsage& usage)
      : segments_(segments),
        cached_(usage.cache_read_tokens),
        written_(usage.cache_write_tokens + usage.cache_write_1h_tokens),
        place_of_(segments.size()) {}

  // The segments of `members` have `num_tokens` together.
  void Add(std::span<const size_t> members, int64_t num_tokens) {
    std::vector<int64_t> estimates;
    estimates.reserve(members.size());
    for (const size_t i : members) estimates.push_back(segments_[i].num_tokens);
    std::vector<int64_t> tokens(members.size());
    ledger::segment::Apportion(estimates, num_tokens, tokens);
    for (size_t k = 0; k < members.size(); ++k) AddOne(members[k], tokens[k]);
  }
  std::vector<AttributedSegment> Finish() { return std::move(parts_); }

 private:
  void AddOne(size_t segment, int64_t tokens) {
    if (!place_of_[segment]) {
      place_of_[segment] = parts_.size();
      parts_.push_back({.segment = segment, .tokens = {}});
    }
    SourceTokens& sum = parts_[*place_of_[segment]].tokens;
    const int64_t from_cache = Take(tokens, cached_);
    const int64_t to_cache = Take(tokens - from_cache, written_);
    sum.cached += from_cache;
    sum.written += to_cache;
    sum.uncached += tokens - from_cache - to_cache;
  }

  const SentSegments& segments_;
  int64_t cached_;
  int64_t written_;
  std::vector<std::optional<size_t>> place_of_;  // of a segment among the parts
  std::vector<AttributedSegment> parts_;
};

// Returns the segments of a run: those of the tools, or those in front of its end.
std::vector<size_t> MembersOf(const SentSegments& segments, std::span<const size_t> order,
                              const CountedRun& run, int32_t begin, bool has_tools_run) {
  std::vector<size_t> members;
  for (const size_t i : order) {
    const bool is_tool = segments[i].place.section == parse::Section::kTools;
    const int32_t element = ElementOf(segments[i]);
    const bool is_in = element >= begin && element <= run.last_element;
    const bool counts_tool = is_tool && (run.is_tools || (!has_tools_run && is_in));
    if (is_tool ? counts_tool : (!run.is_tools && is_in)) members.push_back(i);
  }
  return members;
}

// Two runs that end in one element have its results of tools, and the rest of it.
void TellApart(const AttributeArgs& args, size_t run, std::vector<size_t>& members) {
  const auto ends_with = [&](size_t other) {
    return !args.runs[other].is_tools &&
           args.runs[other].last_element == args.runs[run].last_element &&
           args.runs[other].is_results != args.runs[run].is_results;
  };
  const bool is_shared =
      (run > 0 && ends_with(run - 1)) || (run + 1 < args.runs.size() && ends_with(run + 1));
  if (!is_shared) return;
  std::vector<size_t> own;
  for (const size_t i : members) {
    const bool is_result = args.segments[i].content == parse::Content::kToolResult;
    if (is_result == args.runs[run].is_results) own.push_back(i);
  }
  if (!own.empty()) members = std::move(own);
}

// Runs that no segment belongs to count for the segments in front of them, else behind.
void DivideRuns(const AttributeArgs& args, std::span<const size_t> order, Divider& divider) {
  const bool has_tools_run = std::any_of(args.runs.begin(), args.runs.end(),
                                         [](const CountedRun& run) { return run.is_tools; });
  std::vector<size_t> members;
  int64_t carried = 0;
  int32_t begin = -1;
  for (size_t k = 0; k < args.runs.size(); ++k) {
    CountedRun run = args.runs[k];
    const bool is_last = k + 1 == args.runs.size();
    if (is_last) run.last_element = INT32_MAX;  // the rest of the prompt
    std::vector<size_t> own = MembersOf(args.segments, order, run, begin, has_tools_run);
    TellApart(args, k, own);
    if (!own.empty()) members = std::move(own);
    // A run that goes on with the elements of the one before keeps its beginning.
    if (!run.is_tools && k + 1 < args.runs.size() &&
        args.runs[k + 1].last_element > run.last_element) {
      begin = run.last_element + 1;
    }
    carried += run.num_tokens;
    if (members.empty() && !is_last) continue;
    if (members.empty()) members.assign(order.begin(), order.end());
    divider.Add(members, std::exchange(carried, 0));
  }
}

}  // namespace

Attributed AttributeSegments(const AttributeArgs& args) {
  Attributed attributed;
  if (args.segments.empty()) return attributed;
  const int64_t input = args.usage.input_tokens();
  const int64_t counted =
      std::accumulate(args.runs.begin(), args.runs.end(), int64_t{0},
                      [](int64_t sum, const CountedRun& run) { return sum + run.num_tokens; });
  const std::vector<size_t> order = RenderedOrder(args.segments, args.tools_after_system);
  Divider divider(args.segments, args.usage);
  attributed.is_counted = !args.runs.empty() && counted == input;
  if (attributed.is_counted) {
    DivideRuns(args, order, divider);
  } else {
    divider.Add(order, input);
  }
  attributed.parts = divider.Finish();
  return attributed;
}

Attribution SumBySource(const AttributeArgs& args, const Attributed& attributed) {
  Attribution sources{};
  if (attributed.parts.empty()) {
    const ledger::reply::TokenUsage& usage = args.usage;
    sources[static_cast<size_t>(parse::Source::kUser)] = {
        .cached = usage.cache_read_tokens,
        .written = usage.cache_write_tokens + usage.cache_write_1h_tokens,
        .uncached = usage.uncached_tokens};
  }
  for (const auto& [segment, tokens] : attributed.parts) {
    SourceTokens& source = sources[static_cast<size_t>(args.segments[segment].source)];
    source.cached += tokens.cached;
    source.written += tokens.written;
    source.uncached += tokens.uncached;
  }
  return sources;
}

Attribution Attribute(const SentSegments& segments, const ledger::reply::TokenUsage& usage,
                      bool tools_after_system) {
  const AttributeArgs args{
      .segments = segments, .usage = usage, .tools_after_system = tools_after_system};
  return SumBySource(args, AttributeSegments(args));
}

std::vector<SourceRun> RunsOf(const AttributeArgs& args, const Attributed& attributed) {
  if (attributed.parts.empty()) {
    return {{.source = parse::Source::kUser, .num_tokens = args.usage.input_tokens()}};
  }
  std::vector<SourceRun> runs;
  for (const auto& [segment, tokens] : attributed.parts) {
    const parse::Source source = args.segments[segment].source;
    if (runs.empty() || runs.back().source != source) runs.push_back({.source = source});
    runs.back().num_tokens += tokens.tokens();
  }
  return runs;
}

std::vector<int32_t> CutsOf(const SentSegments& segments, size_t cuts_max) {
  std::vector<int32_t> cuts;
  // The list ends where the prompt does, which is no cut.
  for (size_t i = segments.size(); i-- > 1 && cuts.size() < cuts_max;) {
    const int32_t element = ElementOf(segments[i - 1]);
    const bool is_end = element >= 0 && element != ElementOf(segments[i]);
    if (is_end && segments[i - 1].source != segments[i].source) cuts.push_back(element);
  }
  std::reverse(cuts.begin(), cuts.end());
  return cuts;
}

}  // namespace kvgate::prompt::diagnose
