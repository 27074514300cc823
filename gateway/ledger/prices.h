// Prices: what tokens cost and how caches behave, by provider and model: the data file prices.json
// that is built in, and the user's own in front of it. Every row names its source and date. A model
// that no row has a price for costs an unknown amount, never a made-up one. Immutable; any thread.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <kvgate/result.h>

#include "gateway/ledger/usage.h"

namespace kvgate::ledger {

// Picodollars for one token: the file's dollars for a million tokens, times 10^6.
struct TokenPrices {
  int64_t input = 0;
  int64_t output = 0;
  int64_t cache_read = 0;
  int64_t cache_write = 0;
  int64_t cache_write_1h = 0;
};

// What a request can put into its body to say where a cached prefix ends.
enum class MarkerSyntax : uint8_t {
  kNone,          // it cannot
  kCacheControl,  // Anthropic's cache_control: a prefix is written at a marker only
  kBreakpoint,    // OpenAI's prompt_cache_breakpoint
};

// What prompt_cache_key does.
enum class CacheKeyUse : uint8_t {
  kNone,     // it is not taken
  kRouting,  // requests of one key go to one machine
  kMatched,  // and entries are found only under the key that they were written with
};

// How a provider's own prompt cache behaves; 0: not known or not there.
struct CacheRules {
  int64_t minimum_tokens = 0;    // of a prefix, to be cached at all
  int64_t increment_tokens = 0;  // cached counts are multiples of it
  int64_t breakpoints_max = 0;   // explicit ones in a request
  int64_t lookback_blocks = 0;   // from a breakpoint, itself included
  int64_t ttl_seconds = 0;       // after the last use, where nothing else is asked for
  int64_t ttl_long_seconds = 0;  // the longer one that a marker can ask for
  MarkerSyntax markers = MarkerSyntax::kNone;
  bool automatic_marker = false;     // a marker for the whole request, at its top level
  bool implicit_breakpoint = false;  // the provider writes at the newest user or tool turn, unasked
  CacheKeyUse cache_key = CacheKeyUse::kNone;
  bool key_of_conversation = false;     // not shared by conversations of one prefix
  int64_t key_requests_per_minute = 0;  // above it a key spreads over machines
  int64_t key_characters_max = 0;       // a longer one is refused
  std::string conversation_header;      // names a conversation on Chat Completions, not the key
  bool unit_is_turn = false;            // only whole turns are found again
  bool tools_after_system = false;      // the order in which they are rendered
};

// Times the price of input.
struct CacheFactors {
  double read = 1;
  double write = 1;
  double write_long = 1;  // with ttl_long_seconds
};

struct PriceRow {
  std::vector<std::string> models;      // globs: * any text, ? one character
  std::optional<TokenPrices> prices;    // absent: rules and factors only
  std::optional<CacheFactors> factors;  // known also of models whose prices are not
  int64_t long_input_tokens = 0;        // above it the whole request costs …; 0: no such step
  double long_input_factor = 1;         // … its input times this
  double long_output_factor = 1;        // … and its output times this
  std::map<std::string, double> service_tiers;  // factor of the whole; an unknown tier: no price
  CacheRules rules;
  bool has_rules = false;  // it gives its own
  std::string source;
  std::string date;  // "2026-10" or "2026-10-05"
};

// In billionths of a dollar.
struct Cost {
  int64_t nanodollars = 0;
  int64_t uncached_nanodollars = 0;  // the same request if there were no cache
  friend bool operator==(const Cost&, const Cost&) = default;
};

class Prices {
 public:
  // The built-in file.
  static const Prices& Builtin();
  // The rows of `path` in front of the built-in ones; a row without rules takes those of the
  // built-in row that its first glob fits. kInvalidArgument names the file and field.
  static Result<Prices> Load(const std::filesystem::path& path);
  static Result<Prices> Parse(std::string_view json, std::string_view file_name);

  // The first row of the provider that the model fits; null: none.
  const PriceRow* Find(std::string_view provider, std::string_view model) const;
  // Of the newest file read.
  const std::string& date() const { return date_; }

 private:
  std::string date_;
  std::map<std::string, std::vector<PriceRow>, std::less<>> providers_;
};

// `tier` as the answer names it; empty: the usual one. Nothing: not known.
std::optional<Cost> CostOf(const PriceRow& row, const TokenUsage& usage, std::string_view tier);

// "*" any text, "?" one character; case counts.
bool FitsGlob(std::string_view glob, std::string_view text);

}  // namespace kvgate::ledger
