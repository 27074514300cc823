#include "gateway/replay/prefix_caches.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace kvgate::replay {
namespace {

constexpr int64_t kIncrementUsual = 64;  // tokens, if the provider states no increment

int64_t IncrementOf(const ledger::CacheRules& rules) {
  return rules.increment_tokens > 0 ? rules.increment_tokens : kIncrementUsual;
}

ledger::CacheRules RulesOf(const CacheModel::Options& options, std::string_view model) {
  const ledger::PriceRow* row = options.prices.Find(options.provider, model);
  return row == nullptr ? ledger::CacheRules() : row->rules;
}

PrefixChain ChainOf(const SentRequestView& request, const Rendering& prompt) {
  PrefixChain chain;
  chain.Add(request.credential);
  chain.Add(prompt.model);
  for (const std::string& salt : prompt.salts) chain.Add(salt);
  return chain;
}

// Returns the items in render order: system, tools, turns.
std::vector<const Item*> ToolsBehindSystem(const Rendering& prompt) {
  std::vector<const Item*> items;
  for (const Part part : {Part::kSystem, Part::kTools, Part::kMessages}) {
    for (const Item& item : prompt.items) {
      if (item.part == part) items.push_back(&item);
    }
  }
  return items;
}

// A prefix of the text, at which an entry may end.
struct Cut {
  size_t bytes = 0;
  bool is_unit = false;  // ends with a turn; false: an increment
};

std::vector<Cut> CutsOf(const std::vector<const Item*>& items, size_t step_bytes) {
  std::vector<Cut> cuts;
  size_t end = 0;
  for (const Item* item : items) {
    end += item->text.size();
    if (item->ends_message && item->part == Part::kMessages) {
      cuts.push_back({.bytes = end, .is_unit = true});
    }
  }
  for (size_t at = step_bytes; at <= end; at += step_bytes) {
    cuts.push_back({.bytes = at, .is_unit = false});
  }
  std::stable_sort(cuts.begin(), cuts.end(),
                   [](const Cut& a, const Cut& b) { return a.bytes < b.bytes; });
  return cuts;
}

}  // namespace

std::string JoinedText(const Rendering& prompt) {
  std::string text;
  for (const Item& item : prompt.items) text += item.text;
  return text;
}

ledger::reply::TokenUsage ByIncrements(CacheStore& store, PrefixChain chain, std::string_view text,
                                       const ledger::CacheRules& rules,
                                       const SentRequestView& request) {
  const int64_t step = IncrementOf(rules);
  const auto step_bytes = static_cast<size_t>(step * kTokenBytes);
  const int64_t total = CountTokens(text.size());
  int64_t cached = 0;
  bool going = true;
  for (int64_t end = step; end <= total; end += step) {
    chain.Add(text.substr(static_cast<size_t>(end - step) * kTokenBytes, step_bytes));
    going = going && store.Has(chain.hash(), request.time_us);
    if (going) cached = end;
    store.Put(chain.hash(), {.now_us = request.time_us,
                             .readable_us = request.time_us + request.first_byte_us,
                             .ttl_seconds = rules.ttl_seconds});
  }
  if (cached < rules.minimum_tokens) cached = 0;
  return {.uncached_tokens = total - cached,
          .cache_read_tokens = cached,
          .output_tokens = request.output_tokens};
}

SimulatedAnswer IncrementCache::Ask(const SentRequestView& request) {
  const Result<Rendering> prompt = Render(request.endpoint, request.body);
  if (!prompt) return {.usage = {}, .refusal = prompt.error().detail};
  PrefixChain chain = ChainOf(request, *prompt);
  if (options_.num_servers > 1) {
    PrefixChain name;
    name.Add(request.conversation_id.empty() ? prompt->cache_key : request.conversation_id);
    const bool named = !request.conversation_id.empty() || !prompt->cache_key.empty();
    const auto number = named ? name.hash().low : static_cast<uint64_t>(num_unnamed_++);
    chain.Add(std::to_string(number % static_cast<uint64_t>(options_.num_servers)));
  }
  return {.usage = ByIncrements(store_, chain, JoinedText(*prompt),
                                RulesOf(options_, prompt->model), request),
          .refusal = {}};
}

SimulatedAnswer RawCache::Ask(const SentRequestView& request) {
  const Result<Rendering> prompt = Render(request.endpoint, request.body);
  if (!prompt) return {.usage = {}, .refusal = prompt.error().detail};
  PrefixChain chain;
  chain.Add(request.credential);
  return {
      .usage = ByIncrements(store_, chain, request.body, RulesOf(options_, prompt->model), request),
      .refusal = {}};
}

SimulatedAnswer UnitCache::Ask(const SentRequestView& request) {
  const Result<Rendering> prompt = Render(request.endpoint, request.body);
  if (!prompt) return {.usage = {}, .refusal = prompt.error().detail};
  const ledger::CacheRules rules = RulesOf(options_, prompt->model);
  const std::vector<const Item*> items = ToolsBehindSystem(*prompt);
  std::string text;
  for (const Item* item : items) text += item->text;
  const auto step_bytes = static_cast<size_t>(IncrementOf(rules) * kTokenBytes);

  PrefixChain chain = ChainOf(request, *prompt);
  PrefixChain increments = chain;
  size_t cached = 0;
  std::pair<size_t, PrefixHash> common = {};  // the longest prefix that was seen before
  bool going = true;
  const CacheStore::Entry entry{.now_us = request.time_us,
                                .readable_us = request.time_us + request.first_byte_us,
                                .ttl_seconds = rules.ttl_seconds};
  std::vector<PrefixHash> units;
  size_t begin = 0;
  for (const Cut& cut : CutsOf(items, step_bytes)) {
    // A prefix's hash covers its whole increments and the rest behind them.
    PrefixChain here = increments;
    here.Add(std::string_view(text).substr(begin, cut.bytes - begin));
    if (!cut.is_unit) {
      increments = here;
      begin = cut.bytes;
      going = going && seen_.contains(here.hash());
      if (going) common = {cut.bytes, here.hash()};
      seen_.insert(here.hash());
    } else {
      units.push_back(here.hash());
    }
    if (units_.Has(here.hash(), request.time_us)) {
      cached = cut.bytes;
      units_.Refresh(here.hash(), request.time_us);
    }
  }
  for (const PrefixHash& unit : units) units_.Put(unit, entry);
  if (common.first > cached) units_.Put(common.second, entry);
  const int64_t total = CountTokens(text.size());
  int64_t read = static_cast<int64_t>(cached) / kTokenBytes;
  if (read < rules.minimum_tokens) read = 0;
  return {.usage = {.uncached_tokens = total - read,
                    .cache_read_tokens = read,
                    .output_tokens = request.output_tokens},
          .refusal = {}};
}

}  // namespace kvgate::replay
