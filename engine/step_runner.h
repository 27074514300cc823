// StepRunner: turns a planned step into the model's input and provides the resulting logits. Engine
// thread only.
#pragma once

#include <cstddef>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "engine/engine.h"
#include "engine/model/model.h"
#include "engine/sample/logit_row.h"
#include "engine/schedule/scheduler.h"
#include "engine/tier/kv_group.h"

namespace kvgate::engine {

class StepRunner {
 public:
  // All arguments outlive the runner. logit_head_tokens is the one of EngineOptions.
  StepRunner(const EngineInfo& info, int logit_head_tokens, model::Model& model,
             const tier::KvGroups& groups);

  // Builds the model input that Run computes.
  void Gather(const std::vector<schedule::StepItem>& step);
  // Fails with kDataLoss or kIo if the model file is no longer what was loaded; nothing was
  // computed.
  Result<void> Run();
  // Returns the logits of the step's item `index` among those that want logits. Valid until the
  // next call.
  sample::LogitRow Logits(size_t index);

 private:
  int HeadTokens(int wanted) const;

  const EngineInfo& info_;
  const int logit_head_tokens_;  // 0 means that rows are copied whole
  model::Model& model_;
  const tier::KvGroups& kv_groups_;
  // Buffers of the current step, kept between steps to reuse their memory.
  std::vector<TokenId> tokens_;
  std::vector<std::vector<kernels::SequenceRows>> rows_;  // per group
  std::vector<model::StepGroup> groups_;
  std::vector<int> logit_rows_;
  std::vector<float> scales_;  // per logit row
  model::LogitHeads heads_;
  std::vector<float> logits_;  // all rows, or the one that was fetched last
};

}  // namespace kvgate::engine
