#include "gateway/runtime/limits/shared_rates.h"

#include <algorithm>
#include <utility>

#include "base/digest.h"
#include "base/ids.h"

namespace kvgate::runtime::limits {
namespace {

using store::shared::SharedSums;

constexpr std::string_view kKind = "minute";
// A bucket that nobody adds to is empty by then, or its limit is far overdrawn.
constexpr std::chrono::minutes kActive{2};
constexpr std::chrono::hours kKept{2};
constexpr double kMinuteUs = 60e6;
constexpr double kEndedUs = 3600e6;  // a field that says nothing for so long has ended

// Requests, tokens, how full both buckets are, and when that was.
enum Value : size_t { kRequests, kTokens, kRequestLevel, kTokenLevel, kTimeUs, kNumValues };

std::string NewId() { return ToHex(RandomSeed(), RandomSeed()); }

double Drained(double level, int64_t per_minute, double age_us) {
  return std::max(0.0, level - static_cast<double>(per_minute) * age_us / kMinuteUs);
}

}  // namespace

void SharedRates::ComeIn(State& state) const {
  state.field = sums_.FieldOf(NewId());
  state.counts = {};
  state.is_said = false;
  state.is_in_touch = false;
  state.looked_at = now_;
  state.seen.clear();
  state.ended.clear();
}

void SharedRates::Collect(const access::GatewayKeys& keys, std::vector<SharedSums::Own>& own) {
  now_ = SteadyClock::now();
  now_us_ = WallClock::NowUs();
  due_.clear();
  std::map<std::string, State, std::less<>> states;
  states.swap(states_);  // those of keys that are gone end here
  for (const auto& key : keys.all()) {
    if (!key->is_limited()) continue;
    const Key::Taken taken = key->Take();
    auto node = states.extract(key->name());
    const bool is_new = node.empty();
    // An answer may end long after its request.
    const bool is_used = taken.was_asked || taken.counts.tokens > 0;
    if (is_new && !is_used) continue;
    State& state = is_new ? states_[key->name()] : states_.insert(std::move(node)).position->second;
    if (is_new || now_ - state.looked_at > kLostTouch) ComeIn(state);
    if (is_used) state.used_at = now_;
    if (now_ - state.used_at > kActive) {
      states_.erase(key->name());
      continue;
    }
    // What was admitted while nobody could be reached is in no bucket but the own one.
    if (!state.is_in_touch) state.counts = {};
    state.counts.requests += taken.counts.requests;
    state.counts.tokens += taken.counts.tokens;
    const Counts levels = key->Levels(now_);
    const bool is_same = state.is_said && state.said.requests == state.counts.requests &&
                         state.said.tokens == state.counts.tokens;
    own.push_back({.kind = kKind,
                   .tenant = key->name(),
                   .field = state.field,
                   .values = {state.counts.requests, state.counts.tokens, levels.requests,
                              levels.tokens, static_cast<double>(now_us_)},
                   .is_said = !is_same,
                   .time_to_live = kKept,
                   .removed = std::exchange(state.ended, {})});
    due_.push_back({.key = key.get(), .state = &state, .counts = state.counts});
  }
}

void SharedRates::Take(std::span<const SharedSums::Others> said) {
  for (size_t i = 0; i < due_.size() && i < said.size(); ++i) {
    State& state = *due_[i].state;
    state.said = due_[i].counts;
    state.is_said = said[i].has_own;  // a store that has forgotten it is told again
    TakeOf(*due_[i].key, state, said[i]);
    state.is_in_touch = true;
    state.looked_at = now_;
  }
  due_.clear();
}

// A field that appears between two looks has counted since the first of them. A counter that went
// back is one that the store had from a copy: it counts from there.
void SharedRates::TakeOf(Key& key, State& state, const SharedSums::Others& others) const {
  Counts added;
  Counts levels;
  for (const SharedSums::Other& other : others.others) {
    if (other.values.size() != kNumValues) continue;
    const double age_us = std::max(0.0, static_cast<double>(now_us_) - other.values[kTimeUs]);
    if (age_us > kEndedUs) {
      state.ended.push_back(other.field);
      state.seen.erase(other.field);
      continue;
    }
    const auto [seen, is_new] = state.seen.try_emplace(other.field);
    if (is_new) {
      const config::KeyConfig& config = key.config();
      levels.requests = std::max(levels.requests, Drained(other.values[kRequestLevel],
                                                          config.requests_per_minute, age_us));
      levels.tokens = std::max(
          levels.tokens, Drained(other.values[kTokenLevel], config.tokens_per_minute, age_us));
    }
    if (!is_new || state.is_in_touch) {
      added.requests += std::max(0.0, other.values[kRequests] - seen->second.requests);
      added.tokens += std::max(0.0, other.values[kTokens] - seen->second.tokens);
    }
    seen->second = {.requests = other.values[kRequests], .tokens = other.values[kTokens]};
  }
  key.AddOthers(added, now_);
  // What was admitted here since it came in is in no level of the others yet.
  if (!state.is_in_touch) {
    levels.requests += state.counts.requests;
    levels.tokens += state.counts.tokens;
  }
  key.RaiseTo(levels, now_);
  // Whoever comes in next hears how full the buckets are now.
  if (!state.is_in_touch || added.requests > 0 || added.tokens > 0) state.is_said = false;
}

}  // namespace kvgate::runtime::limits
