#include "gateway/prompt/planner/explicit_caches.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace kvgate::prompt::planner {
namespace {

constexpr int64_t kSecondUs = 1'000'000;
// What was lost is remembered for an hour, in stretches of five minutes.
constexpr int64_t kStretchUs = 300 * kSecondUs;
constexpr int64_t kWindowUs = 3600 * kSecondUs;
// What a cache is expected to save must exceed its cost by this much: the past may not come again.
constexpr double kMargin = 1.25;
// A name is not used when it may expire before the request arrives.
constexpr int64_t kFarewellUs = 10 * kSecondUs;
// Of bodies whose tokens have not been counted yet: about English text and JSON.
constexpr int64_t kBytesPerToken = 4;

double RentOf(const ledger::CacheFactors& factors, int64_t num_tokens, int64_t seconds) {
  return static_cast<double>(num_tokens) * factors.rent_hour * static_cast<double>(seconds) / 3600;
}

}  // namespace

size_t ExplicitCaches::Hash::operator()(const Key& key) const {
  size_t hash = 0;
  std::memcpy(&hash, key.bytes.data(), sizeof(hash));
  return hash;
}

ExplicitCaches::Entry& ExplicitCaches::Take(const Key& key) {
  const auto found = entries_.find(key);
  if (found != entries_.end()) {
    recent_.splice(recent_.begin(), recent_, found->second.at);
    return found->second;
  }
  if (entries_.size() >= kEntriesMax) {
    entries_.erase(recent_.back());
    recent_.pop_back();
  }
  recent_.push_front(key);
  Entry& entry = entries_[key];
  entry.at = recent_.begin();
  return entry;
}

ExplicitCaches::Entry* ExplicitCaches::Find(const Key& key) {
  const auto found = entries_.find(key);
  return found == entries_.end() ? nullptr : &found->second;
}

ExplicitCaches::Stretch ExplicitCaches::SumOf(const Entry& entry) {
  Stretch sum;
  for (const Stretch& stretch : entry.seen) {
    sum.num_answers += stretch.num_answers;
    sum.lost_tokens += stretch.lost_tokens;
  }
  return sum;
}

// What was seen before a cache was made says nothing of the time behind it.
void ExplicitCaches::Forget(Entry& entry) {
  entry.name.clear();
  entry.seen.clear();
  entry.is_first = true;
}

void ExplicitCaches::DropOld(Entry& entry, int64_t now_us) {
  if (!entry.name.empty() && now_us + kFarewellUs >= entry.expires_us) Forget(entry);
  if (entry.asked_us != 0 && now_us - entry.asked_us > kOrderSeconds * kSecondUs) {
    entry.asked_us = 0;  // it was lost with whoever was to see to it
  }
  while (!entry.seen.empty() && now_us - entry.seen.front().begin_us > kWindowUs) {
    entry.seen.pop_front();
  }
}

// Returns for how long a cache is to be made; 0 if none pays.
int64_t ExplicitCaches::TtlThatPays(const Entry& entry, const ledger::PriceRow& row,
                                    int64_t now_us) {
  if (entry.seen.empty() || entry.num_tokens < row.rules.minimum_tokens) return 0;
  const int64_t seconds =
      std::clamp((now_us - entry.seen.front().begin_us) / kSecondUs, kTtlSecondsMin,
                 kTtlSecondsMax);
  const double cost = static_cast<double>(entry.num_tokens) * row.factors->write +
                      RentOf(*row.factors, entry.num_tokens, seconds);
  const double saved = SumOf(entry).lost_tokens * (1 - row.factors->read);
  return saved >= kMargin * cost ? seconds : 0;
}

// A cache in its last quarter is prolonged if what it was read for since it was paid would pay for
// the same time again.
bool ExplicitCaches::IsToProlong(const Entry& entry, const ledger::CacheFactors& factors,
                                 int64_t now_us) {
  if (entry.expires_us - now_us > entry.ttl_seconds * kSecondUs / 4) return false;
  const double saved =
      static_cast<double>(entry.num_uses) * entry.mean_lost * (1 - factors.read);
  return saved >= kMargin * RentOf(factors, entry.num_tokens, entry.ttl_seconds);
}

