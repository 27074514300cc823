#include "gateway/ledger/record_rollup.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>

namespace kvgate::ledger {
namespace {

using rollup::Bucket;
using rollup::By;
using rollup::Entry;

constexpr std::string_view kNone = "none";
constexpr int64_t kSecondUs = 1'000'000;

Bucket WholeOf(const RequestRecord& record) {
  Bucket bucket{.requests = 1};
  bucket.failed = IsFailed(record) ? 1 : 0;
  if (record.usage) {
    bucket.cached_tokens = record.usage->cache_read_tokens;
    bucket.written_tokens = record.usage->cache_write_tokens + record.usage->cache_write_1h_tokens;
    bucket.uncached_tokens = record.usage->uncached_tokens;
    bucket.output_tokens = record.usage->output_tokens;
  }
  if (record.cost) {
    bucket.nanodollars = record.cost->nanodollars;
    bucket.uncached_nanodollars = record.cost->uncached_nanodollars;
    bucket.direct_nanodollars = record.cost->direct_nanodollars;
  }
  // The times of a failed request say nothing of its model.
  if (bucket.failed == 0) {
    const RequestTimings& timings = record.timings;
    if (timings.ttft_us >= 0) bucket.ttft.Add(timings.ttft_us);
    if (timings.tpot_us >= 0) bucket.tpot.Add(timings.tpot_us);
    if (timings.decode_us > 0 && bucket.output_tokens > 1) {
      bucket.decoded_tokens = bucket.output_tokens - 1;
      bucket.decode_us = timings.decode_us;
    }
  }
  return bucket;
}

void AddBreak(const RequestRecord& record, Entry& entry) {
  if (!record.prefix_break || record.prefix_break->cause == kNone) return;
  const RecordBreak& found = *record.prefix_break;
  entry.whole.breaks = 1;
  entry.whole.lost_tokens = found.lost_tokens;
  entry.whole.lost_nanodollars = found.lost_nanodollars;
  entry.parts.push_back({.by = By::kBreak,
                         .name = found.cause,
                         .bucket = {.breaks = 1,
                                    .lost_tokens = found.lost_tokens,
                                    .lost_nanodollars = found.lost_nanodollars}});
}

void AddTokens(By by, std::string_view name, const Bucket& tokens, Entry& entry) {
  name = name.substr(0, rollup::kNameBytesMax);
  for (Entry::Part& part : entry.parts) {
    if (part.by != by || part.name != name) continue;
    part.bucket.Merge(tokens);
    return;
  }
  entry.parts.push_back({.by = by, .name = std::string(name), .bucket = tokens});
}

// A segment pays the share of its source that it has of its source's tokens.
int64_t PriceOf(const RequestRecord& record, const segment::RecordSegment& segment) {
  for (const SourceTokens& source : record.attribution) {
    if (source.source != segment.source) continue;
    const int64_t tokens = source.cached + source.written + source.uncached;
    if (tokens == 0) return 0;
    return static_cast<int64_t>(static_cast<__int128>(source.nanodollars) * segment.tokens() /
                                tokens);
  }
  return 0;
}

void AddTools(const RequestRecord& record, Entry& entry) {
  for (const segment::RecordSegment& segment : record.segments) {
    const bool is_tool = segment.source == "tools" || segment.source == "tool_results";
    if (!is_tool || segment.name.empty()) continue;
    const Bucket tokens{.cached_tokens = segment.cached,
                        .written_tokens = segment.written,
                        .uncached_tokens = segment.uncached,
                        .nanodollars = PriceOf(record, segment)};
    AddTokens(By::kTool, segment.name, tokens, entry);
    if (!segment.server.empty()) AddTokens(By::kServer, segment.server, tokens, entry);
  }
}

// Returns the tokens that a later request can read.
int64_t CachedPrefix(const reply::TokenUsage& usage, const CacheRules& rules) {
  const int64_t written = usage.cache_write_tokens + usage.cache_write_1h_tokens;
  const int64_t told = usage.cache_read_tokens + written;
  // Only prefixes up to a breakpoint are written then, and the provider says how many tokens.
  if (rules.breakpoints == BreakpointSyntax::kCacheControl) return told;
  if (usage.input_tokens() < rules.minimum_tokens) return told;
  const int64_t unit = std::max<int64_t>(rules.increment_tokens, 1);
  return std::max(told, usage.input_tokens() / unit * unit);
}

int64_t TtlOf(const RequestRecord& record, const CacheRules& rules) {
  if (record.cache_ttl_seconds > 0) return record.cache_ttl_seconds;
  if (record.usage->cache_write_1h_tokens > 0 && rules.ttl_long_seconds > 0) {
    return rules.ttl_long_seconds;
  }
  return rules.ttl_seconds;
}

}  // namespace

rollup::Entry EntryOf(const RequestRecord& record) {
  Entry entry{.time_us = record.time_us, .tenant = record.tenant, .whole = WholeOf(record)};
  for (const SourceTokens& source : record.attribution) {
    entry.parts.push_back({.by = By::kSource,
                           .name = source.source,
                           .bucket = {.cached_tokens = source.cached,
                                      .written_tokens = source.written,
                                      .uncached_tokens = source.uncached,
                                      .nanodollars = source.nanodollars}});
  }
  AddTools(record, entry);
  AddBreak(record, entry);
  const auto add = [&](By by, std::string_view name) {
    entry.names.emplace_back(by, name.substr(0, rollup::kNameBytesMax));
  };
  add(By::kUpstream, record.upstream.empty() ? kNone : std::string_view(record.upstream));
  // Refused requests count as "none", so that invented names do not use up the model's.
  add(By::kModel, record.outcome == "refused" ? kNone : std::string_view(record.model));
  add(By::kTenant, record.tenant);
  if (!record.key.empty()) add(By::kKey, record.key);
  if (!record.session.empty()) add(By::kSession, record.session);
  if (!record.prompt.empty()) add(By::kPrompt, record.prompt);
  if (const std::string version = PromptVersionOf(record); !version.empty()) {
    add(By::kPromptVersion, version);
  }
  return entry;
}

std::optional<rollup::WarmCache> WarmCacheOf(const RequestRecord& record, const PriceRow* row) {
  const bool is_answered = record.usage && record.status >= 200 && record.status < 300;
  if (row == nullptr || !is_answered || record.conversation.empty()) return std::nullopt;
  const CacheRules& rules = row->rules;
  const int64_t tokens = CachedPrefix(*record.usage, rules);
  const int64_t ttl_seconds = TtlOf(record, rules);
  if (tokens <= 0 || ttl_seconds <= 0) return std::nullopt;
  rollup::WarmCache cache{.conversation = record.conversation,
                          .session = record.session,
                          .tenant = record.tenant,
                          .model = record.model,
                          .upstream = record.upstream,
                          .tokens = tokens,
                          .last_us = record.time_us};
  cache.expires_us =
      record.time_us + std::max<int64_t>(record.timings.first_byte_us, 0) + ttl_seconds * kSecondUs;
  if (row->prices) {
    const bool is_written = rules.breakpoints == BreakpointSyntax::kCacheControl;
    const bool is_long = ttl_seconds > rules.ttl_seconds && rules.ttl_long_seconds > 0;
    const int64_t anew = !is_written ? row->prices->input
                         : is_long   ? row->prices->cache_write_1h
                                     : row->prices->cache_write;
    // Picodollars per token, so a thousand of them are a nanodollar.
    cache.cold_nanodollars =
        std::max<int64_t>(0, tokens * (anew - row->prices->cache_read) / 1'000);
  }
  return cache;
}

}  // namespace kvgate::ledger
