// OpenAiCache simulates OpenAI's two ways of caching, chosen by the model's row. With breakpoints
// (from 5.6 on), entries stand at ends of turns and at explicit breakpoints, match only with the
// key, and writes are paid. Older models hash the text in increments, and writes are free. Source:
// OpenAI's prompt caching guide, 2026-09.
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
  // Returns the number of the machine that gets the request.
  int64_t Route(const SentRequestView& request, const Rendering& prompt,
                const ledger::CacheRules& rules);

  const Options options_;
  CacheStore store_;
  std::unordered_map<PrefixHash, std::deque<int64_t>> recent_;  // request times of the last minute
};

}  // namespace kvgate::replay
