#include "gateway/ledger/totals_metrics.h"

#include <fmt/format.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace kvgate::ledger {
namespace {

// Writes the samples of one kind of series: {upstream="…"}, {model="…"} or
// {prompt="NAME@VERSION"}.
class SeriesWriter {
 public:
  SeriesWriter(std::string label, metrics::TextWriter& writer)
      : label_(std::move(label)), writer_(writer) {}

  void Add(const std::string& name, const Sum& sum) { sums_.emplace_back(name, sum); }

  void Write() {
    const std::string prefix = fmt::format("kvgate_ledger_{}_", label_);
    One(prefix + "requests_total", "Requests.", &Sum::requests);
    One(prefix + "unknown_usage_total", "Answers whose tokens are not known.", &Sum::unknown_usage);
    One(prefix + "unknown_cost_total", "Answers without a known price.", &Sum::unknown_cost);
    const std::string tokens = prefix + "tokens_total";
    writer_.Family(tokens, "counter", "Tokens as reported, by what the cache did for them.");
    for (const auto& [name, sum] : sums_) {
      const auto sample = [&, &name = name](const char* kind, int64_t value) {
        writer_.Sample(tokens, {{label_, name}, {"kind", kind}}, static_cast<uint64_t>(value));
      };
      sample("uncached", sum.uncached_tokens);
      sample("cache_read", sum.cache_read_tokens);
      sample("cache_write", sum.cache_write_tokens);
      sample("output", sum.output_tokens);
    }
    Dollars(prefix + "cost_dollars_total", "Known cost.", &Sum::nanodollars);
    Dollars(prefix + "uncached_cost_dollars_total", "Known cost if there were no cache.",
            &Sum::uncached_nanodollars);
  }

 private:
  void One(const std::string& family, const char* help, int64_t Sum::*value) {
    writer_.Family(family, "counter", help);
    for (const auto& [name, sum] : sums_) {
      writer_.Sample(family, {{label_, name}}, static_cast<uint64_t>(sum.*value));
    }
  }
  void Dollars(const std::string& family, const char* help, int64_t Sum::*value) {
    writer_.Family(family, "counter", help);
    for (const auto& [name, sum] : sums_) {
      writer_.Sample(family, {{label_, name}}, static_cast<double>(sum.*value) / 1e9);
    }
  }

  const std::string label_;
  metrics::TextWriter& writer_;
  std::vector<std::pair<std::string, Sum>> sums_;
};

// Writes one member of each sum as a metric family.
template <typename S>
void WriteCounts(const char* family, const char* help, const char* label,
                 const Totals::SeriesOf<S>& sums, int64_t S::*value, metrics::TextWriter& writer) {
  writer.Family(family, "counter", help);
  for (const auto& [name, sum] : sums) {
    writer.Sample(family, {{label, name}}, static_cast<uint64_t>(sum.*value));
  }
}

template <typename S>
void WriteDollars(const char* family, const char* help, const char* label,
                  const Totals::SeriesOf<S>& sums, int64_t S::*value, metrics::TextWriter& writer) {
  writer.Family(family, "counter", help);
  for (const auto& [name, sum] : sums) {
    writer.Sample(family, {{label, name}}, static_cast<double>(sum.*value) / 1e9);
  }
}

void WriteSources(const Totals::SeriesOf<SourceSum>& sources, metrics::TextWriter& writer) {
  constexpr const char* kTokens = "kvgate_ledger_source_tokens_total";
  writer.Family(kTokens, "counter",
                "Tokens of prompts by what they are, and what the cache did for them.");
  for (const auto& [name, sum] : sources) {
    const auto sample = [&, &name = name](const char* kind, int64_t value) {
      writer.Sample(kTokens, {{"source", name}, {"kind", kind}}, static_cast<uint64_t>(value));
    };
    sample("uncached", sum.uncached_tokens);
    sample("cache_read", sum.cached_tokens);
    sample("cache_write", sum.written_tokens);
  }
  WriteDollars("kvgate_ledger_source_cost_dollars_total", "Known cost of prompts.", "source",
               sources, &SourceSum::nanodollars, writer);
}

void WriteBreaks(const Totals::SeriesOf<BreakSum>& breaks, metrics::TextWriter& writer) {
  WriteCounts("kvgate_prefix_break_total", "Requests whose cached prefix ended early.", "cause",
              breaks, &BreakSum::breaks, writer);
  WriteCounts("kvgate_break_tokens_total", "Tokens that were not read because of it.", "cause",
              breaks, &BreakSum::lost_tokens, writer);
  // Names of before, kept for one version.
  WriteCounts("kvgate_prefix_breaks_total", "Requests whose cached prefix ended early.", "cause",
              breaks, &BreakSum::breaks, writer);
  WriteCounts("kvgate_prefix_break_lost_tokens_total", "Tokens that were not read because of it.",
              "cause", breaks, &BreakSum::lost_tokens, writer);
  WriteDollars("kvgate_prefix_break_lost_dollars_total", "What reading them would have saved.",
               "cause", breaks, &BreakSum::lost_nanodollars, writer);
}

void WriteCost(const Sum& all, metrics::TextWriter& writer) {
  constexpr const char* kCost = "kvgate_cost_usd_total";
  writer.Family(kCost, "counter",
                "Known cost of all requests, and what it would be without any cache, or directly.");
  writer.Sample(kCost, {{"kind", "actual"}}, static_cast<double>(all.nanodollars) / 1e9);
  writer.Sample(kCost, {{"kind", "counterfactual"}},
                static_cast<double>(all.uncached_nanodollars) / 1e9);
  writer.Sample(kCost, {{"kind", "direct"}}, static_cast<double>(all.direct_nanodollars) / 1e9);
}

}  // namespace

void WriteTotalsMetrics(const Totals& totals, metrics::TextWriter& writer) {
  SeriesWriter upstreams("upstream", writer);
  SeriesWriter models("model", writer);
  SeriesWriter prompts("prompt", writer);
  totals.ForEachUpstream([&](const auto& name, const Sum& sum) { upstreams.Add(name, sum); });
  totals.ForEachModel([&](const auto& name, const Sum& sum) { models.Add(name, sum); });
  totals.ForEachPrompt([&](const auto& name, const Sum& sum) { prompts.Add(name, sum); });
  upstreams.Write();
  models.Write();
  prompts.Write();
  WriteSources(totals.sources(), writer);
  WriteBreaks(totals.breaks(), writer);
  WriteCost(totals.all(), writer);
}

}  // namespace kvgate::ledger
