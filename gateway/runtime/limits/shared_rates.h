// SharedRates makes the limits of keys on requests and tokens a minute hold over all gateways. Each
// process says what it has admitted of a key since it came in touch with the others, and puts what
// the others have admitted since the last exchange into its own buckets: all buckets show the use
// of all.
//
// A process that has been out of touch for kLostTouch comes in anew, in a new field: what was
// admitted meanwhile is in no bucket but its own. Whoever comes in fills its buckets as far as
// those of the others, which are what they say beside their counters. One thread at a time.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "base/clock.h"
#include "gateway/access/gateway_keys.h"
#include "store/shared/shared_sums.h"

namespace kvgate::runtime::limits {

class SharedRates {
 public:
  static constexpr std::chrono::seconds kLostTouch{5};

  // The sums outlive it.
  explicit SharedRates(const store::shared::SharedSums& sums) : sums_(sums) {}

  // Appends what is to be said and read now: of limited keys that somebody here has used lately.
  // What is appended refers to this and to the keys until the next call.
  void Collect(const access::GatewayKeys& keys, std::vector<store::shared::SharedSums::Own>& own);
  // Takes the answers to what the last Collect has appended.
  void Take(std::span<const store::shared::SharedSums::Others> said);

 private:
  using Key = access::GatewayKeys::Key;
  using Counts = Key::Counts;
  using TimePoint = SteadyClock::time_point;
  struct State {
    std::string field = {};  // of this process, since it came in touch
    Counts counts = {};      // since then
    Counts said = {};
    bool is_said = false;
    bool is_in_touch = false;
    TimePoint used_at = {};
    TimePoint looked_at = {};                 // or when it tried to come in touch first
    std::map<std::string, Counts> seen = {};  // what others had counted, by field
    std::vector<std::string> ended = {};      // fields that nobody needs any more
  };
  void ComeIn(State& state) const;
  void TakeOf(Key& key, State& state, const store::shared::SharedSums::Others& others) const;

  const store::shared::SharedSums& sums_;
  std::map<std::string, State, std::less<>> states_;  // by the key's name
  // Of the last Collect:
  TimePoint now_ = {};
  int64_t now_us_ = 0;
  struct Due {
    Key* key = nullptr;
    State* state = nullptr;
    Counts counts = {};  // as they were said
  };
  std::vector<Due> due_;
};

}  // namespace kvgate::runtime::limits
