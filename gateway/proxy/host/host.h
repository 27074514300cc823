// Host: what the requests of a gateway run on: event loops, the pools behind them, the memory of
// bodies, and the targets that requests may use. A listening server and a caller in this process
// stand on the same one.
//
// Each loop has one thread and runs one handler at a time. Whoever spawns a request on a loop ends
// it before the host is destroyed; the work that requests leave behind is ended by the host.
#pragma once

#include <boost/asio/io_context.hpp>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "base/result.h"
#include "gateway/proxy/request/environment.h"
#include "gateway/proxy/request/target_options.h"
#include "gateway/service/service.h"
#include "gateway/service/work_pools.h"

namespace kvgate::proxy::host {

struct HostOptions {
  int threads = 2;  // event loops
  service::WorkPools::Options pools = {};
  uint64_t bodies_bytes_max = uint64_t{512} << 20;  // of all bodies in memory; beyond: 503
  double tenant_bodies_share = 0.5;                 // the part of that for one tenant
  // What these point to outlives the host.
  request::Options requests = {};
  request::TargetOptions targets = {};
};

class Host {
 public:
  // Starts the threads. Fails with kInvalidArgument if a variable or file named by an upstream or a
  // key is missing. The service outlives the host, and has_local() does not change any more.
  static Result<std::unique_ptr<Host>> Open(const HostOptions& options, service::Service& service);
  // Ends the work that no client waits for. REQUIRES: no request is under way.
  virtual ~Host() = default;

  // Callable from any thread.
  virtual request::Environment& environment() = 0;
  virtual size_t num_loops() const = 0;
  virtual boost::asio::io_context& loop(size_t index) = 0;
  // Another loop at each call, so that requests spread over all.
  virtual boost::asio::io_context& NextLoop() = 0;

  // New requests use these targets; requests that have begun keep theirs. Files and variables are
  // read again. Fails as Open does, and then changes nothing.
  virtual Result<void> Reload(const request::TargetOptions& targets) = 0;
  // No more work is begun that no client waits for.
  virtual void BeginDrain() = 0;
  // Returns when all that was posted to the loops before has run. Not on a loop.
  virtual void Flush() = 0;
};

}  // namespace kvgate::proxy::host
