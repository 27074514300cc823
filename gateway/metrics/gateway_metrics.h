// GatewayMetrics names the instruments of the gateway itself. Engine and store keep their own
// counters, which service/ adds at scrape time.
#pragma once

#include "gateway/metrics/registry.h"

namespace kvgate::metrics {

struct GatewayMetrics {
  explicit GatewayMetrics(Registry& registry);

  CounterFamily& requests;      // by route and HTTP status
  Counter& client_disconnects;  // requests cancelled because the client left
  Gauge& connections;
  Gauge& requests_active;
  Counter& connections_refused;  // connections above the limit
  Counter& tls_handshake_failures;
  Histogram& ttft_seconds;     // from submit to the first token
  Histogram& itl_seconds;      // each gap between two tokens
  Histogram& request_seconds;  // from submit to the last token of a completion
};

}  // namespace kvgate::metrics
