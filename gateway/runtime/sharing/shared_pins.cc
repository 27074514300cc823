#include "gateway/runtime/sharing/shared_pins.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "base/digest.h"
#include "base/log.h"

namespace kvgate::runtime::sharing {
namespace {

using store::meta::Pin;
using store::meta::RemovedPin;
using store::shared::SharedMap;
using State = SharedMap::Value::State;

constexpr std::string_view kSource = "sharing.pins";
constexpr size_t kChangesAtOnce = 16;
constexpr size_t kRenewedAtOnce = 512;
// Times that something is said again because another gateway was faster.
constexpr int kAttemptsMax = 4;

// Names a pin in the log, without a word of its prompt.
std::string IdOf(const std::string& prefix) {
  const auto* const bytes = reinterpret_cast<const uint8_t*>(prefix.data());
  return ToHex(std::span(bytes, std::min<size_t>(prefix.size(), 8)));
}

}  // namespace

void SharedPins::Exchange() {
  if (parts_.map.is_paused()) return;
  const TimePoint end = SteadyClock::now() + options_.round_time_max;
  for (const auto& [prefix, removed] : std::map(unapplied_)) {
    ApplyRemoval({.prefix = prefix, .changed_us = removed.removed_us, .is_removed = true},
                 removed.tenant);
  }
  if (!TakeIn(end)) return;
  if (!SayAll(end)) return;
  if (SteadyClock::now() - renewed_at_ < options_.renewed) return;
  renewed_at_ = SteadyClock::now();
  Renew();
}

// A store in another life has forgotten what was known to stand there.
Result<void> SharedPins::TakeIn(TimePoint end) {
  for (bool has_more = true; has_more && SteadyClock::now() < end;) {
    KVGATE_TRY(const SharedMap::Changes changes,
               parts_.map.ChangedSince(position_, kChangesAtOnce, CallDeadline()));
    if (changes.position.life != position_.life) known_.clear();
    for (size_t at = 0; at < changes.keys.size(); at += options_.read_at_once) {
      const size_t count = std::min(options_.read_at_once, changes.keys.size() - at);
      KVGATE_TRY_VOID(ReadValues(std::span(changes.keys).subspan(at, count)));
    }
    position_ = changes.position;
    has_more = changes.has_more;
  }
  return {};
}

Result<void> SharedPins::ReadValues(std::span<const std::string> keys) {
  KVGATE_TRY(const std::vector<Value> values, parts_.map.Get(keys, CallDeadline()));
  for (size_t i = 0; i < keys.size(); ++i) Apply(keys[i], values[i]);
  return {};
}

void SharedPins::Apply(const std::string& key, const Value& value) {
  if (value.state == State::kAbsent) {
    known_.erase(key);
    return;
  }
  Result<SharedPin> shared = MakeError(ErrorCode::kDataLoss, kSource, "it does not open");
  if (value.state == State::kThere) shared = DecodeSharedPin(value.bytes);
  if (shared && key != parts_.map.KeyOf({.tenant = value.tenant, .name = shared->prefix})) {
    shared = MakeError(ErrorCode::kDataLoss, kSource, "it is another one's");
  }
  if (!shared) {
    // Who has what should stand in the place of a damaged one says it again.
    const bool is_foreign =
        value.state == State::kForeign || shared.error().code == ErrorCode::kUnsupported;
    known_[key] = {.is_left = is_foreign};
    if (num_unread_.fetch_add(1) == 0) {
      KVGATE_LOG(kWarning, kSource,
                 "a pin in the shared store cannot be read ({}); others are not "
                 "logged, kvgate_shared_pins_unread_total counts them",
                 is_foreign ? "of another secret or version" : "damaged");
    }
    return;
  }
  known_[key] = {.changed_us = shared->changed_us};
  if (shared->is_removed) return ApplyRemoval(*shared, value.tenant);
  shared->pin.tenant = value.tenant;
  ApplyPin(*std::move(shared));
}

bool SharedPins::IsOfThisModel(const Pin& pin) const {
  return pin.leaf.fingerprint == parts_.kv_fingerprint || pin.model == parts_.model_fingerprint;
}

void SharedPins::ApplyPin(SharedPin shared) {
  Pin& pin = shared.pin;
  const bool has_expired = pin.expires_unix != 0 && pin.expires_unix <= WallClock::NowUnix();
  if (has_expired || !IsOfThisModel(pin) || pin.tokens.size() < store::kv::kKvTokensMax) return;
  if (shared.prefix != store::meta::PrefixNameOf(parts_.ring, pin)) return;
  pin.leaf = parts_.leaf_of(pin);
  const Own own{.prefix = shared.prefix, .tenant = pin.tenant, .changed_us = shared.changed_us};
  const Pin taken_pin = pin;
  const auto taken = parts_.pins.Take(std::move(pin));
  if (!taken) {
    ++num_refused_;
    return LogOnce(own, "it is pinned at another gateway and not here: " + taken.error().detail);
  }
  for (const Pin& ended : taken->ended) parts_.on_unpinned(ended);
  if (!taken->is_taken) return;
  ++num_taken_;
  parts_.on_pinned(taken_pin);
}

void SharedPins::ApplyRemoval(const SharedPin& shared, const std::string& tenant) {
  const RemovedPin removed{
      .prefix = shared.prefix, .tenant = tenant, .removed_us = shared.changed_us};
  const auto ended = parts_.pins.TakeRemoval(removed);
  if (!ended) {  // the disk takes nothing now
    unapplied_[shared.prefix] = removed;
    return LogOnce({.prefix = shared.prefix, .changed_us = shared.changed_us},
                   "it is unpinned at another gateway and not yet here: " + ended.error().detail);
  }
  unapplied_.erase(shared.prefix);
  for (const Pin& pin : *ended) parts_.on_unpinned(pin);
  num_taken_ += ended->empty() ? 0 : 1;
}

Result<void> SharedPins::SayAll(TimePoint end) {
  for (const store::meta::PinStamp& stamp : parts_.pins.Stamps()) {
    if (SteadyClock::now() >= end) return {};
    const Own own{.prefix = stamp.prefix, .tenant = stamp.tenant, .changed_us = stamp.created_us};
    KVGATE_TRY_VOID(Say(own, [&] {
      const std::optional<Pin> pin = parts_.pins.Find(stamp.id);
      return pin ? EncodeSharedPin(stamp.prefix, *pin) : std::string();
    }));
  }
  for (const RemovedPin& removed : parts_.pins.Removed()) {
    if (SteadyClock::now() >= end) return {};
    const Own own{
        .prefix = removed.prefix, .tenant = removed.tenant, .changed_us = removed.removed_us};
    KVGATE_TRY_VOID(Say(own, [&] { return EncodeSharedPin(removed); }));
  }
  return {};
}

Result<void> SharedPins::Say(const Own& own, const std::function<std::string()>& encode) {
  const SharedMap::Name name{.tenant = own.tenant, .name = own.prefix};
  const std::string key = parts_.map.KeyOf(name);
  for (int attempt = 0; attempt < kAttemptsMax; ++attempt) {
    const auto known = known_.find(key);
    if (known != known_.end() &&
        (known->second.is_left || known->second.changed_us >= own.changed_us)) {
      return {};
    }
    KVGATE_TRY(const std::vector<Value> values, parts_.map.Get({&key, 1}, CallDeadline()));
    Apply(key, values.front());
    if (const auto now = known_.find(key);
        now != known_.end() && (now->second.is_left || now->second.changed_us >= own.changed_us)) {
      return {};
    }
    const std::string bytes = encode();
    if (bytes.empty()) return {};
    const auto set = parts_.map.Set(
        {.name = name, .expected = values.front().version, .bytes = bytes}, CallDeadline());
    if (!set && set.error().code == ErrorCode::kTooLarge) {
      known_[key] = {.changed_us = own.changed_us};
      LogOnce(own, "it is pinned here alone: " + set.error().detail);
      return {};
    }
    if (!set) return set.error();
    if (!*set) continue;
    known_[key] = {.changed_us = own.changed_us};
    ++num_said_;
    return {};
  }
  return {};  // others change it all the time: the next exchange sees what they say
}

// The next exchange says again what the store has let go.
void SharedPins::Renew() {
  std::vector<std::string> keys;
  for (const store::meta::PinStamp& stamp : parts_.pins.Stamps()) {
    const std::string key = parts_.map.KeyOf({.tenant = stamp.tenant, .name = stamp.prefix});
    if (known_.contains(key)) keys.push_back(key);
  }
  for (size_t at = 0; at < keys.size(); at += kRenewedAtOnce) {
    const std::span<const std::string> some =
        std::span(keys).subspan(at, std::min(kRenewedAtOnce, keys.size() - at));
    const auto are_there = parts_.map.Renew(some, CallDeadline());
    if (!are_there) return;
    for (size_t i = 0; i < some.size(); ++i) {
      if (!(*are_there)[i]) known_.erase(some[i]);
    }
  }
}

void SharedPins::LogOnce(const Own& own, const std::string& why) {
  int64_t& logged_us = has_logged_[own.prefix];
  if (std::exchange(logged_us, own.changed_us) == own.changed_us) return;
  KVGATE_LOG(kWarning, kSource, "pin {}: {}", IdOf(own.prefix), why);
}

void SharedPins::Collect(metrics::TextWriter& writer) const {
  constexpr std::string_view kChanges = "kvgate_shared_pin_changes_total";
  writer.Family(kChanges, "counter",
                "Pins and unpins that were told to other gateways, taken from them, or refused.");
  writer.Sample(kChanges, {{"result", "told"}}, num_said_.load());
  writer.Sample(kChanges, {{"result", "taken"}}, num_taken_.load());
  writer.Sample(kChanges, {{"result", "refused"}}, num_refused_.load());
  constexpr std::string_view kUnread = "kvgate_shared_pins_unread_total";
  writer.Family(kUnread, "counter", "Pins in the shared store that could not be read.");
  writer.Sample(kUnread, {}, num_unread_.load());
}

}  // namespace kvgate::runtime::sharing
