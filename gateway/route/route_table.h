// RouteTable holds the configured routes: the targets for a model and the order in which to ask
// them. The targets of a pool share the prompts by prefix; a fallback is asked if no target of the
// pool answers; short or private prompts may go to the local engine. Find returns no route for a
// model without one, which then goes to the first upstream that serves it. Thread-safe.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "gateway/config/config.h"
#include "gateway/route/affinity.h"
#include "gateway/route/single_flight.h"

namespace kvgate::route {

struct Target {
  std::string upstream;  // its name, or "local" for the engine
  std::string model;     // to be asked for there; empty: the requested one
  bool is_local() const { return upstream == kLocal; }
  static constexpr std::string_view kLocal = "local";
};

// The facts about a request before it is routed.
struct Query {
  prompt::parse::Identity conversation = {};
  prompt::parse::Identity prefix = {};  // identity of tools and system
  int64_t num_tokens = 0;               // estimated prompt tokens
  bool is_private = false;              // it must not leave this machine
  bool is_hard = false;                 // its caller asks for much thinking
  std::chrono::steady_clock::time_point now = {};
};

class Route {
 public:
  explicit Route(const config::RouteConfig& config);

  const config::RouteConfig& config() const { return config_; }
  // Returns a target's current state; called for each upstream, without a lock held.
  using Look = std::function<Affinity::Member(const Target&)>;
  // Returns the targets in the order in which to ask them, "local" at most once. A private request
  // gets the local target only.
  std::vector<const Target*> Candidates(const Query& query, const Look& look);
  // Notes that `target` answered the request.
  void Keep(const Query& query, const Target& target);
  SingleFlight& flights() { return flights_; }

 private:
  const config::RouteConfig config_;
  std::vector<Target> pool_;
  std::vector<Target> fallback_;
  const Target local_{.upstream = std::string(Target::kLocal), .model = {}};
  Affinity affinity_;
  SingleFlight flights_{{}};
};

// Returns true if the status means that this target cannot answer at present, so the next one is
// asked.
bool IsFallbackStatus(int status);

class RouteTable {
 public:
  // Routes of `previous` (may be null) whose configuration is unchanged are kept with what they
  // remember. Fails with kInvalidArgument if a target is neither an upstream nor "local", or if a
  // route needs the local engine and there is none.
  static Result<std::unique_ptr<RouteTable>> Open(const std::vector<config::RouteConfig>& configs,
                                                  const std::vector<std::string>& upstreams,
                                                  bool has_local,
                                                  const RouteTable* previous = nullptr);
  // Returns the first route that accepts the model; null if none does.
  Route* Find(std::string_view model) const;
  bool empty() const { return routes_.empty(); }

 private:
  std::vector<std::shared_ptr<Route>> routes_;
};

}  // namespace kvgate::route
