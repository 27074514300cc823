#include "gateway/metrics/gateway_metrics.h"

namespace kvgate::metrics {

GatewayMetrics::GatewayMetrics(Registry& registry)
    : requests(registry.AddCounterFamily("kvgate_http_requests_total",
                                         "Answered requests by route and status.",
                                         {"route", "status"})),
      client_disconnects(registry.AddCounter("kvgate_client_disconnects_total",
                                             "Completions cancelled because the client left.")),
      connections(registry.AddGauge("kvgate_connections", "Open client connections.")),
      requests_active(registry.AddGauge("kvgate_completions_active", "Completions under way.")),
      connections_refused(registry.AddCounter("kvgate_connections_refused_total",
                                              "Connections over the limit, answered with 503.")),
      tls_handshake_failures(registry.AddCounter("kvgate_tls_handshake_failures_total",
                                                 "TLS handshakes that did not succeed.")),
      answers(registry),
      tokens(registry) {}

}  // namespace kvgate::metrics
