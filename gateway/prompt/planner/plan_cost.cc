#include "gateway/prompt/planner/plan_cost.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <vector>

namespace kvgate::prompt::planner {
namespace {

constexpr double kReadersMax = 20;     // at most this many readers are counted on
constexpr double kWorthwhile = 0.001;  // of the request; a smaller gain justifies no breakpoint
constexpr double kMargin = 0.25;       // of the premium; the estimated gain must exceed it

// Expected number of successive requests, each of which comes in time with probability `share`.
double Chain(double share) {
  return share >= 1 ? kReadersMax : std::min(share / (1 - share), kReadersMax);
}

struct Option {
  Lifetime stable;
  Lifetime tail;
  double now = 0;
  double premium = 0;  // now, beyond the caller's own request
  double gain = 0;     // expected, after the premium
  double written = 0;
  double written_cost = 0;
};

// Positions up to which a request writes: with any lifetime, and with the longer one.
struct Ends {
  double all = 0;
  double long_ttl = 0;
};

Ends EndsOf(const CostArgs& args, Ends ends, Lifetime stable, Lifetime tail) {
  if (stable != Lifetime::kNone) ends.all = std::max(ends.all, args.stable_tokens);
  if (tail != Lifetime::kNone) ends.all = std::max(ends.all, args.tail_tokens);
  if (stable == Lifetime::kLong) ends.long_ttl = std::max(ends.long_ttl, args.stable_tokens);
  if (tail == Lifetime::kLong) ends.long_ttl = std::max(ends.long_ttl, args.tail_tokens);
  return ends;
}

// Tokens up to A, the longest hit, are read. Those up to B, the last breakpoint of the longer
// lifetime, are written for it. Those up to C, the last breakpoint, are written for the usual one;
// the rest is input.
void AddNow(const CostArgs& args, const Ends& ends, Option& option) {
  const double a = args.readable_tokens;
  const double b = std::max(ends.long_ttl, a);
  const double c = std::max(ends.all, b);
  option.written = c - a;
  option.written_cost = args.factors.write_long * (b - a) + args.factors.write * (c - b);
  option.now = args.factors.read * a + option.written_cost + (args.total_tokens - c);
}

// Returns what the conversation's next request is expected to pay for the known tokens. `missed` is
// the price of a token that it does not find in the cache.
double NextOfConversation(const CostArgs& args, const Ends& ends, double missed) {
  const auto& [within_ttl, within_long, over] = args.gaps;
  const double common = std::max({args.common_tokens, ends.all, args.kept_tokens});
  const auto cost = [&](double hit) { return args.factors.read * hit + missed * (common - hit); };
  return args.continues *
         (within_ttl * cost(std::max(ends.all, args.kept_tokens)) +
          within_long * cost(std::max(ends.long_ttl, args.kept_long_tokens)) + over * cost(0));
}

// A token that misses is paid for as input, or is written again, which is more likely the longer
// the conversation goes on. It is written for the longer lifetime only if more gaps need that one.
double MissedToken(const CostArgs& args, Lifetime longest) {
  const bool is_long = longest == Lifetime::kLong && args.gaps[1] > args.gaps[0];
  return 1 + args.continues * ((is_long ? args.factors.write_long : args.factors.write) - 1);
}

// A breakpoint on a known entry, or in front of one that is read, writes nothing.
bool WritesStable(const CostArgs& args) {
  return !args.stable_is_kept && args.stable_tokens > args.readable_tokens;
}

double ReadersOfStable(const CostArgs& args, Lifetime stable) {
  const bool is_written = stable != Lifetime::kNone && WritesStable(args);
  const bool is_long = is_written ? stable == Lifetime::kLong : args.stable_is_kept_long;
  if (!is_written && !args.stable_is_kept) return 0;
  return Chain(args.arrivals[0] + (is_long ? args.arrivals[1] : 0));
}

Option Evaluate(const CostArgs& args, Lifetime stable, Lifetime tail) {
  const Ends callers{.all = args.callers_tokens, .long_ttl = args.callers_long_tokens};
  const Ends found{.all = args.callers_found_tokens, .long_ttl = args.callers_found_long_tokens};
  const double missed = MissedToken(args, std::max(stable, tail));
  Option option{.stable = stable, .tail = tail};
  AddNow(args, EndsOf(args, callers, stable, tail), option);
  Option none;
  AddNow(args, callers, none);
  const double saved = NextOfConversation(args, found, missed) -
                       NextOfConversation(args, EndsOf(args, found, stable, tail), missed);
  const double readers = ReadersOfStable(args, stable) - ReadersOfStable(args, Lifetime::kNone);
  option.premium = option.now - none.now;
  option.gain = saved + readers * (1 - args.factors.read) * args.stable_tokens - option.premium;
  return option;
}

std::vector<Option> AllOptions(const CostArgs& args) {
  std::vector<Option> options;
  for (const Lifetime tail : {Lifetime::kNone, Lifetime::kTtl, Lifetime::kLong}) {
    if (tail != Lifetime::kNone && args.tail_tokens == 0) continue;
    if (tail == Lifetime::kLong && !args.has_long) continue;
    for (const Lifetime stable : {Lifetime::kNone, Lifetime::kTtl, Lifetime::kLong}) {
      if (stable == Lifetime::kLong && !args.has_long) continue;
      if ((stable != Lifetime::kNone) && args.stable_tokens == 0) continue;
      // The shared part is written with the tail in any case, and a longer ttl must stand first.
      if (args.stable_tokens > 0 && stable < tail) continue;
      // A part that is not written keeps its lifetime, whatever its breakpoint says.
      if (!WritesStable(args) && stable == Lifetime::kLong && tail != Lifetime::kLong) continue;
      options.push_back(Evaluate(args, stable, tail));
    }
  }
  return options;
}

}  // namespace

CostChoice Choose(const CostArgs& args, const std::function<bool(double, Lifetime)>& affords) {
  std::vector<Option> options = AllOptions(args);
  std::ranges::stable_sort(options, std::ranges::greater(), &Option::gain);
  CostChoice choice;
  const Option* chosen = nullptr;
  double refused = std::numeric_limits<double>::infinity();
  for (const Option& option : options) {
    const bool is_none = option.stable == Lifetime::kNone && option.tail == Lifetime::kNone;
    const double risk = std::max(0.0, kMargin * option.premium);
    if (!is_none && option.gain < std::max(risk, kWorthwhile * args.total_tokens)) continue;
    if (option.premium >= refused) continue;
    if (is_none || option.premium <= 0 ||
        affords(option.premium, std::max(option.stable, option.tail))) {
      chosen = &option;
      break;
    }
    choice.is_refused = true;
    refused = option.premium;  // options that risk more are not tried either
  }
  choice.stable = chosen->stable;
  choice.tail = chosen->tail;
  choice.premium = chosen->premium;
  choice.written_tokens = chosen->written;
  if (chosen->written > 0) choice.write_factor = chosen->written_cost / chosen->written;
  const bool is_long = chosen->tail == Lifetime::kLong;
  const double covered = args.gaps[0] + (is_long ? args.gaps[1] : 0);
  choice.expected_reuse =
      args.continues * covered +
      Chain(args.arrivals[0] + (chosen->stable == Lifetime::kLong ? args.arrivals[1] : 0));
  return choice;
}

}  // namespace kvgate::prompt::planner
