// LocalStream: an engine request as an EventStream. The engine thread puts tokens into a pending
// buffer under a mutex held for an append; the reader takes the buffer whole. So a slow reader
// costs memory, never the engine's time, and that memory is bounded: beyond pending_bytes_max the
// request is cancelled.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <kvgate/result.h>

#include "engine/engine.h"
#include "gateway/metrics/gateway_metrics.h"
#include "gateway/local/event_stream.h"

namespace kvgate::provider {

struct LocalStreamOptions {
  engine::Engine& engine;
  const tokenizer::Tokenizer& tokenizer;  // spells the tokens of log-probabilities
  metrics::GatewayMetrics* metrics = nullptr;
  bool logprobs = false;
  bool logits_hash = false;
  std::vector<protocol::PromptSegment> segments = {};  // handed through to the FinishEvent
  protocol::PromptUsage usage = {};                    // likewise, and to the BeginEvent
  std::vector<std::string> caller_stops = {};  // which of the stop strings the caller gets to know
  size_t pending_bytes_max = size_t{16} << 20;
  // Called on the engine thread when the reader has something to take; must not block.
  std::function<void()> wake = {};
};

// Submits the request (whose sink is set here).
Result<std::unique_ptr<EventStream>> StartLocalStream(engine::GenerationRequest request,
                                                      LocalStreamOptions options);

}  // namespace kvgate::provider
