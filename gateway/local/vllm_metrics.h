// VllmMetrics: the engine's numbers under the names that vLLM gives them, for routers and boards
// that read those (metrics.compat). They are the local engine's alone: vLLM forwards nothing.
#pragma once

#include <string_view>

#include "engine/engine.h"
#include "gateway/metrics/answer_metrics.h"
#include "gateway/metrics/registry.h"

namespace kvgate::local {

struct VllmNumbers {
  std::string_view model_name;
  const engine::EngineInfo& info;
  const engine::EngineStats& stats;
  const metrics::AnswerTimes& times;  // of the local engine
};
void CollectVllm(const VllmNumbers& numbers, metrics::TextWriter& writer);

}  // namespace kvgate::local
