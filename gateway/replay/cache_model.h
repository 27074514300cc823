// CacheModel: a provider's prompt cache, simulated: which tokens of a request are read, written or
// neither, and what its API refuses. A pure state machine: time comes with the requests, in order.
//
// Every number (minimum, increment, lookback, lifetime) is the price row's (ledger::Prices); a rule
// of the form of a cache is here, from the providers' pages as of 2026-10. Entries belong to a
// credential and a model, and can be read from the moment on in which the writing answer begins.
// tests/support/prompt_cache.py plays the same rules over HTTP. Not thread-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "gateway/ledger/prices.h"
#include "gateway/ledger/usage.h"
#include "gateway/upstream/dialect.h"

namespace kvgate::replay {

struct SentRequestView {
  int64_t time_us = 0;          // when it was sent; never before the request fed last
  int64_t first_byte_us = 0;    // from then until its answer begins
  std::string_view credential;  // whose cache it is
  upstream::Endpoint endpoint = upstream::Endpoint::kOther;
  std::string_view body;                  // as sent
  std::string_view conversation_id = {};  // the header x-grok-conv-id; empty: none
  int64_t output_tokens = 0;              // of its answer
};

struct SimulatedAnswer {
  ledger::TokenUsage usage;
  std::string refusal;  // the message of a 400; empty: it was answered
};

class CacheModel {
 public:
  struct Options {
    const ledger::Prices& prices = ledger::Prices::Builtin();
    // Whose rules: "anthropic", "openai", "deepseek", "xai", "moonshot" …; "raw": a backend that
    // hashes the body's bytes as they come. One that is not known caches in increments.
    std::string provider;
    // OpenAI: requests of one prefix and key beyond the rules' number a minute go to another
    // machine, whose cache is its own.
    bool overflows = false;
    // Among how many xAI spreads requests that name no conversation.
    int num_servers = 1;
  };
  static std::unique_ptr<CacheModel> Make(Options options);
  virtual ~CacheModel() = default;

  virtual SimulatedAnswer Ask(const SentRequestView& request) = 0;
};

}  // namespace kvgate::replay
