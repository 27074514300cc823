// ExplicitCaches decides which prefixes a provider is asked to keep under a name (Gemini's explicit
// caches), and for how long. Such a cache is certain to be read, but is paid by the hour; the
// provider's own one costs nothing and may miss.
//
// What pays is decided by what was seen: how many tokens of a prefix its requests had to pay in
// full although it had been sent before. If a cache that lives as long as that took would have cost
// less than was lost, one is asked for; it is prolonged while its reads pay for the next while, and
// else expires. Where the provider's own cache hits, as in a conversation that goes on, nothing is
// lost and nothing is asked for.
//
// Amounts are tokens at the price of uncached input. Thread-safe; bounded in entries.
#pragma once

#include <cstdint>
#include <deque>
#include <list>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>

#include "base/ids.h"
#include "gateway/ledger/prices.h"

namespace kvgate::prompt::planner {

class ExplicitCaches {
 public:
  static constexpr size_t kEntriesMax = 4096;
  static constexpr int64_t kTtlSecondsMin = 300;
  static constexpr int64_t kTtlSecondsMax = 3600;
  // Whoever sees to an order gives it up before that.
  static constexpr int64_t kOrderSeconds = 150;

  // Identifies whose prefix it is, for which model of which upstream, and all of its bytes.
  using Key = PrefixDigest;

  struct Arrival {
    Key key;
    int64_t num_bytes = 0;  // of the prefix
    const ledger::PriceRow& row;
    int64_t now_us = 0;
  };
  struct Decision {
    std::string name = {};  // of the cache that holds the prefix; empty: none does
    // A cache is to be made, or the named one prolonged, for so long; 0: neither. It is not asked
    // for again before the outcome is noted, or kOrderSeconds have passed.
    int64_t ttl_seconds = 0;
  };
  // Counts a request that begins with the prefix.
  Decision Decide(const Arrival& arrival);

  struct Answer {
    Key key;
    bool had_name = false;      // the request went out with a name
    int64_t body_bytes = 0;     // of the request as received
    int64_t input_tokens = 0;   // as the provider counts them
    int64_t cached_tokens = 0;  // of them, read from a cache
    int64_t now_us = 0;
  };
  void NoteAnswer(const Answer& answer);
  // The provider has made a cache, or prolonged it. `num_tokens` is its own count.
  void NoteKept(const Key& key, std::string name, int64_t num_tokens, int64_t expires_us);
  // It would not, and is not asked for this prefix again before `retry_us`.
  void NoteRefused(const Key& key, int64_t retry_us);
  // It does not know the name any more.
  void NoteLost(const Key& key, std::string_view name);

  size_t size() const;

 private:
  // Requests that went out without a name, in a stretch of time.
  struct Stretch {
    int64_t begin_us = 0;
    int64_t num_answers = 0;
    double lost_tokens = 0;
  };
  struct Entry {
    int64_t num_tokens = 0;  // of the prefix; 0: not known
    int64_t num_bytes = 0;
    bool is_first = true;  // nothing has been sent before that could be read
    std::deque<Stretch> seen;
    double mean_lost = 0;         // tokens per request, before the cache was made
    std::string name;             // empty: there is none
    int64_t expires_us = 0;       // of the name
    int64_t ttl_seconds = 0;      // that was asked for
    int64_t num_uses = 0;         // since it was paid for
    int64_t asked_us = 0;         // of an order without an outcome; 0: none
    int64_t not_before_us = 0;    // no order before
    std::list<Key>::iterator at;  // its place in recent_
  };
  static Stretch SumOf(const Entry& entry);
  Entry& Take(const Key& key);
  Entry* Find(const Key& key);
  static void Forget(Entry& entry);
  static void DropOld(Entry& entry, int64_t now_us);
  static int64_t TtlThatPays(const Entry& entry, const ledger::PriceRow& row, int64_t now_us);
  static bool IsToProlong(const Entry& entry, const ledger::CacheFactors& factors, int64_t now_us);

  struct Hash {
    size_t operator()(const Key& key) const;
  };
  mutable std::mutex mutex_;
  std::unordered_map<Key, Entry, Hash> entries_;
  std::list<Key> recent_;  // most recently used first
};

}  // namespace kvgate::prompt::planner
