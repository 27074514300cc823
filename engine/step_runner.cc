#include "engine/step_runner.h"

#include <algorithm>
#include <span>
#include <utility>

#include "engine/generation.h"

namespace kvgate::engine {

using schedule::Sequence;

StepRunner::StepRunner(const EngineInfo& info, int logit_head_tokens, model::Model& model,
                       const tier::KvGroups& groups)
    : info_(info),
      logit_head_tokens_(HeadTokens(logit_head_tokens)),
      model_(model),
      kv_groups_(groups),
      rows_(groups.size()) {}

void StepRunner::Gather(const std::vector<schedule::StepItem>& step) {
  tokens_.clear();
  groups_.clear();
  for (auto& rows : rows_) rows.clear();
  logit_rows_.clear();
  scales_.clear();
  for (const schedule::StepItem& item : step) {
    Sequence& sequence = *item.sequence;
    const int first_row = static_cast<int>(tokens_.size());
    const auto begin = sequence.tokens.begin() + sequence.num_computed;
    tokens_.insert(tokens_.end(), begin, begin + item.num_tokens);
    for (size_t group = 0; group < rows_.size(); ++group) {
      rows_[group].push_back(
          {.first_row = first_row,
           .num_rows = item.num_tokens,
           .first_position = sequence.num_slots(),
           .block_table = sequence.held[group].block_table,
           .num_dropped_tokens = sequence.num_dropped_tokens,
           .block_mass = sequence.counts_mass() ? sequence.block_mass.data() : nullptr});
    }
    if (!item.wants_logits) continue;
    logit_rows_.push_back(first_row + item.num_tokens - 1);
    scales_.push_back(GenerationOf(sequence).inverse_temperature());
  }
  for (size_t group = 0; group < rows_.size(); ++group) {
    groups_.push_back({.arena = &kv_groups_[group].arena(), .sequences = rows_[group]});
  }
}

int StepRunner::HeadTokens(int wanted) const {
  if (info_.model.vocab_size > kernels::kTopColumnsMax) return 0;
  if (wanted < 0) return info_.backend.kv_host_visible ? 0 : kernels::kTopCountMax;
  return std::min(wanted, kernels::kTopCountMax);
}

Result<void> StepRunner::Run() {
  const model::StepInput input = {.tokens = tokens_, .groups = groups_, .logit_rows = logit_rows_};
  const auto vocab_size = static_cast<size_t>(info_.model.vocab_size);
  if (logit_head_tokens_ == 0) {
    logits_.resize(logit_rows_.size() * vocab_size);
    return model_.Forward(input, logits_);
  }
  logits_.resize(vocab_size);
  heads_.count = logit_head_tokens_;
  return model_.ForwardHeads(input, scales_, heads_);
}

sample::LogitRow StepRunner::Logits(size_t index) {
  const auto vocab_size = static_cast<size_t>(info_.model.vocab_size);
  if (logit_head_tokens_ == 0) {
    return sample::LogitRow(std::span(logits_).subspan(index * vocab_size, vocab_size));
  }
  const auto count = static_cast<size_t>(heads_.count);
  const sample::LogitHead head = {.tokens = std::span(heads_.tokens).subspan(index * count, count),
                                  .logits = std::span(heads_.logits).subspan(index * count, count),
                                  .exp_sum = heads_.exp_sums[index],
                                  .tempered_exp_sum = heads_.scaled_sums[index],
                                  .tolerance = kernels::kExpSumTolerance};
  return sample::LogitRow(head, vocab_size, [this, index] {
    model_.ReadLogits(index, logits_);
    return std::span<const float>(logits_);
  });
}

}  // namespace kvgate::engine
