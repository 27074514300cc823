// Exporter: sends spans and metrics of requests to an OpenTelemetry collector, as OTLP over HTTP in
// JSON.
//
// Add never waits: it copies a few names and numbers into a bounded queue, and what does not fit is
// dropped and counted. One thread of the exporter's own does the rest, on a connection of its own.
// A collector that is down, slow or wrong costs no request anything: spans wait up to the same
// bound and then the oldest are dropped; metrics are cumulative, so that the next ones make good.
#pragma once

#include <functional>
#include <memory>

#include "base/result.h"
#include "gateway/config/config.h"
#include "gateway/ledger/request_record.h"
#include "gateway/metrics/registry.h"
#include "gateway/upstream/wire/proxy_env.h"

namespace kvgate::telemetry::otlp {

class Exporter {
 public:
  // Starts the thread. Fails with kInvalidArgument for a bad address, headers that cannot be read,
  // or a variable or file that is missing. REQUIRES: an endpoint is configured.
  static Result<std::unique_ptr<Exporter>> Open(
      const config::TelemetryConfig& config,
      const upstream::wire::Environment& environment = upstream::wire::ProcessEnvironment);
  // Sends what waits, if the collector takes it within two seconds.
  virtual ~Exporter() = default;

  // Callable from any thread.
  virtual void Add(const ledger::RequestRecord& record) = 0;
  // Writes how many spans were sent and dropped.
  virtual void Collect(metrics::TextWriter& writer) const = 0;
};

}  // namespace kvgate::telemetry::otlp
