// Weighs what a write to a provider's cache costs now against what it is expected to save. The
// choices are no breakpoint, the usual lifetime or the longer one, both at the end of what
// conversations share (tools and system) and at the newest block. Pure arithmetic in tokens at the
// price of uncached input.
#pragma once

#include <cstdint>
#include <functional>

#include "gateway/ledger/prices.h"
#include "gateway/prompt/planner/plan_memory.h"

namespace kvgate::prompt::planner {

enum class Lifetime : uint8_t { kNone, kTtl, kLong };

struct CostArgs {
  ledger::CacheFactors factors;
  bool has_long = false;     // the longer lifetime is available
  double total_tokens = 0;   // of the request
  double stable_tokens = 0;  // up to the end of the shared part; 0: no breakpoint can stand there
  double tail_tokens = 0;    // up to the newest block; 0: no breakpoint can stand there
  double common_tokens = 0;  // shared with the conversation's next request
  // Lengths of known cache entries of this prefix.
  double readable_tokens = 0;   // now
  double kept_tokens = 0;       // still held at a next request within the usual lifetime
  double kept_long_tokens = 0;  // still held at a next request within the longer lifetime
  bool stable_is_kept = false;
  bool stable_is_kept_long = false;
  // Positions of the caller's own breakpoints: the last of all, and the last with the longer
  // lifetime.
  double callers_tokens = 0;
  double callers_long_tokens = 0;
  // The same for those that the conversation's next request will find.
  double callers_found_tokens = 0;
  double callers_found_long_tokens = 0;
  // Expectations about later requests.
  double continues = 0;     // the probability that the conversation goes on
  GapShares gaps = {};      // until the next request, if there is one
  GapShares arrivals = {};  // until another conversation uses the shared part; never: kOver
};

struct CostChoice {
  Lifetime stable = Lifetime::kNone;
  Lifetime tail = Lifetime::kNone;
  double premium = 0;         // beyond what the caller's own request would cost now
  double written_tokens = 0;  // in total, by all breakpoints
  double write_factor = 1;    // mean price of a written token
  double expected_reuse = 0;  // requests that are expected to read what this one leaves
  bool is_refused = false;    // an option was expected to pay, but the budget did not allow it
};

// Returns the option with the highest expected gain that `affords` accepts. `affords` gets an
// option's premium and the longest lifetime that it asks for.
CostChoice Choose(const CostArgs& args, const std::function<bool(double, Lifetime)>& affords);

}  // namespace kvgate::prompt::planner
