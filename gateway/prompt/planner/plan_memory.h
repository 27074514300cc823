// Records of what the planner has learnt about a conversation, a shape of prefix, and all traffic
// of one kind. They are plain values with their own arithmetic; the owner locks. Times are in
// microseconds, tokens as the provider counts them, money in tokens at the price of uncached input.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "gateway/prompt/parse/segment.h"
#include "gateway/prompt/planner/plan_stability.h"

namespace kvgate::prompt::planner {

// The time until the next request, compared with the provider's cache lifetimes.
enum class Gap : uint8_t { kWithinTtl, kWithinLong, kOver };
inline constexpr size_t kNumGaps = 3;

// Observed gaps, weighted so that older ones count less.
class GapCounts {
 public:
  void Add(Gap gap, double keep);  // first multiplies all earlier counts by `keep`
  const std::array<double, kNumGaps>& counts() const { return counts_; }
  double total() const { return counts_[0] + counts_[1] + counts_[2]; }

 private:
  std::array<double, kNumGaps> counts_ = {};
};

// The share of each gap; the shares sum to 1. Blend adds weighted counts to a prior and normalises.
using GapShares = std::array<double, kNumGaps>;
struct WeightedGaps {
  const GapCounts& gaps;
  double weight;
};
GapShares Blend(const GapShares& prior, std::initializer_list<WeightedGaps> evidence);

// Counts how many requests were followed by another one of their conversation. A request without a
// successor is open; the older it is, the more it counts as the end of its conversation.
class ReuseCounts {
 public:
  void Issue(int64_t now_us);
  void Return(int64_t issued_us, int64_t now_us);
  void Withdraw(int64_t issued_us);  // for a request that was never answered
  // Returns the share of requests that are followed; `prior` counts like `weight` requests.
  double Share(double prior, double weight, int64_t now_us) const;

 private:
  double OpenAt(int64_t now_us) const;

  double issued_ = 0;
  double returned_ = 0;
  double open_ = 0;  // decayed number of open requests at open_us_
  int64_t open_us_ = 0;
};

// The cost of cache writes beyond the plain price, less what cache reads have saved.
struct Account {
  double loss = 0;
  double direct = 0;  // what all requests would have cost without a cache
  double num_requests = 0;

  void Send(double premium, double total_tokens);
  void Unsend(double premium, double total_tokens);
  // Past gains say nothing of the future once a prefix has changed.
  void ForgetGains() { loss = std::max(loss, 0.0); }
  // Credits a read. The surplus is limited to a few requests, because past gains say little of the
  // future.
  void Save(double saved, double total_tokens);
  // Returns true if a request of `total_tokens` may cost `premium` more: the loss then stays within
  // `num_lost` requests of mean size plus `surplus`, or within a fixed share of all traffic.
  struct Bound {
    double num_lost = 0;
    double surplus = 0;
  };
  bool Affords(double premium, double total_tokens, const Bound& bound) const;
};

// A prefix that the provider is believed to hold.
struct CacheEntry {
  parse::Identity prefix;
  double tokens = 0;  // estimated from its bytes, not scaled
  int64_t ttl_us = 0;
  int64_t written_us = 0;
  int64_t readable_us = 0;  // its answer is expected to have begun by then
  int64_t expires_us = 0;
  bool is_confirmed = false;  // an answer has reported it as cached

  bool IsAlive(int64_t now_us) const { return now_us < expires_us; }
  bool IsReadable(int64_t now_us) const { return IsAlive(now_us) && now_us >= readable_us; }
};

// Adds `entry`, or merges it into the known entry of the same prefix; a living one keeps the longer
// lifetime. Beyond `entries_max` entries, the one that expires first is evicted.
void Remember(std::vector<CacheEntry>& entries, const CacheEntry& entry, size_t entries_max);

// Requests of the last minute, by exponential decay.
struct RateMeter {
  double count = 0;
  int64_t last_us = 0;
  double At(int64_t now_us) const;
  void Add(int64_t now_us);
};

// A request whose answer is not known yet.
struct SentPlan {
  uint64_t id = 0;
  bool is_callers = false;  // the caller set breakpoints: the writes are not the planner's doing
  int64_t time_us = 0;
  double premium = 0;           // charged to the accounts
  double written_tokens = 0;    // expected, scaled
  double read_tokens = 0;       // expected, scaled
  parse::Identity read_prefix;  // of the entry that is expected to be read
  double total_tokens = 0;      // scaled
  double write_factor = 1;      // price of a written token
  double read_factor = 1;
  bool expects_earned = false;  // the last earned write is among what is expected to be read
};

struct PlannedConversation {
  parse::Identity target;  // upstream and model, to which the entries belong
  parse::Identity shape;
  parse::Identity group;
  int64_t num_requests = 0;
  int64_t last_us = 0;
  GapCounts gaps;
  Account account;
  Stability stability;
  std::vector<CacheEntry> entries;
  std::vector<uint64_t> volatile_prefixes;      // of the last request, up to each volatile segment
  std::vector<uint64_t> new_volatile_prefixes;  // those that the request before did not have
  uint32_t num_settled = 0;                     // new prefixes that came again unchanged
  uint32_t num_vanished = 0;                    // new prefixes that did not
  bool is_key_decided = false;
  size_t shard = 0;  // of its shape's requests
  std::string key;
  std::vector<SentPlan> open;  // unanswered requests, newest last
};

struct ShapeMemory {
  int64_t last_us = 0;
  int64_t burst_us = 0;  // start of the current burst, too short to read each other's entries
  GapCounts gaps;        // between requests of one conversation
  GapCounts arrivals;    // between first requests of different conversations
  ReuseCounts first;     // of first requests
  ReuseCounts later;     // of all others
  Account account;
  std::vector<CacheEntry> entries;  // prefixes within tools and system
  std::vector<RateMeter> shards;
};

// Totals over all shapes of one tenant, upstream, model and kind of request.
struct GroupMemory {
  ReuseCounts first;
  ReuseCounts later;
  Account account;
};

}  // namespace kvgate::prompt::planner
