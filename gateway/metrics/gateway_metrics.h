// GatewayMetrics: the instruments of the gateway itself, by name. Engine and store keep their own
// counters; service/ adds those at scrape time.
#pragma once

#include "gateway/metrics/registry.h"

namespace kvgate::metrics {

struct GatewayMetrics {
  explicit GatewayMetrics(Registry& registry);

  CounterFamily& requests;      // by route and HTTP status
  Counter& client_disconnects;  // requests cancelled because the client left
  Gauge& connections;
  Gauge& requests_active;
  Counter& connections_refused;  // over the limit
  Counter& tls_handshake_failures;
  Histogram& ttft_seconds;     // submit to first token
  Histogram& itl_seconds;      // each gap between two tokens
  Histogram& request_seconds;  // a completion, submit to last token
};

}  // namespace kvgate::metrics
