// What writing a prefix to a provider's cache costs now and is expected to save: the choice between
// no marker, the usual and the longer lifetime, at the end of what conversations share (tools and
// system) and at the newest block. Pure arithmetic in tokens at the price of uncached input.
#pragma once

#include <cstdint>
#include <functional>

#include "gateway/ledger/prices.h"
#include "gateway/prompt/planner/plan_memory.h"

namespace kvgate::prompt {

enum class Lifetime : uint8_t { kNone, kTtl, kLong };

struct CostArgs {
  ledger::CacheFactors factors;
  bool has_long = false;     // the longer lifetime can be asked for
  double total_tokens = 0;   // of the request
  double stable_tokens = 0;  // up to the end of what is shared; 0: it cannot be marked
  double tail_tokens = 0;    // up to the newest block; 0: it cannot be marked
  double common_tokens = 0;  // what the conversation's next request will have in common
  // Known entries of this prefix.
  double readable_tokens = 0;   // now
  double kept_tokens = 0;       // by the next request, if it comes within the usual lifetime …
  double kept_long_tokens = 0;  // … and within the longer one
  bool stable_is_kept = false;
  bool stable_is_kept_long = false;
  // Of the caller's own markers: up to the last one, up to the last one of the longer lifetime.
  double callers_tokens = 0;
  double callers_long_tokens = 0;
  // And of those of them that the conversation's next request will find.
  double callers_found_tokens = 0;
  double callers_found_long_tokens = 0;
  // What is expected.
  double continues = 0;     // the probability that the conversation goes on
  GapShares gaps = {};      // if it does
  GapShares arrivals = {};  // until another conversation begins with what is shared; never: kOver
};

struct CostChoice {
  Lifetime stable = Lifetime::kNone;
  Lifetime tail = Lifetime::kNone;
  double premium = 0;         // beyond what the caller's own request would cost now
  double written_tokens = 0;  // in all
  double write_factor = 1;    // their mean
  double expected_reuse = 0;  // requests that will read what this one leaves
  bool is_refused = false;    // something would have been expected to pay, and was not afforded
};

// The cheapest of what is expected to pay and `affords`: (premium, whether it is for the longer
// lifetime) → bool.
CostChoice Choose(const CostArgs& args, const std::function<bool(double, Lifetime)>& affords);

}  // namespace kvgate::prompt