ExplicitCaches::Decision ExplicitCaches::Decide(const Arrival& arrival) {
  const std::lock_guard lock(mutex_);
  Entry& entry = Take(arrival.key);
  DropOld(entry, arrival.now_us);
  entry.num_bytes = arrival.num_bytes;
  if (entry.num_tokens == 0) {
    entry.num_tokens = arrival.num_bytes / kBytesPerToken;
  }
  const bool may_ask = entry.asked_us == 0 && arrival.now_us >= entry.not_before_us;
  Decision decision{.name = entry.name};
  if (entry.name.empty()) {
    if (may_ask) decision.ttl_seconds = TtlThatPays(entry, arrival.row, arrival.now_us);
  } else {
    ++entry.num_uses;
    if (may_ask && IsToProlong(entry, *arrival.row.factors, arrival.now_us)) {
      decision.ttl_seconds = entry.ttl_seconds;
    }
  }
  if (decision.ttl_seconds > 0) {
    entry.asked_us = arrival.now_us;
    entry.ttl_seconds = decision.ttl_seconds;
  }
  return decision;
}

void ExplicitCaches::NoteAnswer(const Answer& answer) {
  const std::lock_guard lock(mutex_);
  Entry* const entry = Find(answer.key);
  // An answer to a request from before the cache says nothing of requests without one.
  if (entry == nullptr || answer.had_name || !entry->name.empty()) return;
  if (answer.body_bytes > 0 && answer.input_tokens > 0) {
    const double tokens_per_byte =
        static_cast<double>(answer.input_tokens) / static_cast<double>(answer.body_bytes);
    entry->num_tokens =
        static_cast<int64_t>(static_cast<double>(entry->num_bytes) * tokens_per_byte);
  }
  // The first one finds nothing; a cache would have to be written just so.
  const bool is_first = std::exchange(entry->is_first, false);
  const int64_t lost = std::max<int64_t>(0, entry->num_tokens - answer.cached_tokens);
  if (entry->seen.empty() || answer.now_us - entry->seen.back().begin_us > kStretchUs) {
    entry->seen.push_back({.begin_us = answer.now_us});
  }
  if (!is_first) {
    entry->seen.back().lost_tokens += static_cast<double>(lost);
    ++entry->seen.back().num_answers;
  }
}

void ExplicitCaches::NoteKept(const Key& key, std::string name, int64_t num_tokens,
                              int64_t expires_us) {
  const std::lock_guard lock(mutex_);
  Entry* const entry = Find(key);
  if (entry == nullptr) return;
  if (entry->name.empty()) {
    const Stretch sum = SumOf(*entry);
    entry->mean_lost = sum.lost_tokens / static_cast<double>(std::max<int64_t>(1, sum.num_answers));
  }
  entry->name = std::move(name);
  if (num_tokens > 0) entry->num_tokens = num_tokens;
  entry->expires_us = expires_us;
  entry->num_uses = 0;
  entry->asked_us = 0;
}

void ExplicitCaches::NoteRefused(const Key& key, int64_t retry_us) {
  const std::lock_guard lock(mutex_);
  Entry* const entry = Find(key);
  if (entry == nullptr) return;
  entry->asked_us = 0;
  entry->not_before_us = retry_us;
}

void ExplicitCaches::NoteLost(const Key& key, std::string_view name) {
  const std::lock_guard lock(mutex_);
  Entry* const entry = Find(key);
  if (entry == nullptr || entry->name != name) return;
  entry->asked_us = 0;
  Forget(*entry);
}

size_t ExplicitCaches::size() const {
  const std::lock_guard lock(mutex_);
  return entries_.size();
}

}  // namespace kvgate::prompt::planner
