// SingleFlight lets the first of several requests with one cold prefix, the leader, go ahead. The
// others wait until its answer begins: only then can they read the provider's cache entry, and each
// of them would otherwise have paid for writing it. A prefix that was answered recently is warm,
// and nobody waits. The caller bounds the wait. Thread-safe and bounded.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "gateway/prompt/parse/segment.h"

namespace kvgate::route {

class SingleFlight {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;
  struct Options {
    std::chrono::seconds warm{240};  // time after an answer; shorter than any provider's TTL
    size_t warm_prefixes_max = 16'384;
  };
  explicit SingleFlight(const Options& options) : options_(options) {}
  // One request's place in a flight. A leader's destructor ends the flight; a follower's does
  // nothing.
  class Participant {
   public:
    ~Participant();
    Participant(const Participant&) = delete;
    Participant& operator=(const Participant&) = delete;
    // Returns true if no other request is ahead.
    bool leads() const { return leads_; }
    // Returns true if the leader's answer has begun, or the leader has ended, so that followers may
    // go.
    bool completed() const;
    // Marks the prefix as warm when this request's answer has begun; a leader also wakes its
    // followers.
    void Complete(TimePoint now);

   private:
    friend class SingleFlight;
    struct Flight;
    Participant(SingleFlight& table, std::shared_ptr<Flight> flight,
                const prompt::parse::Identity& prefix, bool leads);

    void Wake();

    SingleFlight& table_;
    const std::shared_ptr<Flight> flight_;  // null if the prefix was warm
    const prompt::parse::Identity prefix_;
    const bool leads_;
  };
  // `wake` is called once when the leader has completed, on the leader's thread, even if the
  // follower's participant is gone by then; it is never called for a leader. The table must outlive
  // its participants.
  std::unique_ptr<Participant> Join(const prompt::parse::Identity& prefix,
                                    std::function<void()> wake, TimePoint now);

 private:
  bool IsWarm(const prompt::parse::Identity& prefix, TimePoint now) const;

  const Options options_;
  std::mutex mutex_;
  std::unordered_map<prompt::parse::Identity, TimePoint> warm_;  // time of the last answer
  std::unordered_map<prompt::parse::Identity, std::weak_ptr<Participant::Flight>> flights_;
};

}  // namespace kvgate::route
