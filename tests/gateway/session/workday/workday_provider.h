// A WorkdayProvider is the provider of one team: its prompt cache by the documented rules
// (replay::CacheModel), its prices, and what all of that came to. It also says if what never
// changes in a team's prompts, its tools and its system prompt, was sent in vain: billed again
// while an entry of just that was alive.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "gateway/ledger/prices.h"
#include "gateway/replay/cache_model.h"
#include "gateway/replay/rendering.h"
#include "tests/gateway/session/workday/workday_script.h"

namespace kvgate::session::workday {

inline constexpr std::string_view kProvider = "anthropic";
inline constexpr std::string_view kModel = "claude-opus-5";
inline constexpr auto kEndpoint = dialect::form::Endpoint::kMessages;
inline constexpr int64_t kContext = 200'000;    // tokens
inline constexpr int64_t kThreshold = 100'000;  // tokens, at which each way does something
inline constexpr int64_t kSummaryTokens = 1'500;
inline constexpr int64_t kSummaryTime = 25 * kSecond;
inline constexpr int64_t kFirstByte = 2 * kSecond;

// What a way has taken, over all its agents.
struct Bill {
  int64_t num_requests = 0;
  int64_t num_refused = 0;
  int64_t num_compactions = 0;  // prompts that were made shorter
  int64_t num_summaries = 0;    // requests for one
  int64_t num_warm = 0;         // of those, asked while the prefix was alive
  ledger::reply::TokenUsage usage = {};
  int64_t warm_known = 0;  // tokens of what those begin with that was sent before
  int64_t warm_read = 0;
  int64_t stable_cold = 0;     // tokens of tools and system that were billed without an entry
  int64_t stable_in_vain = 0;  // and beside a living one
  int64_t num_alone = 0;       // requests while an agent's user was at lunch, or gone
  int64_t return_written = 0;  // tokens written by the first request after lunch
  int64_t nanodollars = 0;

  int64_t input() const { return usage.input_tokens(); }
  double cached_share() const { return Share(usage.cache_read_tokens, input()); }
  double warm_share() const { return Share(warm_read, warm_known); }
  double dollars() const { return static_cast<double>(nanodollars) / 1e9; }
  static double Share(int64_t part, int64_t whole) {
    return whole == 0 ? 0 : static_cast<double>(part) / static_cast<double>(whole);
  }
  void Add(const Bill& other) {
    num_requests += other.num_requests;
    num_refused += other.num_refused;
    num_compactions += other.num_compactions;
    num_summaries += other.num_summaries;
    num_warm += other.num_warm;
    usage.uncached_tokens += other.usage.uncached_tokens;
    usage.cache_read_tokens += other.usage.cache_read_tokens;
    usage.cache_write_tokens += other.usage.cache_write_tokens;
    usage.cache_write_1h_tokens += other.usage.cache_write_1h_tokens;
    usage.output_tokens += other.usage.output_tokens;
    warm_known += other.warm_known;
    warm_read += other.warm_read;
    stable_cold += other.stable_cold;
    stable_in_vain += other.stable_in_vain;
    num_alone += other.num_alone;
    return_written += other.return_written;
    nanodollars += other.nanodollars;
  }
};

// Tokens of a body, as all ways count them.
inline int64_t TokensOf(std::string_view body) { return replay::CountTokens(body.size()); }

class WorkdayProvider {
 public:
  // `body` is any request of the team's.
  explicit WorkdayProvider(std::string_view body) : row_(RowOf()) {
    const Result<replay::Rendering> prompt = replay::Render(kEndpoint, body);
    EXPECT_TRUE(prompt);
    for (const replay::Item& item : prompt->items) {
      if (item.part != replay::Part::kMessages) stable_tokens_ += item.num_tokens();
    }
  }

  struct Request {
    int64_t now_us = 0;
    std::string_view body;
    int64_t output_tokens = 0;
    bool is_summary = false;
    int64_t num_warm = 0;    // a summary's: tokens that were sent before, and are alive
    bool is_alone = false;   // nobody waits for it: its agent's user is at lunch, or gone
    bool is_return = false;  // it is the first one after lunch
    bool has_front = true;   // it begins with the team's tools and system
  };
  ledger::reply::TokenUsage Ask(const Request& request) {
    const replay::SimulatedAnswer answer = cache_->Ask({.time_us = request.now_us,
                                                        .first_byte_us = kFirstByte,
                                                        .credential = "team",
                                                        .endpoint = kEndpoint,
                                                        .body = request.body,
                                                        .output_tokens = request.output_tokens});
    ++bill.num_requests;
    if (!answer.refusal.empty()) {
      ++bill.num_refused;
      ADD_FAILURE() << answer.refusal;
      return {};
    }
    const ledger::reply::TokenUsage& usage = answer.usage;
    const std::optional<ledger::Cost> cost = ledger::CostOf(row_, usage, "");
    EXPECT_TRUE(cost) << "the model has no price";
    Bill one{.num_summaries = request.is_summary ? 1 : 0,
             .num_warm = request.num_warm > 0 ? 1 : 0,
             .usage = usage,
             .warm_known = request.num_warm,
             .warm_read = request.num_warm > 0 ? usage.cache_read_tokens : 0,
             .num_alone = request.is_alone ? 1 : 0,
             .return_written =
                 request.is_return ? usage.cache_write_tokens + usage.cache_write_1h_tokens : 0,
             .nanodollars = cost->nanodollars};
    if (request.has_front) NoteStable(request.now_us, usage, one);
    bill.Add(one);
    return usage;
  }

  Bill bill;

 private:
  static const ledger::PriceRow& RowOf() {
    return *ledger::Prices::Builtin().Find(kProvider, kModel);
  }
  // The cache has an entry of the stable part alone, which lives on where it is what was read.
  void NoteStable(int64_t now_us, const ledger::reply::TokenUsage& usage, Bill& one) {
    const int64_t billed = stable_tokens_ - usage.cache_read_tokens;
    const bool is_there = now_us < stable_until_;
    const bool is_read = is_there && now_us >= stable_from_;
    if (billed > 0) (is_read ? one.stable_in_vain : one.stable_cold) += billed;
    // What is written can be read once its answer begins.
    if (billed > 0 && !is_there) stable_from_ = now_us + kFirstByte;
    if (billed >= 0) {
      const int64_t ttl = usage.cache_write_1h_tokens > 0 && billed > 0
                              ? row_.rules.ttl_long_seconds
                              : row_.rules.ttl_seconds;
      stable_until_ = std::max(stable_until_, now_us + ttl * kSecond);
    }
  }

  const ledger::PriceRow& row_;
  const std::unique_ptr<replay::CacheModel> cache_ =
      replay::CacheModel::Make({.provider = std::string(kProvider)});
  int64_t stable_tokens_ = 0;
  int64_t stable_from_ = 0;   // an entry of the stable part can be read
  int64_t stable_until_ = 0;  // and is alive
};

}  // namespace kvgate::session::workday
