// SequenceRunner runs one sequence through a model without an engine, with its own block table and
// steps of any size.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <memory>
#include <numeric>
#include <random>
#include <span>
#include <vector>

#include "engine/model/model.h"
#include "engine/modelfile/gguf.h"
#include "engine/modelfile/hf_folder.h"

namespace kvgate::model {

inline std::vector<TokenId> RandomTokens(int count, int vocab_size, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<TokenId> tokens;
  for (int i = 0; i < count; ++i) {
    tokens.push_back(static_cast<TokenId>(random() % static_cast<unsigned>(vocab_size)));
  }
  return tokens;
}

inline std::vector<int> AllRows(int count) {
  std::vector<int> rows(static_cast<size_t>(count));
  std::iota(rows.begin(), rows.end(), 0);
  return rows;
}

struct LoadedModel {
  std::shared_ptr<const modelfile::ModelFile> file;
  std::unique_ptr<Model> model;

  static LoadedModel Open(const std::filesystem::path& path, kernels::Backend& backend,
                          const ConfigOptions& options = {}) {
    LoadedModel loaded;
    auto file = modelfile::OpenModelFile(path);
    EXPECT_TRUE(file.has_value()) << file.error().ToString();
    loaded.file = *std::move(file);
    auto model = Model::Load(loaded.file, backend, options);
    EXPECT_TRUE(model.has_value()) << model.error().ToString();
    loaded.model = *std::move(model);
    const auto reserved = loaded.model->Reserve(512, 512);
    EXPECT_TRUE(reserved.has_value());
    return loaded;
  }
};

class SequenceRunner {
 public:
  struct Options {
    int context = 512;
    kernels::DType kv_dtype = kernels::DType::kF16;
  };
  SequenceRunner(Model& model, kernels::Backend& backend, const Options& options) : model_(model) {
    const auto num_blocks = static_cast<uint32_t>((options.context + kernels::kKvBlockTokens - 1) /
                                                  kernels::kKvBlockTokens);
    for (size_t i = 0; i < model.config().kv_groups.size(); ++i) {
      auto arena = backend.AllocateKv(model.config().kv_shape(options.kv_dtype, i), num_blocks);
      EXPECT_TRUE(arena.has_value());
      arenas_.push_back(*std::move(arena));
    }
    // Reversed, so that a block's position and its id differ.
    for (uint32_t i = num_blocks; i > 0; --i) blocks_.push_back(BlockId{i - 1});
  }

  // Runs `tokens` after the previous ones. Returns the logits of the rows in `rows`, concatenated.
  std::vector<float> Step(std::span<const TokenId> tokens, std::span<const int> rows) {
    std::vector<float> logits(rows.size() * static_cast<size_t>(model_.config().vocab_size));
    const kernels::SequenceRows sequence = {.first_row = 0,
                                            .num_rows = static_cast<int>(tokens.size()),
                                            .first_position = position_,
                                            .block_table = blocks_,
                                            .num_dropped_tokens = num_dropped_tokens_,
                                            .block_mass = block_mass};
    std::vector<StepGroup> groups;
    for (const auto& arena : arenas_) {
      groups.push_back({.arena = arena.get(), .sequences = {&sequence, 1}});
    }
    EXPECT_TRUE(model_.Forward({.tokens = tokens, .groups = groups, .logit_rows = rows}, logits)
                    .has_value());
    position_ += static_cast<int>(tokens.size());
    return logits;
  }

  // Like Step, with the logits of the last row only.
  std::vector<float> Last(std::span<const TokenId> tokens) {
    const int last = static_cast<int>(tokens.size()) - 1;
    return Step(tokens, {&last, 1});
  }

  // Removes a full block from the table; the following blocks move up.
  void DropBlock(int index) {
    blocks_.erase(blocks_.begin() + index);
    position_ -= kernels::kKvBlockTokens;
    num_dropped_tokens_ += kernels::kKvBlockTokens;
  }

  uint64_t* block_mass = nullptr;  // see SequenceRows::block_mass

  kernels::KvArena& arena(size_t group = 0) { return *arenas_[group]; }
  size_t num_groups() const { return arenas_.size(); }
  // Continues after tokens whose KV somebody else has put into the blocks.
  void SkipTo(int position) { position_ = position; }
  std::span<const BlockId> blocks() const { return blocks_; }

 private:
  Model& model_;
  std::vector<std::unique_ptr<kernels::KvArena>> arenas_;  // one per KV group
  std::vector<BlockId> blocks_;                            // the same ids in each
  int position_ = 0;                                       // counted in slots
  int num_dropped_tokens_ = 0;
};

// BatchRunner runs several sequences in the same steps.
class BatchRunner {
 public:
  BatchRunner(Model& model, kernels::Backend& backend, const SequenceRunner::Options& options,
              size_t num_sequences)
      : model_(model), positions_(num_sequences, 0), tables_(num_sequences) {
    const auto num_blocks = static_cast<uint32_t>(num_sequences) *
                            static_cast<uint32_t>((options.context + kernels::kKvBlockTokens - 1) /
                                                  kernels::kKvBlockTokens);
    for (size_t i = 0; i < model.config().kv_groups.size(); ++i) {
      auto arena = backend.AllocateKv(model.config().kv_shape(options.kv_dtype, i), num_blocks);
      EXPECT_TRUE(arena.has_value());
      arenas_.push_back(*std::move(arena));
    }
    for (uint32_t i = 0; i < num_blocks; ++i) tables_[i % num_sequences].push_back(BlockId{i});
  }

  // Runs the next tokens of each sequence. Returns the logits of each one's last token.
  std::vector<float> Step(const std::vector<std::span<const TokenId>>& runs) {
    std::vector<TokenId> tokens;
    std::vector<kernels::SequenceRows> sequences;
    std::vector<int> rows;
    for (size_t i = 0; i < runs.size(); ++i) {
      sequences.push_back({.first_row = static_cast<int>(tokens.size()),
                           .num_rows = static_cast<int>(runs[i].size()),
                           .first_position = positions_[i],
                           .block_table = tables_[i]});
      tokens.insert(tokens.end(), runs[i].begin(), runs[i].end());
      rows.push_back(static_cast<int>(tokens.size()) - 1);
      positions_[i] += static_cast<int>(runs[i].size());
    }
    std::vector<StepGroup> groups;
    for (const auto& arena : arenas_) {
      groups.push_back({.arena = arena.get(), .sequences = sequences});
    }
    std::vector<float> logits(rows.size() * static_cast<size_t>(model_.config().vocab_size));
    EXPECT_TRUE(model_.Forward({.tokens = tokens, .groups = groups, .logit_rows = rows}, logits)
                    .has_value());
    return logits;
  }

 private:
  Model& model_;
  std::vector<std::unique_ptr<kernels::KvArena>> arenas_;  // one per KV group
  std::vector<int> positions_;
  std::vector<std::vector<BlockId>> tables_;
};

}  // namespace kvgate::model
