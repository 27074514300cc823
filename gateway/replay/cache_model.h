// CacheModel simulates a provider's prompt cache: which tokens of a request are read, written or
// neither, and what the API refuses. It is a pure state machine that gets the time with each
// request.
//
// Every number (minimum, increment, lookback, lifetime) comes from the price row (ledger::Prices);
// only rules about the form of a cache are here, from the providers' pages as of 2026-10. Entries
// belong to a credential and a model, and can be read once the answer that writes them has begun.
// tests/support/prompt_cache.py plays the same rules over HTTP. Not thread-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "gateway/dialect/form/dialect.h"
#include "gateway/ledger/prices.h"
#include "gateway/ledger/reply/usage.h"

namespace kvgate::replay {

struct SentRequestView {
  int64_t time_us = 0;          // when it was sent; must not decrease between requests
  int64_t first_byte_us = 0;    // from then until its answer begins
  std::string_view credential;  // owner of the cache
  dialect::form::Endpoint endpoint = dialect::form::Endpoint::kOther;
  std::string_view body;                  // as sent
  std::string_view conversation_id = {};  // the header x-grok-conv-id; empty if there is none
  int64_t output_tokens = 0;              // of its answer
};

struct SimulatedAnswer {
  ledger::reply::TokenUsage usage;
  std::string refusal;  // message of a 400; empty: it was answered
};

class CacheModel {
 public:
  struct Options {
    const ledger::Prices& prices = ledger::Prices::Builtin();
    // Selects the rules: "anthropic", "openai", "deepseek", "xai", "moonshot" …; "raw" is a backend
    // that hashes the body's bytes. An unknown provider caches in increments.
    std::string provider;
    // For OpenAI: requests of one prefix and key beyond the rules' number per minute go to another
    // machine, which has a cache of its own.
    bool overflows = false;
    // Number of servers over which xAI spreads requests that name no conversation.
    int num_servers = 1;
  };
  static std::unique_ptr<CacheModel> Make(Options options);
  virtual ~CacheModel() = default;

  virtual SimulatedAnswer Ask(const SentRequestView& request) = 0;
};

}  // namespace kvgate::replay
