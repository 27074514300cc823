// AnthropicCache simulates Anthropic's prompt cache: entries end at breakpoints only, are found by
// walking back from each breakpoint, and are billed in three parts. Source: Anthropic's prompt
// caching page, 2026-10.
#pragma once

#include <map>

#include "gateway/replay/cache_model.h"
#include "gateway/replay/cache_store.h"
#include "gateway/replay/rendering.h"

namespace kvgate::replay {

class AnthropicCache final : public CacheModel {
 public:
  explicit AnthropicCache(Options options) : options_(std::move(options)) {}
  SimulatedAnswer Ask(const SentRequestView& request) override;

 private:
  const Options options_;
  CacheStore store_;
};

}  // namespace kvgate::replay
