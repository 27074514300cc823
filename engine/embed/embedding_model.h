// EmbeddingModel: a model that makes one vector for each text, with the memory that it computes in.
// It knows token ids, not texts, requests or threads. One thread at a time.
//
// Each text is computed in one step, from its first token to its last, so nothing is kept between
// steps, and all layers share one layer of KV. Several short texts share a step if the backend is
// invariant: a text's vector then has the same bits alone and in any company. Otherwise each has a
// step of its own.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "engine/model/model.h"
#include "engine/modelfile/model_file.h"
#include "kernels/backend.h"

namespace kvgate::embed {

struct EmbeddingModelOptions {
  // Limit of a text; 0 means the model's own, but no more than kContextTokensMax. Memory grows to
  // what the longest text so far has needed.
  int context_tokens = 0;
  int step_tokens = 512;  // of the texts that share a step; a longer one has a step of its own
};

class EmbeddingModel {
 public:
  static constexpr int kContextTokensMax = 8192;
  static constexpr size_t kStepTextsMax = 64;

  // Fails as model::Model::Load does, and with kUnsupported if the file states no pooling that
  // makes one vector of a text. The backend must outlive it.
  static Result<std::unique_ptr<EmbeddingModel>> Load(
      std::shared_ptr<const modelfile::ModelFile> file, kernels::Backend& backend,
      const EmbeddingModelOptions& options = {});

  const model::ModelConfig& config() const { return model_->config(); }
  size_t weight_bytes() const { return model_->weight_bytes(); }
  int dimensions() const { return model_->config().hidden_dim; }
  int context_tokens() const { return context_tokens_; }
  int step_tokens() const { return step_tokens_; }
  // Returns true if a text fits into a step that has these already.
  bool Fits(size_t num_texts, size_t num_tokens, size_t more_tokens) const;

  using Text = std::span<const TokenId>;
  // Writes the vectors of these texts, [texts.size(), dimensions()], each of length 1 (or 0, if the
  // model gives nothing but zeros). Fails with kOverloaded if there is no memory for a text of that
  // length, and as model::Model::Forward does. REQUIRES: each text has 1 to context_tokens() tokens
  // of the vocabulary, and together they fit into a step.
  Result<void> Embed(std::span<const Text> texts, std::span<float> vectors);

 private:
  EmbeddingModel(std::unique_ptr<model::Model> model, kernels::Backend& backend,
                 const EmbeddingModelOptions& options);
  Result<void> Reserve(size_t num_tokens);
  void Pool(std::span<const Text> texts, std::span<float> vectors) const;

  const std::unique_ptr<model::Model> model_;
  kernels::Backend& backend_;
  const int context_tokens_;
  const int step_tokens_;
  size_t reserved_tokens_ = 0;
  std::unique_ptr<kernels::KvArena> arena_;  // for the texts of one step
  std::vector<BlockId> blocks_;              // of the arena, in order
  // Scratch of one step, kept to reuse its memory.
  std::vector<TokenId> tokens_;
  std::vector<kernels::SequenceRows> sequences_;
  std::vector<int> wanted_;
  std::vector<float> rows_;
};

// Scales a vector to length 1; one of zeros stays as it is.
void Normalize(std::span<float> vector);

}  // namespace kvgate::embed
