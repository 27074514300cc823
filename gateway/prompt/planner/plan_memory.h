// What the planner has learnt: of a conversation, of a shape of prefix, of all traffic of one kind.
// Plain values with their own arithmetic; whoever holds them locks. Times in microseconds, tokens
// as the provider counts them, money in tokens at the price of uncached input.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <list>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "gateway/prompt/parse/segment.h"

namespace kvgate::prompt {

// How long it takes until the next request, against the provider's lifetimes.
enum class Gap : uint8_t { kWithinTtl, kWithinLong, kOver };
inline constexpr size_t kNumGaps = 3;

// Observed gaps; what lies further back counts less.
class GapCounts {
 public:
  void Add(Gap gap, double keep);  // all before it are multiplied by `keep`
  const std::array<double, kNumGaps>& counts() const { return counts_; }
  double total() const { return counts_[0] + counts_[1] + counts_[2]; }

 private:
  std::array<double, kNumGaps> counts_ = {};
};

// The share of each gap, a sum of counts with their weights over a prior; sums to 1.
using GapShares = std::array<double, kNumGaps>;
struct WeightedGaps {
  const GapCounts& gaps;
  double weight;
};
GapShares Blend(const GapShares& prior, std::initializer_list<WeightedGaps> evidence);

// How many requests were followed by another one of their conversation. One that is not yet
// followed is open: it counts as the end of its conversation the more, the longer it is ago.
class ReuseCounts {
 public:
  void Issue(int64_t now_us);
  void Return(int64_t issued_us, int64_t now_us);
  void Withdraw(int64_t issued_us);  // it was never answered
  // The share that is followed, `weight` requests of `prior` among them.
  double Share(double prior, double weight, int64_t now_us) const;

 private:
  double OpenAt(int64_t now_us) const;

  double issued_ = 0;
  double returned_ = 0;
  double open_ = 0;  // as of open_us_
  int64_t open_us_ = 0;
};

// What was paid for writing beyond the plain price, less what reading has saved.
struct Account {
  double loss = 0;
  double direct = 0;  // what all of it would have cost without a cache
  double num_requests = 0;

  void Send(double premium, double total_tokens);
  void Unsend(double premium, double total_tokens);
  // A surplus is worth a few requests at most: what once paid says little of what comes.
  void Save(double saved, double total_tokens);
  // Whether a request of `total_tokens` may cost `premium` more: the loss then stays within
  // `num_lost` requests of the mean size and `surplus`, or within a fixed share of all traffic.
  struct Bound {
    double num_lost = 0;
    double surplus = 0;
  };
  bool Affords(double premium, double total_tokens, const Bound& bound) const;
};

// A prefix that the provider is believed to hold.
struct CacheEntry {
  Identity prefix;
  double tokens = 0;  // as estimated from its bytes, not scaled
  int64_t ttl_us = 0;
  int64_t written_us = 0;
  int64_t readable_us = 0;  // an answer has begun by then
  int64_t expires_us = 0;
  bool is_confirmed = false;  // an answer has reported it

  bool IsAlive(int64_t now_us) const { return now_us < expires_us; }
  bool IsReadable(int64_t now_us) const { return IsAlive(now_us) && now_us >= readable_us; }
};

// Adds, or puts in place of what is known of that prefix; at most `entries_max`, the one that ends
// first goes. One that can still be read keeps its longer life.
void Remember(std::vector<CacheEntry>& entries, const CacheEntry& entry, size_t entries_max);

// Requests of the last minute, by exponential decay.
struct RateMeter {
  double count = 0;
  int64_t last_us = 0;
  double At(int64_t now_us) const;
  void Add(int64_t now_us);
};

// The last request of a conversation, until its answer is known.
struct SentPlan {
  bool is_open = false;
  bool is_callers = false;  // the caller marked it: what is written is not the planner's doing
  int64_t time_us = 0;
  double premium = 0;         // charged for it
  double written_tokens = 0;  // expected, scaled
  double read_tokens = 0;     // expected, scaled
  Identity read_prefix;       // of the entry that they are of
  double total_tokens = 0;    // scaled
  double write_factor = 1;    // of what is written
  double read_factor = 1;
};

struct PlannedConversation {
  Identity target;  // upstream and model: entries are of one of them
  Identity shape;
  Identity group;
  int64_t num_requests = 0;
  int64_t last_us = 0;
  GapCounts gaps;
  Account account;
  std::vector<CacheEntry> entries;
  std::vector<uint64_t> volatile_prefixes;      // of the request before, up to volatile segments
  std::vector<uint64_t> new_volatile_prefixes;  // of them, those that it was the first with
  uint32_t num_settled = 0;                     // new ones that came again as they were
  uint32_t num_vanished = 0;                    // and that did not
  bool is_key_decided = false;
  bool is_key_shared = false;  // with other conversations of its shape
  std::string key;
  double reported_tokens = 0;  // of its largest request
  SentPlan sent;
};

struct ShapeMemory {
  int64_t last_us = 0;
  int64_t burst_us = 0;  // of the first of those that came too soon to read each other's entries
  GapCounts gaps;        // between the requests of one conversation
  GapCounts arrivals;    // before the first request of another conversation
  ReuseCounts first;     // of first requests
  ReuseCounts later;     // of all others
  Account account;
  std::vector<CacheEntry> entries;  // of tools and system
  std::vector<RateMeter> shards;
};

// All shapes of one tenant, upstream, model and kind of request.
struct GroupMemory {
  ReuseCounts first;
  ReuseCounts later;
  Account account;
};

// A bounded map: what was not asked for longest goes first.
template <typename Value>
class LruMap {
 public:
  explicit LruMap(size_t max) : max_(std::max<size_t>(max, 1)) {}

  Value* Find(const Identity& key) {
    const auto found = index_.find(key);
    if (found == index_.end()) return nullptr;
    order_.splice(order_.begin(), order_, found->second);
    return &found->second->second;
  }
  const Value* Peek(const Identity& key) const {
    const auto found = index_.find(key);
    return found == index_.end() ? nullptr : &found->second->second;
  }
  Value& FindOrAdd(const Identity& key) {
    if (Value* value = Find(key)) return *value;
    order_.emplace_front(key, Value());
    index_[key] = order_.begin();
    if (order_.size() > max_) {
      index_.erase(order_.back().first);
      order_.pop_back();
    }
    return order_.front().second;
  }
  size_t size() const { return order_.size(); }

 private:
  const size_t max_;
  std::list<std::pair<Identity, Value>> order_;
  std::unordered_map<Identity, typename std::list<std::pair<Identity, Value>>::iterator> index_;
};

}  // namespace kvgate::prompt
