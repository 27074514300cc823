// TargetOptions: what a configuration says of whom a gateway lets in and whom it asks.
#pragma once

#include <vector>

#include "gateway/config/config.h"
#include "gateway/upstream/wire/dialer.h"

namespace kvgate::proxy::request {

struct TargetOptions {
  std::vector<config::UpstreamConfig> upstreams = {};
  // Without upstreams and keys: see KnownTargets.
  bool serves_known_providers = false;
  // Upstreams are asked for their models. False where a caller's credential is of one of them, and
  // it is not known of which.
  bool lists_models = true;
  std::vector<config::RouteConfig> routes = {};
  std::vector<config::KeyConfig> keys = {};    // empty: everyone is let in
  config::BudgetLimits tenant_budgets = {};    // of each tenant whose key sets none
  std::vector<double> budget_thresholds = {};  // shares of a budget that are reported
  config::EngineConfig engine = {};            // of which the mode and its rules are taken
  config::MetricsConfig metrics = {};          // a key that may also read /metrics
  // How upstreams are connected to; a simulation has a network of its own.
  upstream::wire::MakeDialer make_dialer = upstream::wire::TcpDialer::Make;
};

}  // namespace kvgate::proxy::request
