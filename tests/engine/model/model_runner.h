// One sequence through a model without an engine: a block table of its own, steps of any size.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <memory>
#include <span>
#include <vector>

#include "engine/model/hf_folder.h"
#include "engine/model/model.h"

namespace kvgate::model {

struct LoadedModel {
  std::shared_ptr<const ModelFile> file;
  std::unique_ptr<Model> model;

  static LoadedModel Open(const std::filesystem::path& path, kernels::Backend& backend) {
    LoadedModel loaded;
    auto file = OpenModelFile(path);
    EXPECT_TRUE(file.has_value()) << file.error().ToString();
    loaded.file = *std::move(file);
    auto model = Model::Load(loaded.file, backend);
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
    auto arena = backend.AllocateKv(model.config().kv_shape(options.kv_dtype), num_blocks);
    EXPECT_TRUE(arena.has_value());
    arena_ = *std::move(arena);
    // In reverse, so that a block's place and its number differ.
    for (uint32_t i = num_blocks; i > 0; --i) blocks_.push_back(BlockId{i - 1});
  }

  // Runs `tokens` behind what came before; logits of the rows in `rows`, one after the other.
  std::vector<float> Step(std::span<const TokenId> tokens, std::span<const int> rows) {
    std::vector<float> logits(rows.size() * static_cast<size_t>(model_.config().vocab_size));
    const kernels::SequenceRows sequence = {.first_row = 0,
                                            .num_rows = static_cast<int>(tokens.size()),
                                            .first_position = position_,
                                            .block_table = blocks_,
                                            .num_dropped_tokens = num_dropped_tokens_,
                                            .block_mass = block_mass};
    const StepGroup group{.arena = arena_.get(), .sequences = {&sequence, 1}};
    model_.Forward({.tokens = tokens, .groups = {&group, 1}, .logit_rows = rows}, logits);
    position_ += static_cast<int>(tokens.size());
    return logits;
  }

  // The same, with the logits of the last row only.
  std::vector<float> Last(std::span<const TokenId> tokens) {
    const int last = static_cast<int>(tokens.size()) - 1;
    return Step(tokens, {&last, 1});
  }

  // Takes a full block out of the table; what follows moves up.
  void DropBlock(int index) {
    blocks_.erase(blocks_.begin() + index);
    position_ -= kernels::kKvBlockTokens;
    num_dropped_tokens_ += kernels::kKvBlockTokens;
  }

  uint64_t* block_mass = nullptr;  // as SequenceRows has it

  kernels::KvArena& arena() { return *arena_; }
  std::span<const BlockId> blocks() const { return blocks_; }

 private:
  Model& model_;
  std::unique_ptr<kernels::KvArena> arena_;
  std::vector<BlockId> blocks_;
  int position_ = 0;  // in slots
  int num_dropped_tokens_ = 0;
};

}  // namespace kvgate::model
