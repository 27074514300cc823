// Rules of providers' caches for tests of what requests would have used directly.
#pragma once

#include "gateway/ledger/prices.h"

namespace kvgate::prompt::diagnose {

// Entries end at breakpoints alone.
inline ledger::CacheRules MarkedRules() {
  ledger::CacheRules rules;
  rules.minimum_tokens = 1'000;
  rules.lookback_blocks = 20;
  rules.ttl_seconds = 300;
  rules.ttl_long_seconds = 3'600;
  rules.breakpoints = ledger::BreakpointSyntax::kCacheControl;
  return rules;
}

inline ledger::CacheRules IncrementRules() {
  ledger::CacheRules rules;
  rules.minimum_tokens = 1'024;
  rules.increment_tokens = 128;
  rules.ttl_seconds = 600;
  return rules;
}

}  // namespace kvgate::prompt::diagnose
