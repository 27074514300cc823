// Idle: when a session that nobody goes on with is folded before its prefix leaves the provider's
// cache: who comes back later then writes a short prompt anew instead of a long one. It is done
// only where that is expected to save more than it costs, and shortly before the prefix would go.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <string>

#include "base/clock.h"
#include "gateway/session/summary/folds.h"

namespace kvgate::session::summary {

// Prices as multiples of that of uncached input.
struct IdlePrices {
  double read = 0.1;
  double write = 1;
  double output = 5;
};
struct IdleGain {
  int64_t tokens_before = 0;   // of the prompt as it is
  int64_t tokens_after = 0;    // with the summary
  int64_t summary_tokens = 0;  // that the model writes
};
// True if the writes that a return is expected to save, at one return of two, are worth more than
// the call: all of the prompt read from the cache, a question, and the summary written.
bool Pays(const IdlePrices& prices, const IdleGain& gain);

// Sessions that wait for that moment, each with its newest turn. Thread-safe.
class IdleSessions {
 public:
  using Time = SteadyClock::time_point;
  static constexpr size_t kSessionsMax = 4096;
  struct Due {
    Time at = {};
    std::string turn = {};  // the session's newest one
  };
  // A turn has been made. Returns true if nobody waits for the session yet and the caller is to;
  // not for more than kSessionsMax of them.
  bool Note(const Folds::Session& session, Due due);
  // For who waits: until when, with which turn.
  Due Of(const Folds::Session& session) const;
  // Who waited is done.
  void Forget(const Folds::Session& session);
  size_t size() const;

 private:
  mutable std::mutex mutex_;
  std::map<Folds::Session, Due> sessions_;
};

}  // namespace kvgate::session::summary
