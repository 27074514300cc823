// PromptMetrics names the instruments of prompts: what became of their prefixes.
#pragma once

#include "gateway/metrics/registry.h"

namespace kvgate::metrics {

struct PromptMetrics {
  explicit PromptMetrics(Registry& registry);

  CounterFamily& prefix_rewrites;  // by cause: "client", or "gateway", which is a defect
  Counter& thinking_dropped;       // blocks that providers dropped, as their answers say
  // Requests of conversations whose earlier requests are not known any more: they went out as
  // received.
  Counter& requests_with_lost_state;
  CounterFamily& explicit_caches;  // by event: "made", "prolonged", "refused", "lost"
};

}  // namespace kvgate::metrics
