// Simulated caches without breakpoints: the text alone decides what is stored and found.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_set>

#include "gateway/replay/cache_model.h"
#include "gateway/replay/cache_store.h"
#include "gateway/replay/rendering.h"

namespace kvgate::replay {

// The prompt's text in render order.
std::string JoinedText(const Rendering& prompt);

// Hashes `text` in increments; each is stored, and those that are known from the front on count as
// read. `chain` holds what separates caches from each other.
ledger::reply::TokenUsage ByIncrements(CacheStore& store, PrefixChain chain, std::string_view text,
                                       const ledger::CacheRules& rules,
                                       const SentRequestView& request);

// For xAI, Kimi, and providers whose rules name at most an increment and a lifetime. With several
// servers, a request goes to that of its conversation (x-grok-conv-id, else prompt_cache_key), and
// one without a conversation to the next server in turn.
class IncrementCache final : public CacheModel {
 public:
  explicit IncrementCache(Options options) : options_(std::move(options)) {}
  SimulatedAnswer Ask(const SentRequestView& request) override;

 private:
  const Options options_;
  CacheStore store_;
  int64_t num_unnamed_ = 0;
};

// A backend that hashes the body's bytes, so that field order, white space and escapes all count.
class RawCache final : public CacheModel {
 public:
  explicit RawCache(Options options) : options_(std::move(options)) {}
  SimulatedAnswer Ask(const SentRequestView& request) override;

 private:
  const Options options_;
  CacheStore store_;
};

// DeepSeek finds complete units only: prefixes that end with a turn, and common prefixes that two
// requests have shown (after A+B, A+C misses and makes a unit of A, which A+D finds). Tools render
// behind the system prompt. Source: DeepSeek's page on context caching, 2026-10.
class UnitCache final : public CacheModel {
 public:
  explicit UnitCache(Options options) : options_(std::move(options)) {}
  SimulatedAnswer Ask(const SentRequestView& request) override;

 private:
  const Options options_;
  CacheStore units_;
  std::unordered_set<PrefixHash> seen_;  // every increment of every request
};

}  // namespace kvgate::replay
