#include "gateway/metrics/prompt_metrics.h"

namespace kvgate::metrics {

PromptMetrics::PromptMetrics(Registry& registry)
    : prefix_rewrites(registry.AddCounterFamily(
          "kvgate_prefix_rewrites_total",
          "Requests that did not extend what their conversation had sent, by who changed it.",
          {"cause"})),
      thinking_dropped(registry.AddCounter("kvgate_thinking_dropped_total",
                                           "Thinking blocks that providers say they dropped.")),
      requests_with_lost_state(registry.AddCounter(
          "kvgate_requests_with_lost_state_total",
          "Requests sent as received, because what their conversation had sent is not known.")),
      explicit_caches(registry.AddCounterFamily(
          "kvgate_explicit_caches_total",
          "Caches that a provider keeps under a name, by what became of them.", {"event"})) {
  // The series are there from the start, so that an alert sees the first one.
  prefix_rewrites.With({"client"});
  prefix_rewrites.With({"gateway"});
  for (const char* event : {"made", "prolonged", "refused", "lost"}) explicit_caches.With({event});
}

}  // namespace kvgate::metrics
