#include "gateway/replay/openai_cache.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "gateway/replay/prefix_caches.h"

namespace kvgate::replay {
namespace {

constexpr size_t kPointsRead = 50;  // only the latest ones
constexpr int64_t kMinute = 60'000'000;
constexpr size_t kRoutedBytes = 256 * kTokenBytes;  // routing hashes the first 256 tokens

struct Point {
  int64_t tokens = 0;
  PrefixHash hash;
};

// Returns why the request is refused; empty if it is not.
std::string Check(const Rendering& prompt, const ledger::CacheRules& rules) {
  const auto length_max = static_cast<size_t>(rules.key_characters_max);
  if (length_max > 0 && prompt.cache_key.size() > length_max) {
    return fmt::format("Invalid 'prompt_cache_key': string too long, at most {} characters.",
                       length_max);
  }
  if (rules.breakpoints != ledger::BreakpointSyntax::kBreakpoint) {
    if (prompt.has_cache_options) {
      return "Unsupported parameter: 'prompt_cache_options' with this model.";
    }
    if (prompt.num_breakpoints() > 0) {
      return "Unsupported parameter: 'prompt_cache_breakpoint' with this model.";
    }
  } else if (prompt.num_breakpoints() > rules.breakpoints_max) {
    return fmt::format("At most {} prompt_cache_breakpoint markers may be given.",
                       rules.breakpoints_max);
  }
  return "";
}

struct Points {
  std::vector<Point> readable;  // ends of turns and breakpoints
  std::vector<Point> wanted;    // those to be written
  int64_t tokens = 0;           // of the whole prompt
};

Points FindPoints(const Rendering& prompt, PrefixChain chain, size_t most) {
  Points out;
  std::vector<Point> marked;
  for (const Item& item : prompt.items) {
    chain.Add(item.text);
    out.tokens += item.num_tokens();
    const Point point{.tokens = out.tokens, .hash = chain.hash()};
    if (item.ends_turn || item.breakpoint_ttl) out.readable.push_back(point);
    if (item.breakpoint_ttl) marked.push_back(point);
  }
  if (prompt.is_explicit) {
    out.wanted = std::move(marked);
  } else {
    const size_t own = std::min(marked.size(), most - 1);  // the implicit one takes a place
    out.wanted.assign(marked.end() - static_cast<std::ptrdiff_t>(own), marked.end());
    if (!out.readable.empty()) out.wanted.push_back(out.readable.back());
  }
  const size_t old = out.readable.size() - std::min(out.readable.size(), kPointsRead);
  out.readable.erase(out.readable.begin(), out.readable.begin() + static_cast<std::ptrdiff_t>(old));
  return out;
}

ledger::TokenUsage ByBreakpoints(CacheStore& store, const Points& points,
                                 const ledger::CacheRules& rules, const SentRequestView& request) {
  ledger::TokenUsage usage{.uncached_tokens = points.tokens,
                           .output_tokens = request.output_tokens};
  if (points.wanted.empty()) return usage;
  const Point* hit = nullptr;
  for (const Point& point : points.readable) {
    if (point.tokens >= rules.minimum_tokens && store.Has(point.hash, request.time_us)) {
      hit = &point;
    }
  }
  if (hit != nullptr) store.Refresh(hit->hash, request.time_us);
  const int64_t cached = hit == nullptr ? 0 : hit->tokens;
  int64_t end = cached;
  for (const Point& point : points.wanted) {
    if (point.tokens < rules.minimum_tokens || point.tokens <= cached) continue;
    end = std::max(end, point.tokens);
    store.Put(point.hash, {.now_us = request.time_us,
                           .readable_us = request.time_us + request.first_byte_us,
                           .ttl_seconds = rules.ttl_seconds});
  }
  usage.uncached_tokens = points.tokens - end;
  usage.cache_read_tokens = cached;
  usage.cache_write_tokens = end - cached;
  return usage;
}

}  // namespace

int64_t OpenAiCache::Route(const SentRequestView& request, const Rendering& prompt,
                           const ledger::CacheRules& rules) {
  if (!options_.overflows || rules.key_requests_per_minute == 0) return 0;
  std::string first;
  for (const Item& item : prompt.items) {
    first += item.text;
    if (first.size() >= kRoutedBytes) break;
  }
  PrefixChain chain;
  chain.Add(request.credential);
  chain.Add(std::string_view(first).substr(0, kRoutedBytes));
  chain.Add(prompt.cache_key);
  std::deque<int64_t>& times = recent_[chain.hash()];
  while (!times.empty() && times.front() <= request.time_us - kMinute) times.pop_front();
  times.push_back(request.time_us);
  return (static_cast<int64_t>(times.size()) - 1) / rules.key_requests_per_minute;
}

SimulatedAnswer OpenAiCache::Ask(const SentRequestView& request) {
  const Result<Rendering> prompt = Render(request.endpoint, request.body);
  if (!prompt) return {.usage = {}, .refusal = prompt.error().detail};
  const ledger::PriceRow* row = options_.prices.Find(options_.provider, prompt->model);
  const ledger::CacheRules rules = row == nullptr ? ledger::CacheRules() : row->rules;
  SimulatedAnswer answer{.usage = {}, .refusal = Check(*prompt, rules)};
  if (!answer.refusal.empty()) return answer;
  PrefixChain chain;
  chain.Add(request.credential);
  chain.Add(prompt->model);
  chain.Add(prompt->salts[0]);
  chain.Add(std::to_string(Route(request, *prompt, rules)));
  if (rules.breakpoints == ledger::BreakpointSyntax::kBreakpoint) {
    if (rules.cache_key == ledger::CacheKeyUse::kMatched) chain.Add(prompt->cache_key);
    const Points points = FindPoints(*prompt, chain, static_cast<size_t>(rules.breakpoints_max));
    answer.usage = ByBreakpoints(store_, points, rules, request);
  } else {
    answer.usage = ByIncrements(store_, chain, JoinedText(*prompt), rules, request);
  }
  return answer;
}

}  // namespace kvgate::replay
