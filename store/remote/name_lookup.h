// NameLookup: the addresses of hosts, from the system's resolver, within a time.
//
// The system's resolver cannot be cancelled and may take half a minute. It runs on a thread of its
// own, one at a time for each host, and each caller stops waiting at its deadline. What a run finds
// when nobody waits any more serves the next caller.
//
// All functions may be called from any thread.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"

namespace kvgate::store::remote {

class NameLookup {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;
  using Addresses = std::vector<std::string>;  // numeric, in the order to try them
  using Resolve = std::function<Result<Addresses>(const std::string& host)>;

  static constexpr size_t kRunsMax = 64;            // at a time, each for another host
  static constexpr std::chrono::seconds kFresh{5};  // so long what was found serves other calls

  // Calls getaddrinfo. Fails with kUnavailable and its reason.
  static Result<Addresses> AskSystem(const std::string& host);

  explicit NameLookup(Resolve resolve = AskSystem);

  // An address is its own result. Fails with kDeadline if there is no result by then, with
  // kOverloaded if kRunsMax others have not ended, and else with the resolver's error.
  Result<Addresses> Find(const std::string& host, TimePoint deadline) const;

 private:
  struct Run;
  struct State;
  // Returns the run for the host that goes on or whose result is fresh, or begins one. REQUIRES:
  // the caller holds the mutex.
  Result<std::shared_ptr<Run>> Join(const std::string& host) const;
  static void Finish(State& state, const std::string& host, Run& run);

  // Shared with the resolvers' threads, which may outlive this object.
  const std::shared_ptr<State> state_;
};

}  // namespace kvgate::store::remote
