// StepRunner: a step as the model takes it, and the logits that come of it. One thread: the
// engine's.
#pragma once

#include <cstddef>
#include <vector>

#include <kvgate/ids.h>
#include <kvgate/result.h>

#include "engine/engine.h"
#include "engine/model/model.h"
#include "engine/sample/logit_row.h"
#include "engine/schedule/scheduler.h"

namespace kvgate::engine {

class StepRunner {
 public:
  // `arenas` of each KV group; all outlive the runner. logit_head_tokens: EngineOptions'.
  StepRunner(const EngineInfo& info, int logit_head_tokens, model::Model& model,
             std::vector<kernels::KvArena*> arenas);

  // What Run computes.
  void Gather(const std::vector<schedule::StepItem>& step);
  // kDataLoss, kIo: the model file is not what was loaded; nothing was computed.
  Result<void> Run();
  // Of the step's wanted row `index`. Valid until the next one is fetched.
  sample::LogitRow Logits(size_t index);

 private:
  int HeadTokens(int wanted) const;

  const EngineInfo& info_;
  const int logit_head_tokens_;  // 0: rows come whole
  model::Model& model_;
  const std::vector<kernels::KvArena*> arenas_;
  // Of the current step; kept between steps for their memory.
  std::vector<TokenId> tokens_;
  std::vector<std::vector<kernels::SequenceRows>> rows_;  // of each group
  std::vector<model::StepGroup> groups_;
  std::vector<int> logit_rows_;
  std::vector<float> scales_;  // of each logit row
  model::LogitHeads heads_;
  std::vector<float> logits_;  // of all rows, or of the one that was fetched
};

}  // namespace kvgate::engine
