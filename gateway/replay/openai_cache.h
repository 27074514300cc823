// OpenAiCache: two ways of caching, by the model's row. With breakpoints (from 5.6 on): entries at
// ends of turns and at explicit markers, matched with the key, writes paid. Before: increments of a
// running hash, writes free. Source: OpenAI's prompt caching guide, 2026-09.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <unordered_map>

#include "gateway/replay/cache_model.h"
#include "gateway/replay/cache_store.h"
#include "gateway/replay/rendering.h"

namespace kvgate::replay {

class OpenAiCache final : public CacheModel {
 public:
  explicit OpenAiCache(Options options) : options_(std::move(options)) {}
  SimulatedAnswer Ask(const SentRequestView& request) override;

 private:
  // The number of the machine that a request comes to.
  int64_t Route(const SentRequestView& request, const Rendering& prompt,
                const ledger::CacheRules& rules);

  const Options options_;
  CacheStore store_;
  std::unordered_map<PrefixHash, std::deque<int64_t>> recent_;  // times of the last minute
};

}  // namespace kvgate::replay
