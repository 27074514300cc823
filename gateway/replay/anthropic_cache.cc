#include "gateway/replay/anthropic_cache.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <vector>

namespace kvgate::replay {
namespace {

constexpr size_t kBreakpointsUsual = 4;
constexpr int64_t kLookbackUsual = 20;
constexpr int32_t kHour = 3600;
constexpr int64_t kNone = -1;

// Maps the index of an item to the lifetime in seconds that its breakpoint asks for.
using Breakpoints = std::map<size_t, int32_t>;

// Returns the last item that may hold a breakpoint.
std::optional<size_t> LastEligible(const Rendering& prompt) {
  for (size_t i = prompt.items.size(); i > 0; --i) {
    if (prompt.items[i - 1].unmarkable.empty()) return i - 1;
  }
  return std::nullopt;
}

// Collects the breakpoints in `out`; returns why the request is refused, or an empty string.
std::string ReadBreakpoints(const Rendering& prompt, size_t most, Breakpoints& out) {
  for (size_t i = 0; i < prompt.items.size(); ++i) {
    const Item& item = prompt.items[i];
    if (!item.breakpoint_ttl) continue;
    if (!item.unmarkable.empty()) return item.unmarkable;
    out[i] = *item.breakpoint_ttl;
  }
  const std::optional<size_t> last = LastEligible(prompt);
  if (prompt.automatic_ttl && last) {
    const auto own = out.find(*last);
    if (own == out.end() ? out.size() >= most : own->second != *prompt.automatic_ttl) {
      return "cache_control: automatic caching needs a breakpoint of its own.";
    }
    out[*last] = *prompt.automatic_ttl;
  }
  if (out.size() > most) {
    return fmt::format("A maximum of {} blocks with cache_control may be provided. Found {}.", most,
                       out.size());
  }
  int32_t before = kHour;
  for (const auto& [index, ttl] : out) {
    if (ttl > before) return "a ttl='1h' cache_control block must not come after a ttl='5m' one.";
    before = ttl;
  }
  return "";
}

struct Prefix {
  int64_t tokens = 0;
  PrefixHash hash;
};

std::vector<Prefix> PrefixesOf(const Rendering& prompt, std::string_view credential) {
  std::vector<Prefix> prefixes;
  PrefixChain chain;
  chain.Add(credential);
  chain.Add(prompt.model);
  size_t part = 0;  // the salts of the parts before it have been added
  int64_t tokens = 0;
  for (const Item& item : prompt.items) {
    for (; part <= static_cast<size_t>(item.part); ++part) chain.Add(prompt.salts[part]);
    chain.Add(item.text);
    tokens += item.num_tokens();
    prefixes.push_back({.tokens = tokens, .hash = chain.hash()});
  }
  return prefixes;
}

}  // namespace

SimulatedAnswer AnthropicCache::Ask(const SentRequestView& request) {
  SimulatedAnswer answer;
  Result<Rendering> prompt = Render(request.endpoint, request.body);
  if (!prompt) return {.usage = {}, .refusal = prompt.error().detail};
  if (options_.provider == "anthropic") prompt->DropBillingHeader();
  const ledger::PriceRow* row = options_.prices.Find(options_.provider, prompt->model);
  const ledger::CacheRules rules = row == nullptr ? ledger::CacheRules() : row->rules;
  const size_t most =
      rules.breakpoints_max > 0 ? static_cast<size_t>(rules.breakpoints_max) : kBreakpointsUsual;
  const int64_t lookback = rules.lookback_blocks > 0 ? rules.lookback_blocks : kLookbackUsual;
  if (prompt->automatic_ttl && row != nullptr && !rules.automatic_breakpoint) {
    return {.usage = {}, .refusal = "cache_control: Extra inputs are not permitted"};
  }
  Breakpoints points;
  answer.refusal = ReadBreakpoints(*prompt, most, points);
  if (!answer.refusal.empty()) return answer;

  const std::vector<Prefix> prefixes = PrefixesOf(*prompt, request.credential);
  const auto cacheable = [&](int64_t i) {
    return prefixes[static_cast<size_t>(i)].tokens >= rules.minimum_tokens;
  };
  int64_t hit = kNone;
  for (const auto& [point, ttl] : points) {
    const auto from = static_cast<int64_t>(point);
    for (int64_t i = from; i > std::max<int64_t>(kNone, from - lookback); --i) {
      if (!cacheable(i) || !store_.Has(prefixes[static_cast<size_t>(i)].hash, request.time_us)) {
        continue;
      }
      hit = std::max(hit, i);
      break;
    }
  }
  int64_t read = 0;
  if (hit != kNone) {
    const Prefix& entry = prefixes[static_cast<size_t>(hit)];
    read = entry.tokens;
    store_.Refresh(entry.hash, request.time_us);
  }
  int64_t hour_end = read;
  int64_t end = read;
  for (const auto& [point, ttl] : points) {
    const Prefix& prefix = prefixes[point];
    if (!cacheable(static_cast<int64_t>(point)) || prefix.tokens <= read) continue;
    end = std::max(end, prefix.tokens);
    if (ttl == kHour) hour_end = std::max(hour_end, prefix.tokens);
    store_.Put(prefix.hash, {.now_us = request.time_us,
                             .readable_us = request.time_us + request.first_byte_us,
                             .ttl_seconds = ttl});
  }
  answer.usage = {.uncached_tokens = (prefixes.empty() ? 0 : prefixes.back().tokens) - end,
                  .cache_read_tokens = read,
                  .cache_write_tokens = end - hour_end,
                  .cache_write_1h_tokens = hour_end - read,
                  .output_tokens = request.output_tokens};
  return answer;
}

}  // namespace kvgate::replay
