// Targets: whom this gateway lets in (keys) and whom it asks (upstreams and routes). A
// configuration reload replaces them together. A request keeps the targets that it began with until
// its end.
//
// Entries that a reload does not change keep their state: an upstream's connections and breaker, a
// route's affinity, and what a key has used of its limits in the current minute.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "base/result.h"
#include "gateway/access/budget.h"
#include "gateway/access/gateway_keys.h"
#include "gateway/proxy/request/target_options.h"
#include "gateway/route/route_table.h"
#include "gateway/upstream/upstreams.h"

namespace kvgate::proxy::request {

class KnownTargets;

struct Targets {
  std::unique_ptr<upstream::Upstreams> upstreams;
  std::unique_ptr<access::GatewayKeys> keys;
  access::BudgetTable budgets;  // of all tenants
  std::unique_ptr<route::RouteTable> routes;
  config::UpstreamConfig engine;  // the local engine's mode and rules; see service::LocalUpstream
  bool lists_models = true;       // see TargetOptions
  // What requests with a known provider's credential use instead; null: they use these.
  std::shared_ptr<const KnownTargets> known;

  // Takes over the entries of `previous`, which may be null, whose configuration has not changed.
  // Fails with kInvalidArgument if a route names no upstream, or a variable or file that an
  // upstream or a key names is missing.
  static Result<std::shared_ptr<const Targets>> Open(const TargetOptions& options, bool has_local,
                                                     const Targets* previous);
};

// Holds the targets that new requests use. Thread-safe.
class CurrentTargets {
 public:
  explicit CurrentTargets(std::shared_ptr<const Targets> targets) : targets_(std::move(targets)) {}

  std::shared_ptr<const Targets> Get() const {
    const std::lock_guard lock(mutex_);
    return targets_;
  }
  void Set(std::shared_ptr<const Targets> targets) {
    {
      const std::lock_guard lock(mutex_);
      targets_.swap(targets);
    }
    generation_.fetch_add(1);
  }  // the old targets are destroyed here unless a request holds them
  // Rises with every Set, so a caller can tell cheaply if Get would return other targets.
  uint64_t generation() const { return generation_.load(std::memory_order_acquire); }

 private:
  mutable std::mutex mutex_;
  std::shared_ptr<const Targets> targets_;
  std::atomic<uint64_t> generation_{0};
};

}  // namespace kvgate::proxy::request
