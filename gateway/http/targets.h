// Targets: whom this server lets in, as whom it shows itself and whom it asks: what a reload of the
// configuration replaces, as one. A request keeps those it began with until its end.
//
// What a reload leaves as it was goes on as it is: an upstream's connections and breaker, a route's
// affinity, what a key has used of its minute.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <utility>

#include <kvgate/result.h>

#include "gateway/http/socket/listener_tls.h"
#include "gateway/http/server.h"
#include "gateway/route/route_table.h"
#include "gateway/service/gateway_keys.h"
#include "gateway/upstream/upstreams.h"

namespace kvgate::http {

struct Targets {
  std::unique_ptr<ListenerTls> tls;  // null: plain HTTP
  std::unique_ptr<upstream::Upstreams> upstreams;
  std::unique_ptr<service::GatewayKeys> keys;
  std::unique_ptr<route::RouteTable> routes;

  // Takes over from `previous`, which may be null, what is configured as it was. kInvalidArgument:
  // as Server::Open.
  static Result<std::shared_ptr<const Targets>> Open(const TargetOptions& options, bool has_local,
                                                     const Targets* previous);
};

// The ones that requests begin with now. Thread-safe.
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
  }  // the old ones go here, where no request holds them
  // Rises with every Set: tells cheaply whether Get would give others.
  uint64_t generation() const { return generation_.load(std::memory_order_acquire); }

 private:
  mutable std::mutex mutex_;
  std::shared_ptr<const Targets> targets_;
  std::atomic<uint64_t> generation_{0};
};

}  // namespace kvgate::http
