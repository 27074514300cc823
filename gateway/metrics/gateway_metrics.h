// GatewayMetrics names the instruments of the gateway itself. Engine and store keep their own
// counters, which service/ adds at scrape time.
#pragma once

#include "gateway/metrics/answer_metrics.h"
#include "gateway/metrics/registry.h"
#include "gateway/metrics/token_metrics.h"

namespace kvgate::metrics {

struct GatewayMetrics {
  explicit GatewayMetrics(Registry& registry);

  CounterFamily& requests;      // by route and HTTP status
  Counter& client_disconnects;  // requests cancelled because the client left
  Gauge& connections;
  Gauge& requests_active;
  Counter& connections_refused;  // connections above the limit
  Counter& tls_handshake_failures;
  AnswerMetrics answers;
  TokenMetrics tokens;
};

}  // namespace kvgate::metrics
