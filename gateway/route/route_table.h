// RouteTable: the configured routes: for a model, whom to ask and in which order. A pool of targets
// shares its prompts by prefix; a fallback is asked when none of the pool answers; short or private
// prompts may go to the local engine. A model without a route goes to the first upstream that
// serves it, as without any routes. Thread-safe.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <kvgate/result.h>

#include "gateway/config/config.h"
#include "gateway/route/affinity.h"
#include "gateway/route/single_flight.h"

namespace kvgate::route {

struct Target {
  std::string upstream;  // its name; "local": the engine
  std::string model;     // to be asked for there; empty: the one that was asked for
  bool is_local() const { return upstream == kLocal; }
  static constexpr std::string_view kLocal = "local";
};

// What is known of a request before it is routed.
struct Query {
  prompt::Identity conversation = {};
  prompt::Identity prefix = {};  // of tools and system
  int64_t num_tokens = 0;        // of the prompt, estimated
  bool is_private = false;       // it must not leave this machine
  bool is_hard = false;          // its caller asks for much thinking
  std::chrono::steady_clock::time_point now = {};
};

class Route {
 public:
  explicit Route(const config::RouteConfig& config);

  const config::RouteConfig& config() const { return config_; }
  // How a target is doing; asked for each upstream, without a lock held.
  using Look = std::function<Affinity::Member(const Target&)>;
  // In the order in which to ask them, each once; only local ones for what is private: then it may
  // be empty.
  std::vector<const Target*> Candidates(const Query& query, const Look& look);
  // It was answered by that one.
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

// An answer with which the next target is asked instead: what it says is that this one cannot now.
bool IsFallbackStatus(int status);

class RouteTable {
 public:
  // Of `previous`, which may be null, it keeps those that are configured as they were, with what
  // they remember. kInvalidArgument: a target that is no upstream and not "local", or local without
  // an engine.
  static Result<std::unique_ptr<RouteTable>> Open(const std::vector<config::RouteConfig>& configs,
                                                  const std::vector<std::string>& upstreams,
                                                  bool has_local,
                                                  const RouteTable* previous = nullptr);
  // The first one that takes the model; null: none does.
  Route* Find(std::string_view model) const;
  bool empty() const { return routes_.empty(); }

 private:
  std::vector<std::shared_ptr<Route>> routes_;
};

}  // namespace kvgate::route
