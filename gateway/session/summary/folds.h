// Folds: which sessions are being folded, who waits for the end of that, and when a fold that
// failed may be tried again: a model that cannot summarise is not asked with every turn.
// Thread-safe.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/lru_map.h"

namespace kvgate::session::summary {

class Folds {
 public:
  struct Session {
    std::string tenant = {};
    std::string key = {};
    friend auto operator<=>(const Session&, const Session&) = default;
  };
  enum class Outcome : uint8_t {
    kStored,  // the summary stands in the log
    kFailed,  // no summary came of it: turns go by before the next try, twice as many each time
    kStale,   // the session went on elsewhere meanwhile
  };
  // What made a fold begin.
  enum class Trigger : uint8_t {
    kThreshold,  // the window is full
    kIdle,       // the prefix was about to leave its provider's cache
    kClient,     // somebody asked for it
  };
  static constexpr size_t kNumTriggers = static_cast<size_t>(Trigger::kClient) + 1;
  // One fold under way; if it is destroyed before End, it has failed.
  class Ticket {
   public:
    Ticket(Folds& folds, Session session, uint64_t depth, Trigger trigger)
        : folds_(folds), session_(std::move(session)), depth_(depth), trigger_(trigger) {}
    ~Ticket() { End(Outcome::kFailed); }
    Ticket(const Ticket&) = delete;
    Ticket& operator=(const Ticket&) = delete;
    void End(Outcome outcome);
    // Folds of this session that have failed in a row.
    uint32_t num_failures = 0;

   private:
    friend class Folds;
    Folds& folds_;
    const Session session_;
    const uint64_t depth_;
    const Trigger trigger_;
    bool has_ended_ = false;
  };

  // True if Begin would return a ticket.
  bool IsDue(const Session& session, uint64_t depth) const;
  // Returns null if a fold of the session is under way, or its next try is not due at `depth`, the
  // number of its turns. A fold that a client asks for is always due.
  std::unique_ptr<Ticket> Begin(const Session& session, uint64_t depth,
                                Trigger trigger = Trigger::kThreshold);
  // Calls `on_end` once when the fold under way has ended, from any thread. Returns false if there
  // is none.
  bool Await(const Session& session, std::function<void()> on_end);
  // Its summary was not wanted: turns go by before the next.
  void PutOff(const Session& session, uint64_t depth);

  struct Counts {
    uint64_t num_stored = 0;
    std::array<uint64_t, kNumTriggers> num_stored_by = {};  // of those, by trigger
    uint64_t num_failed = 0;
    uint64_t num_stale = 0;
    size_t num_running = 0;
  };
  Counts counts() const;

 private:
  // Of a session whose last folds failed.
  struct Failures {
    uint32_t num = 0;
    uint64_t next_depth = 0;  // turns at which the next fold is due
  };
  struct HashOfSession {
    size_t operator()(const Session& session) const;
  };
  static constexpr size_t kFailuresMax = 10'000;  // sessions that are remembered
  void Fail(const Session& session, uint64_t depth);
  void End(const Ticket& ticket, Outcome outcome);

  mutable std::mutex mutex_;
  std::map<Session, std::vector<std::function<void()>>> running_;  // and who waits
  LruMap<Session, Failures, HashOfSession> failures_{kFailuresMax};
  Counts counts_;
};

}  // namespace kvgate::session::summary
