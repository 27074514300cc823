// Caches without markers: what is stored and found is decided by the text alone.
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

// Increments of a running hash over `text`, each stored, those from the front on read; `chain` is
// what keeps caches apart.
ledger::TokenUsage ByIncrements(CacheStore& store, PrefixChain chain, std::string_view text,
                                const ledger::CacheRules& rules, const SentRequestView& request);

// xAI, Kimi, and any provider whose rules name an increment and a lifetime at most. With several
// servers a request goes to that of its conversation (x-grok-conv-id, else prompt_cache_key); one
// that names none to the next in turn.
class IncrementCache final : public CacheModel {
 public:
  explicit IncrementCache(Options options) : options_(std::move(options)) {}
  SimulatedAnswer Ask(const SentRequestView& request) override;

 private:
  const Options options_;
  CacheStore store_;
  int64_t num_unnamed_ = 0;
};

// A backend that hashes the body's bytes: order of fields, blanks and escapes all count (G15).
class RawCache final : public CacheModel {
 public:
  explicit RawCache(Options options) : options_(std::move(options)) {}
  SimulatedAnswer Ask(const SentRequestView& request) override;

 private:
  const Options options_;
  CacheStore store_;
};

// DeepSeek: only complete units are found: prefixes that end with a turn, and common prefixes that
// two requests have shown (A+B, then A+C misses and makes a unit of A, A+D finds it). Tools render
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
