// SingleFlight: of several requests with one cold prefix the first goes ahead, and the others wait
// until its answer begins: only then can the provider's cache entry be read, and each of them would
// have paid for writing it. A prefix that was answered a short while ago is warm: nobody waits.
// Waiting is bounded by the caller. Thread-safe, and bounded.
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
    std::chrono::seconds warm{240};  // after an answer; shorter than any provider's TTL
    size_t warm_prefixes_max = 16'384;
  };
  explicit SingleFlight(const Options& options) : options_(options) {}
  // One request in it. The leader lands when it is let go; a follower just leaves.
  class Seat {
   public:
    ~Seat();
    Seat(const Seat&) = delete;
    Seat& operator=(const Seat&) = delete;
    // Nobody is ahead.
    bool leads() const { return leads_; }
    // The answer of the request ahead has begun, or it has ended without one: go.
    bool landed() const;
    // Its answer has begun: the prefix is warm. A leader's wakes those who wait.
    void Land(TimePoint now);

   private:
    friend class SingleFlight;
    struct Flight;
    Seat(SingleFlight& table, std::shared_ptr<Flight> flight, const prompt::Identity& prefix,
         bool leads);

    void Wake();

    SingleFlight& table_;
    const std::shared_ptr<Flight> flight_;  // null: the prefix was warm
    const prompt::Identity prefix_;
    const bool leads_;
  };
  // `wake` is called once when the one ahead has landed, from its thread, and never for a leader.
  // The table outlives its seats.
  std::unique_ptr<Seat> Join(const prompt::Identity& prefix, std::function<void()> wake,
                             TimePoint now);

 private:
  bool IsWarm(const prompt::Identity& prefix, TimePoint now) const;

  const Options options_;
  std::mutex mutex_;
  std::unordered_map<prompt::Identity, TimePoint> warm_;  // when it was answered last
  std::unordered_map<prompt::Identity, std::weak_ptr<Seat::Flight>> flights_;
};

}  // namespace kvgate::route
