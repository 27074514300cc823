// Runtime: a whole gateway in this process, put together from a configuration: data directory,
// ledger, prompts, service and, where they are wanted, a local engine and a listening server.
//
// This is the one place where the parts meet. Whoever needs a gateway opens one and does the rest
// itself: reading files and flags, printing, waiting for signals. Nothing here writes to a stream,
// ends the process or changes its signal handlers.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include "base/result.h"
#include "gateway/config/config.h"
#include "gateway/metrics/registry.h"
#include "gateway/upstream/exchange_observer.h"

namespace kvgate::local {
class LocalProvider;
}

namespace kvgate::proxy::host {
class Host;
}

namespace kvgate::service {
class Service;
}

namespace kvgate::runtime {

// Wraps the ledger in another log, which is told of every exchange first; the ledger outlives it.
using WrapLog =
    std::function<std::unique_ptr<upstream::ExchangeLog>(upstream::ExchangeLog& ledger)>;

// Sleeps for at most the given time; returns false if its caller is to wait no longer.
using Pause = std::function<bool(std::chrono::milliseconds)>;

class Runtime {
 public:
  struct Options {
    config::Config config;
    metrics::Registry& registry;  // outlives the runtime, which adds its own metrics to it
    bool listens = true;          // false: no port at first; see Listen
    bool takes_requests = true;   // false: only service() is used; there is no host and no port
    bool needs_disk = false;      // true: Open fails without a usable data directory
    bool needs_engine = false;    // true: has one even if the configuration only forwards
    WrapLog wrap_log = {};        // may be empty
    // Called when a model begins to load and every 20 ms until it has, which can take minutes, on
    // the thread of Open. A library cannot abandon a load; a program may end there.
    std::function<void()> while_loading = {};
  };
  // The port is bound before the model loads, so that a taken port is reported at once and /ready
  // can say "not yet". Fails with kInvalidArgument for a configuration that cannot be served or a
  // wrong secret of the data directory, with kUnavailable for a taken port, a missing device or,
  // with needs_disk, a missing data directory, with kOverloaded if the system refuses memory or
  // threads, and as LocalEngine::Open does.
  static Result<std::unique_ptr<Runtime>> Open(Options options);
  // Ends at once what still runs; call Stop before, so that answers are completed and KV is kept.
  virtual ~Runtime() = default;

  virtual service::Service& service() = 0;
  // Null without a local model.
  virtual const local::LocalProvider* provider() const = 0;
  // What requests of this process run on, from the time when Open has returned. Null if none are
  // taken.
  virtual proxy::host::Host* host() = 0;
  // The token that makes a request of this process an admin's.
  virtual const std::string& admin_token() const = 0;
  // "http://127.0.0.1:8080"; empty if it does not listen.
  virtual std::string url() const = 0;

  // Listens on this address, "ADDRESS:PORT", with the certificate of the configuration. Fails as
  // Open does. REQUIRES: it takes requests and does not listen.
  virtual Result<void> Listen(const std::string& address) = 0;
  // Ends listening: new connections are refused, running answers get server.drain_seconds, and
  // requests of this process go on.
  virtual void StopListening(const Pause& pause) = 0;

  // Takes upstreams, routes, keys, prompts, the engine's mode and the certificate from `next`, and
  // publishes the address anew. New requests use them; requests that have begun keep theirs. A
  // failure changes nothing. A `next` that could not be read is a failure as well, and counted as
  // one. REQUIRES: it takes requests. One thread at a time, as Listen.
  virtual Result<void> Reload(Result<config::Config> next) = 0;

  // If it listens: says at /ready that it is not, and serves on for server.unready_seconds, or
  // until `pause` returns false. Then refuses new requests, gives running ones
  // server.drain_seconds, tells the clients of the rest that no more will come, and writes the last
  // KV to disk. Once `pause` returns false, no request is waited for any longer. Call it once,
  // last.
  virtual void Stop(const Pause& pause) = 0;
};

}  // namespace kvgate::runtime
