// LocalStream presents an engine request as an EventStream. The engine thread appends tokens to a
// pending buffer under a briefly held mutex, and the reader takes the whole buffer. A slow reader
// therefore costs memory, never the engine's time. That memory is bounded: beyond pending_bytes_max
// no more is stored, and the request is cancelled at the next Take.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "engine/engine.h"
#include "gateway/local/event_stream.h"
#include "gateway/metrics/gateway_metrics.h"

namespace kvgate::local {

struct LocalStreamOptions {
  engine::Engine& engine;
  const tokenizer::Tokenizer& tokenizer;  // spells the tokens of log-probabilities
  metrics::GatewayMetrics* metrics = nullptr;
  bool logprobs = false;
  bool logits_hash = false;
  std::vector<dialect::form::PromptSegment> segments = {};  // copied to the FinishEvent
  dialect::form::PromptUsage usage = {};  // copied to the BeginEvent; partly to the FinishEvent
  std::vector<std::string> caller_stops = {};  // stop strings that are reported to the caller
  size_t pending_bytes_max = size_t{16} << 20;
  // Called on the engine thread when the reader has something to take; must not block.
  std::function<void()> wake = {};
};

// Submits the request, whose sink is set here.
Result<std::unique_ptr<EventStream>> StartLocalStream(engine::GenerationRequest request,
                                                      LocalStreamOptions options);

}  // namespace kvgate::local
