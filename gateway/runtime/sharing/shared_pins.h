// SharedPins makes the pins of gateways that share a store the same: a prefix pinned or unpinned at
// one of them is so at the others after their next exchange. Each gateway reads what has changed
// since its last one, and nothing else, and says what was changed here.
//
// The later of two changes of one prefix holds, and the later pin of two of one name; a
// change is later than those that were known where it was made. What was changed while the store
// was away, or is there no longer, is said when it is back. An unpin is remembered for 30 days
// (store/meta/removed_pins.h): until then nobody who missed it brings the pin back.
//
// A gateway takes pins of its own model, under the hashes of its own directory and numerics, and
// within its own limits; what it refuses it logs once, and asks again only when it has changed. A
// pin whose value is larger than the store takes is not shared. One thread at a time.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/ids.h"
#include "gateway/metrics/registry.h"
#include "gateway/runtime/sharing/shared_pin.h"
#include "store/meta/pin_book.h"
#include "store/shared/shared_map.h"

namespace kvgate::runtime::sharing {

class SharedPins {
 public:
  struct Options {
    std::chrono::milliseconds call_time_max{1'000};   // of one call of the store
    std::chrono::milliseconds round_time_max{2'000};  // then the next exchange goes on
    std::chrono::seconds renewed{3'600};              // pins that stand here live on there
    size_t read_at_once = 4;                          // values, each of a megabyte at most
  };
  // The gateway's own. All of it outlives this object.
  struct Parts {
    store::shared::SharedMap& map;  // listed
    store::meta::PinBook& pins;
    const Keyring& ring;
    Fingerprint kv_fingerprint;     // of the engine, with its numerics
    Fingerprint model_fingerprint;  // without them
    // The key of a tenant's prefix here, under the engine's numerics.
    std::function<store::kv::KvKey(const store::meta::Pin& pin)> leaf_of;
    std::function<void(const store::meta::Pin& pin)> on_pinned;    // it holds here from now on
    std::function<void(const store::meta::Pin& pin)> on_unpinned;  // it does no longer
  };
  SharedPins(const Options& options, Parts parts) : options_(options), parts_(std::move(parts)) {}

  // Takes in what others have changed, then says what was changed here. What cannot be done now is
  // done by a later call.
  void Exchange();
  void Collect(metrics::TextWriter& writer) const;

 private:
  using Value = store::shared::SharedMap::Value;
  using TimePoint = SteadyClock::time_point;
  // The last that is known of a key in the store.
  struct Known {
    int64_t changed_us = 0;
    bool is_left = false;  // it cannot be read here, or is too large: nothing is said of it
  };
  TimePoint CallDeadline() const { return SteadyClock::now() + options_.call_time_max; }
  Result<void> TakeIn(TimePoint end);
  Result<void> ReadValues(std::span<const std::string> keys);
  void Apply(const std::string& key, const Value& value);
  void ApplyPin(SharedPin shared);
  void ApplyRemoval(const SharedPin& shared, const std::string& tenant);
  bool IsOfThisModel(const store::meta::Pin& pin) const;
  struct Own {
    std::string prefix = {};
    std::string tenant = {};
    int64_t changed_us = 0;
  };
  Result<void> SayAll(TimePoint end);
  // `encode` is called if it has to be said; an empty text: it is no longer so.
  Result<void> Say(const Own& own, const std::function<std::string()>& encode);
  void Renew();
  void LogOnce(const Own& own, const std::string& why);

  const Options options_;
  const Parts parts_;
  store::shared::SharedMap::Position position_;
  std::map<std::string, store::meta::RemovedPin> unapplied_;  // by prefix: the disk failed
  std::map<std::string, Known> known_;                        // by key
  std::map<std::string, int64_t>
      has_logged_;  // by prefix: the change that was refused or too large
  TimePoint renewed_at_ = SteadyClock::now();
  std::atomic<uint64_t> num_taken_{0};
  std::atomic<uint64_t> num_said_{0};
  std::atomic<uint64_t> num_refused_{0};
  std::atomic<uint64_t> num_unread_{0};
};

}  // namespace kvgate::runtime::sharing
