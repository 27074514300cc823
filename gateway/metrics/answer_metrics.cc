#include "gateway/metrics/answer_metrics.h"

#include <algorithm>
#include <utility>

namespace kvgate::metrics {
namespace {

constexpr std::string_view kOther = "other";

HistogramFamily& AddFamily(Registry& registry, std::string name, std::string help,
                           std::vector<double> bounds) {
  return registry.AddHistogramFamily(std::move(name), std::move(help), {"upstream"},
                                     std::move(bounds), AnswerMetrics::kUpstreamsMax + 1);
}

}  // namespace

AnswerMetrics::AnswerMetrics(Registry& registry)
    : ttft_(AddFamily(registry, "kvgate_ttft_seconds",
                      "From the request's arrival to the first token, or the first byte of an "
                      "upstream's answer.",
                      LatencyBounds())),
      itl_(AddFamily(registry, "kvgate_itl_seconds",
                     "Each gap between two tokens of an answer, or two pieces of an upstream's "
                     "stream.",
                     TokenBounds())),
      tpot_(AddFamily(registry, "kvgate_tpot_seconds",
                      "Time per output token after the first, of each answer.", TokenBounds())),
      queue_(AddFamily(registry, "kvgate_queue_seconds",
                       "Waiting for the engine, or for a connection to the upstream.",
                       LatencyBounds())),
      prefill_(AddFamily(registry, "kvgate_prefill_seconds",
                         "From the end of the queue to the first token; an upstream's own queue is "
                         "in it.",
                         LatencyBounds())),
      decode_(AddFamily(registry, "kvgate_decode_seconds",
                        "From the first token to the last, of each answer.", LatencyBounds())),
      request_(AddFamily(registry, "kvgate_completion_seconds",
                         "From the request's arrival to the end of its answer.", LatencyBounds())),
      prompt_(AddFamily(registry, "kvgate_prompt_length_tokens",
                        "Length of prompts, cached tokens included.", LengthBounds())),
      local_(Of(kLocal)) {}

AnswerTimes AnswerMetrics::Make(std::string_view upstream) {
  return {.ttft_seconds = ttft_.With({upstream}),
          .itl_seconds = itl_.With({upstream}),
          .tpot_seconds = tpot_.With({upstream}),
          .queue_seconds = queue_.With({upstream}),
          .prefill_seconds = prefill_.With({upstream}),
          .decode_seconds = decode_.With({upstream}),
          .request_seconds = request_.With({upstream}),
          .prompt_tokens = prompt_.With({upstream})};
}

AnswerTimes& AnswerMetrics::Of(std::string_view upstream) {
  for (const std::atomic<Entry*>& slot : published_) {
    Entry* const entry = slot.load(std::memory_order_acquire);
    if (entry == nullptr) break;
    if (entry->name == upstream) return entry->times;
  }
  return Add(upstream);
}

AnswerTimes& AnswerMetrics::Add(std::string_view upstream) {
  const std::lock_guard lock(mutex_);
  const auto find = [this](std::string_view name) {
    return std::find_if(entries_.begin(), entries_.end(),
                        [name](const auto& entry) { return entry->name == name; });
  };
  if (const auto found = find(upstream); found != entries_.end()) return (*found)->times;
  // The last entry is that of all others.
  if (entries_.size() + 1 >= kUpstreamsMax) upstream = kOther;
  if (const auto found = find(upstream); found != entries_.end()) return (*found)->times;
  entries_.push_back(
      std::make_unique<Entry>(Entry{.name = std::string(upstream), .times = Make(upstream)}));
  published_[entries_.size() - 1].store(entries_.back().get(), std::memory_order_release);
  return entries_.back()->times;
}

}  // namespace kvgate::metrics
