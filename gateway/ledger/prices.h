// Prices holds what tokens cost and how caches behave, by provider and model: the built-in data
// file prices.json, and the user's own rows in front of it. Every row names its source and date. A
// model without a priced row has an unknown cost, never a guessed one. Immutable; any thread may
// read it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "gateway/ledger/reply/usage.h"

namespace kvgate::ledger {

// Picodollars per token: the file's dollars per million tokens, times 10^6.
struct TokenPrices {
  int64_t input = 0;
  int64_t output = 0;
  int64_t cache_read = 0;
  int64_t cache_write = 0;
  int64_t cache_write_1h = 0;
};

// The syntax with which a request can mark the end of a cached prefix in its body.
enum class BreakpointSyntax : uint8_t {
  kNone,          // none
  kCacheControl,  // Anthropic's cache_control: prefixes are written at breakpoints only
  kBreakpoint,    // OpenAI's prompt_cache_breakpoint
};

// The effect of prompt_cache_key.
enum class CacheKeyUse : uint8_t {
  kNone,      // it is not accepted
  kRouting,   // requests with the same key go to one machine
  kMatched,   // in addition, entries are found only under the key they were written with
  kRequired,  // requests without a key are not cached
};

// The behaviour of a provider's own prompt cache; 0 means unknown or absent.
struct CacheRules {
  int64_t minimum_tokens = 0;    // the shortest prefix that is cached
  int64_t increment_tokens = 0;  // cached counts are multiples of it
  int64_t breakpoints_max = 0;   // explicit ones per request
  int64_t lookback_blocks = 0;   // counted from a breakpoint, including its own block
  // Where a lookup without lookback_blocks searches: explicit breakpoints, counted from the front
  // and from the end, and ends of turns before the newest one.
  int64_t first_breakpoints_read = 0;
  int64_t last_breakpoints_read = 0;
  int64_t earlier_turns_read = 0;
  int64_t ttl_seconds = 0;       // after the last use, by default
  int64_t ttl_long_seconds = 0;  // the longer one that a breakpoint can ask for
  BreakpointSyntax breakpoints = BreakpointSyntax::kNone;
  bool automatic_breakpoint = false;  // one breakpoint for the whole request, at its top level
  bool implicit_breakpoint = false;   // the provider also writes at the newest user or tool turn
  CacheKeyUse cache_key = CacheKeyUse::kNone;
  bool key_of_conversation = false;     // one key per conversation, not per shared prefix
  int64_t key_requests_per_minute = 0;  // above this rate, a key is spread over machines
  int64_t key_characters_max = 0;       // a longer key is refused
  std::string conversation_header;      // header that replaces the key on Chat Completions
  bool unit_is_turn = false;            // only prefixes that end with a turn are found
  bool tools_after_system = false;      // render order of the prompt
};

// A turn of the system's own that a model takes behind a turn of tool results.
enum class SystemTurn : uint8_t {
  kNone,       // none, or it is not known
  kDeveloper,  // OpenAI's item of the role developer
  kPlain,      // Anthropic's message of the role system
  kClearAt,    // in addition, one that is shown until the next user message only (a beta)
};

// Prices as multiples of the input price.
struct CacheFactors {
  double read = 1;
  double write = 1;
  double write_long = 1;  // with ttl_long_seconds
  // An hour of keeping a token in a cache that was made under a name; 0: there are no such caches.
  double rent_hour = 0;
};

struct PriceRow {
  std::vector<std::string> models;      // globs: * any text, ? one character
  std::optional<TokenPrices> prices;    // absent: rules and factors only
  std::optional<CacheFactors> factors;  // may be known although prices are not
  int64_t long_input_tokens = 0;  // above it, the factors below apply to the whole request; 0: none
  double long_input_factor = 1;   // for input
  double long_output_factor = 1;  // for output
  int64_t context_tokens = 0;     // of prompt and answer together; 0: not known
  std::map<std::string, double> service_tiers;  // factor by tier; an unlisted tier has no price
  CacheRules rules;
  bool has_rules = false;  // the row has its own rules
  // Its models bind the signature of thinking to everything in front of it: a changed prefix is an
  // error while the request holds thinking.
  bool binds_thinking = false;
  SystemTurn system_turn = SystemTurn::kNone;
  std::string source;
  std::string date;  // "2026-10" or "2026-10-05"
};

// Amounts in billionths of a dollar.
struct Cost {
  int64_t nanodollars = 0;
  int64_t uncached_nanodollars = 0;  // the same request without a cache
  // An estimate: the same request, and all before it, sent as their callers wrote them.
  int64_t direct_nanodollars = 0;
  friend bool operator==(const Cost&, const Cost&) = default;
};

class Prices {
 public:
  // The built-in file.
  static const Prices& Builtin();
  // Puts the rows of `path` in front of the built-in ones. A row without rules takes those of the
  // built-in row that matches its first glob. Fails with kInvalidArgument, which names the file and
  // field.
  static Result<Prices> Load(const std::filesystem::path& path);
  static Result<Prices> Parse(std::string_view json, std::string_view file_name);

  // Returns the provider's first row that matches the model; null if none does.
  const PriceRow* Find(std::string_view provider, std::string_view model) const;
  // The date of the file that was read last.
  const std::string& date() const { return date_; }

 private:
  std::string date_;
  std::map<std::string, std::vector<PriceRow>, std::less<>> providers_;
};

// `tier` is the name in the answer; empty means the standard tier. Returns nullopt if the cost is
// unknown. The direct cost is the same as the cost.
std::optional<Cost> CostOf(const PriceRow& row, const reply::TokenUsage& usage,
                           std::string_view tier);

// The price of keeping so many tokens in a cache that was made under a name, in nanodollars; 0 if
// it is unknown.
int64_t RentOf(const PriceRow& row, int64_t num_tokens, int64_t seconds);

// Matches "*" with any text and "?" with one character; case-sensitive.
bool FitsGlob(std::string_view glob, std::string_view text);

}  // namespace kvgate::ledger
