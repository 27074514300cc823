#include "engine/embed/embedding_model.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/check.h"

namespace kvgate::embed {

using kernels::kKvBlockTokens;
using model::Pooling;

namespace {

size_t BlocksFor(size_t num_tokens) { return (num_tokens + kKvBlockTokens - 1) / kKvBlockTokens; }

}  // namespace

Result<std::unique_ptr<EmbeddingModel>> EmbeddingModel::Load(
    std::shared_ptr<const modelfile::ModelFile> file, kernels::Backend& backend,
    const EmbeddingModelOptions& options) {
  const model::ConfigOptions config = {.context_tokens = options.context_tokens,
                                       .purpose = model::Purpose::kEmbeddings};
  KVGATE_TRY(auto loaded, model::Model::Load(std::move(file), backend, config));
  std::unique_ptr<EmbeddingModel> model(new EmbeddingModel(std::move(loaded), backend, options));
  KVGATE_TRY_VOID(model->Reserve(static_cast<size_t>(model->step_tokens_)));
  return model;
}

EmbeddingModel::EmbeddingModel(std::unique_ptr<model::Model> model, kernels::Backend& backend,
                               const EmbeddingModelOptions& options)
    : model_(std::move(model)),
      backend_(backend),
      context_tokens_(std::min(model_->config().context_length, options.context_tokens > 0
                                                                    ? options.context_tokens
                                                                    : kContextTokensMax)),
      step_tokens_(options.step_tokens) {
  KVGATE_CHECK(options.step_tokens > 0, "tokens of a step");
}

bool EmbeddingModel::Fits(size_t num_texts, size_t num_tokens, size_t more_tokens) const {
  if (num_texts == 0) return true;
  if (!backend_.Info().invariant || num_texts >= kStepTextsMax) return false;
  return num_tokens + more_tokens <= static_cast<size_t>(step_tokens_);
}

// Grows by doubling, so that texts that get a little longer each time do not allocate each time.
Result<void> EmbeddingModel::Reserve(size_t num_tokens) {
  if (num_tokens <= reserved_tokens_) return {};
  size_t wanted = std::max<size_t>(reserved_tokens_, 1);
  while (wanted < num_tokens) wanted *= 2;
  wanted = std::min(wanted, static_cast<size_t>(std::max(context_tokens_, step_tokens_)));
  reserved_tokens_ = 0;  // until all of it is there
  arena_.reset();
  KVGATE_TRY_VOID(model_->Reserve(static_cast<int>(wanted), static_cast<int>(wanted)));
  // Every text begins a block.
  const size_t num_blocks = BlocksFor(wanted) + kStepTextsMax;
  KVGATE_TRY(arena_, backend_.AllocateKv(model_->config().kv_shape(kernels::DType::kF32),
                                         static_cast<uint32_t>(num_blocks)));
  blocks_.clear();
  for (uint32_t i = 0; i < num_blocks; ++i) blocks_.push_back(BlockId{i});
  reserved_tokens_ = wanted;
  return {};
}

Result<void> EmbeddingModel::Embed(std::span<const Text> texts, std::span<float> vectors) {
  const auto width = static_cast<size_t>(dimensions());
  KVGATE_CHECK(!texts.empty() && texts.size() <= kStepTextsMax, "texts of a step");
  KVGATE_CHECK(vectors.size() == texts.size() * width, "size of the vectors");
  const Pooling pooling = *config().pooling;
  tokens_.clear();
  sequences_.clear();
  wanted_.clear();
  size_t num_tokens = 0;
  for (const Text& text : texts) num_tokens += text.size();
  KVGATE_TRY_VOID(Reserve(num_tokens));
  size_t next_block = 0;
  for (const Text& text : texts) {
    KVGATE_CHECK(!text.empty() && text.size() <= static_cast<size_t>(context_tokens_),
                 "tokens of a text");
    const size_t num_blocks = BlocksFor(text.size());
    const auto first = static_cast<int>(tokens_.size());
    const auto count = static_cast<int>(text.size());
    sequences_.push_back({.first_row = first,
                          .num_rows = count,
                          .first_position = 0,
                          .block_table = std::span(blocks_).subspan(next_block, num_blocks)});
    next_block += num_blocks;
    tokens_.insert(tokens_.end(), text.begin(), text.end());
    const int begin = pooling == Pooling::kLast ? first + count - 1 : first;
    const int end = pooling == Pooling::kFirst ? first + 1 : first + count;
    for (int row = begin; row < end; ++row) wanted_.push_back(row);
  }
  rows_.resize(wanted_.size() * width);
  const model::StepGroup group = {.arena = arena_.get(), .sequences = sequences_};
  KVGATE_TRY_VOID(model_->ForwardRows(
      {.tokens = tokens_, .groups = {&group, 1}, .logit_rows = wanted_}, rows_));
  Pool(texts, vectors);
  return {};
}

// The mean is summed in double in the order of the text, whatever shares the step.
void EmbeddingModel::Pool(std::span<const Text> texts, std::span<float> vectors) const {
  const auto width = static_cast<size_t>(dimensions());
  const bool is_mean = *config().pooling == Pooling::kMean;
  std::vector<double> sums(width);
  size_t row = 0;
  for (size_t i = 0; i < texts.size(); ++i) {
    const size_t num_rows = is_mean ? texts[i].size() : 1;
    std::ranges::fill(sums, 0.0);
    for (size_t end = row + num_rows; row < end; ++row) {
      for (size_t j = 0; j < width; ++j) sums[j] += static_cast<double>(rows_[row * width + j]);
    }
    const std::span<float> vector = vectors.subspan(i * width, width);
    for (size_t j = 0; j < width; ++j) {
      vector[j] = static_cast<float>(sums[j] / static_cast<double>(num_rows));
    }
    Normalize(vector);
  }
}

void Normalize(std::span<float> vector) {
  double squares = 0;
  for (const float value : vector) squares += static_cast<double>(value) * value;
  if (squares == 0) return;
  const double factor = 1 / std::sqrt(squares);
  for (float& value : vector) value = static_cast<float>(value * factor);
}

}  // namespace kvgate::embed
