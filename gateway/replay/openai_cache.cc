#include "gateway/replay/openai_cache.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "gateway/replay/prefix_caches.h"

namespace kvgate::replay {
namespace {

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

// Returns true if a lookup considers the point at `index` of `count`; 0 and 0 are no bounds.
bool IsRead(size_t index, size_t count, int64_t first, int64_t last) {
  if (first == 0 && last == 0) return true;
  return index < static_cast<size_t>(first) || index + static_cast<size_t>(last) >= count;
}

Points FindPoints(const Rendering& prompt, PrefixChain chain, const ledger::CacheRules& rules) {
  Points out;
  std::vector<Point> marked;
  std::vector<Point> turns;
  for (const Item& item : prompt.items) {
    chain.Add(item.text);
    out.tokens += item.num_tokens();
    const Point point{.tokens = out.tokens, .hash = chain.hash()};
    if (item.ends_turn) turns.push_back(point);
    if (item.breakpoint_ttl) marked.push_back(point);
  }
  for (size_t i = 0; i < marked.size(); ++i) {
    if (IsRead(i, marked.size(), rules.first_breakpoints_read, rules.last_breakpoints_read)) {
      out.readable.push_back(marked[i]);
    }
  }
  // The newest turn has a breakpoint of its own; the rules count the turns before it.
  const int64_t last = rules.earlier_turns_read == 0 ? 0 : rules.earlier_turns_read + 1;
  for (size_t i = 0; i < turns.size(); ++i) {
    if (IsRead(i, turns.size(), 0, last)) out.readable.push_back(turns[i]);
  }
  std::ranges::stable_sort(out.readable, {}, &Point::tokens);
  if (prompt.is_explicit) {
    out.wanted = std::move(marked);
  } else {
    // The implicit breakpoint takes a place.
    const size_t own = std::min(marked.size(), static_cast<size_t>(rules.breakpoints_max) - 1);
    out.wanted.assign(marked.end() - static_cast<std::ptrdiff_t>(own), marked.end());
    if (!turns.empty()) out.wanted.push_back(turns.back());
  }
  return out;
}

ledger::reply::TokenUsage ByBreakpoints(CacheStore& store, const Points& points,
                                        const ledger::CacheRules& rules,
                                        const SentRequestView& request) {
  ledger::reply::TokenUsage usage{.uncached_tokens = points.tokens,
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
    const Points points = FindPoints(*prompt, chain, rules);
    answer.usage = ByBreakpoints(store_, points, rules, request);
  } else {
    answer.usage = ByIncrements(store_, chain, JoinedText(*prompt), rules, request);
  }
  return answer;
}

}  // namespace kvgate::replay
