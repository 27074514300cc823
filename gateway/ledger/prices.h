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

// How a provider's own prompt cache behaves; 0: not known or not there.
struct CacheRules {
  int64_t minimum_tokens = 0;    // of a prefix, to be cached at all
  int64_t increment_tokens = 0;  // cached counts are multiples of it
  int64_t breakpoints_max = 0;   // explicit ones in a request
  int64_t lookback_blocks = 0;   // from a breakpoint, itself included
  int64_t ttl_seconds = 0;       // after the last use, where nothing else is asked for
};

struct PriceRow {
  std::vector<std::string> models;    // globs: * any text, ? one character
  std::optional<TokenPrices> prices;  // absent: rules only
  int64_t long_input_tokens = 0;      // above it the whole request costs …; 0: no such step
  double long_input_factor = 1;       // … its input times this
  double long_output_factor = 1;      // … and its output times this
  std::map<std::string, double> service_tiers;  // factor of the whole; an unknown tier: no price
  CacheRules rules;
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
  // The rows of `path` in front of the built-in ones. kInvalidArgument names the file and field.
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
