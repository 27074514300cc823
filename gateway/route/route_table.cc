#include "gateway/route/route_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "gateway/upstream/body_scan.h"

namespace kvgate::route {
namespace {

// Parses "UPSTREAM" or "UPSTREAM/MODEL"; the model's name may contain slashes.
Target ParseTarget(const std::string& text) {
  const size_t slash = text.find('/');
  if (slash == std::string::npos) return {.upstream = text, .model = {}};
  return {.upstream = text.substr(0, slash), .model = text.substr(slash + 1)};
}

std::vector<Target> ParseTargets(const std::vector<std::string>& texts) {
  std::vector<Target> targets;
  std::transform(texts.begin(), texts.end(), std::back_inserter(targets), ParseTarget);
  return targets;
}

}  // namespace

Route::Route(const config::RouteConfig& config)
    : config_(config),
      pool_(ParseTargets(config.targets)),
      fallback_(ParseTargets(config.fallback)),
      affinity_({.ttl = std::chrono::seconds(config.affinity_seconds),
                 .load_factor = config.load_factor}) {}

std::vector<const Target*> Route::Candidates(const Query& query, const Look& look) {
  std::vector<const Target*> candidates;
  const bool is_short = config_.local_tokens_max > 0 && !query.is_hard &&
                        query.num_tokens <= config_.local_tokens_max;
  if (query.is_private || is_short) candidates.push_back(&local_);
  if (query.is_private) return candidates;
  std::vector<Affinity::Member> members;
  for (const Target& target : pool_) {
    members.push_back(look(target));
    members.back().name = target.upstream;
  }
  if (config_.balance == "prefix") {
    for (const size_t i : affinity_.Order(query.conversation, query.prefix, members, query.now)) {
      candidates.push_back(&pool_[i]);
    }
  } else {
    // Usable targets come first, each group in the configured order.
    for (const bool usable : {true, false}) {
      for (size_t i = 0; i < pool_.size(); ++i) {
        if (members[i].usable == usable) candidates.push_back(&pool_[i]);
      }
    }
  }
  for (const Target& target : fallback_) candidates.push_back(&target);
  // The local engine answers the same under every name, so it is asked once.
  bool has_local = false;
  std::erase_if(candidates, [&](const Target* target) {
    return target->is_local() && std::exchange(has_local, true);
  });
  return candidates;
}

void Route::Keep(const Query& query, const Target& target) {
  if (config_.balance == "prefix") affinity_.Keep(query.conversation, target.upstream, query.now);
}

bool IsFallbackStatus(int status) {
  constexpr int kStatuses[] = {429, 500, 502, 503, 504, 529};
  return std::find(std::begin(kStatuses), std::end(kStatuses), status) != std::end(kStatuses);
}

Result<std::unique_ptr<RouteTable>> RouteTable::Open(
    const std::vector<config::RouteConfig>& configs, const std::vector<std::string>& upstreams,
    bool has_local, const RouteTable* previous) {
  auto table = std::make_unique<RouteTable>();
  for (const config::RouteConfig& config : configs) {
    for (const auto* list : {&config.targets, &config.fallback}) {
      for (const std::string& text : *list) {
        const Target target = ParseTarget(text);
        const bool known = target.is_local() ? has_local
                                             : std::find(upstreams.begin(), upstreams.end(),
                                                         target.upstream) != upstreams.end();
        if (!known) {
          return MakeError(
              ErrorCode::kInvalidArgument, "route",
              fmt::format("the target '{}' of a route is {}", text,
                          target.is_local() ? "the local engine, which is not there (--model)"
                                            : "no upstream"));
        }
      }
    }
    if (config.local_tokens_max > 0 && !has_local) {
      return MakeError(ErrorCode::kInvalidArgument, "route",
                       "local_tokens_max of a route needs the local engine (--model)");
    }
    std::shared_ptr<Route> route;
    for (const auto& before :
         previous ? previous->routes_ : std::vector<std::shared_ptr<Route>>{}) {
      if (before->config() == config) route = before;
    }
    table->routes_.push_back(route ? std::move(route) : std::make_shared<Route>(config));
  }
  return table;
}

Route* RouteTable::Find(std::string_view model) const {
  for (const auto& route : routes_) {
    const auto& globs = route->config().models;
    if (std::any_of(globs.begin(), globs.end(),
                    [&](const std::string& glob) { return upstream::GlobMatches(glob, model); })) {
      return route.get();
    }
  }
  return nullptr;
}

}  // namespace kvgate::route
