// WindowModel has windows and is all memory: it computes a hash of each token and of every KV value
// that the token's layers see, read from the arenas through the block tables. A block that is
// wrong, stale or missing anywhere in a window changes every token from there on.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "base/check.h"
#include "engine/model/model.h"
#include "kernels/cpu/top_k.h"

namespace kvgate::engine {

class WindowModel final : public model::Model {
 public:
  struct Options {
    std::vector<int> windows = {0, 40};  // one per group
    int vocab_size = 600;
    // Added to each of the first kWarmUpSteps steps, which measure the cost of prefill, so that a
    // load pays on any machine.
    std::chrono::milliseconds warm_up_delay{0};
    std::chrono::microseconds token_delay{0};
    std::function<void(size_t)> on_tokens = {};  // called with the number of tokens of each step
  };
  static constexpr int kWarmUpSteps = 4;

  explicit WindowModel(Options options) : options_(std::move(options)) {
    config_.architecture = "windows";
    config_.num_kv_heads = 1;
    config_.head_dim = 2;
    config_.vocab_size = options_.vocab_size;
    config_.context_length = 4096;
    for (size_t i = 0; i < options_.windows.size(); ++i) {
      config_.kv_groups.push_back(
          {.window = options_.windows[i], .num_layers = 1 + static_cast<int>(i)});
      config_.num_layers += 1 + static_cast<int>(i);
    }
  }

  const model::ModelConfig& config() const override { return config_; }
  size_t weight_bytes() const override { return 0; }
  Fingerprint fingerprint() const override { return {.low = 7, .high = 7}; }
  const model::EmbeddingTable* rows_in_file() const override { return nullptr; }
  Result<void> Reserve(int, int) override { return {}; }

  Result<void> Forward(const model::StepInput& input, std::span<float> logits) override {
    if (num_steps_++ < kWarmUpSteps) std::this_thread::sleep_for(options_.warm_up_delay);
    std::this_thread::sleep_for(options_.token_delay * input.tokens.size());
    if (options_.on_tokens) options_.on_tokens(input.tokens.size());
    std::vector<uint64_t> values(input.tokens.size());
    for (size_t s = 0; s < input.groups[0].sequences.size(); ++s) {
      const kernels::SequenceRows& rows = input.groups[0].sequences[s];
      for (int i = 0; i < rows.num_rows; ++i) {
        const auto row = static_cast<size_t>(rows.first_row + i);
        const int position = rows.first_position + i;
        uint64_t value = Begin(input.tokens[row], position);
        for (size_t g = 0; g < input.groups.size(); ++g) {
          const model::StepGroup& group = input.groups[g];
          for (int p = FirstSeen(g, position); p < position; ++p) {
            value = Mix(value, Read(group, s, p));
          }
        }
        for (size_t g = 0; g < input.groups.size(); ++g) {
          Write(input.groups[g], s, position, Mix(value, g));
        }
        values[row] = value;
      }
    }
    for (size_t i = 0; i < input.logit_rows.size(); ++i) {
      const auto vocab_size = static_cast<size_t>(options_.vocab_size);
      const std::span<float> row = logits.subspan(i * vocab_size, vocab_size);
      std::ranges::fill(row, 0.0f);
      const uint64_t value = values[static_cast<size_t>(input.logit_rows[i])];
      row[static_cast<size_t>(Choose(value))] = 1.0f + static_cast<float>(value % 4096);
    }
    return {};
  }

  Result<void> ForwardHeads(const model::StepInput& input, std::span<const float> scales,
                            model::LogitHeads& heads) override {
    const size_t num_rows = input.logit_rows.size();
    logits_.resize(num_rows * static_cast<size_t>(options_.vocab_size));
    KVGATE_TRY_VOID(Forward(input, logits_));
    heads.tokens.resize(num_rows * static_cast<size_t>(heads.count));
    heads.logits.resize(heads.tokens.size());
    heads.exp_sums.resize(num_rows);
    heads.scaled_sums.resize(num_rows);
    for (size_t row = 0; row < num_rows; ++row) {
      kernels::cpu::TopOfRow({.x = logits_.data(),
                              .num_rows = static_cast<int>(num_rows),
                              .columns = options_.vocab_size,
                              .count = heads.count,
                              .scales = scales},
                             static_cast<int64_t>(row),
                             {.ids = heads.tokens.data(),
                              .values = heads.logits.data(),
                              .exp_sums = heads.exp_sums.data(),
                              .scaled_exp_sums = heads.scaled_sums.data()});
    }
    return {};
  }
  void ReadLogits(size_t index, std::span<float> logits) override {
    std::copy_n(logits_.data() + index * logits.size(), logits.size(), logits.data());
  }
  Result<void> ForwardRows(const model::StepInput&, std::span<float>) override {
    KVGATE_CHECK(false, "it makes no embeddings");
  }

  // Returns the model's tokens after the prompt, without any engine.
  std::vector<TokenId> Answer(std::vector<TokenId> tokens, int num_tokens) const {
    std::vector<TokenId> answer;
    std::vector<uint64_t> values;
    while (std::ssize(answer) < num_tokens) {
      for (auto position = static_cast<int>(values.size()); position < std::ssize(tokens);
           ++position) {
        uint64_t value = Begin(tokens[static_cast<size_t>(position)], position);
        for (size_t g = 0; g < options_.windows.size(); ++g) {
          for (int p = FirstSeen(g, position); p < position; ++p) {
            value = Mix(value, Mix(values[static_cast<size_t>(p)], g));
          }
        }
        values.push_back(value);
      }
      answer.push_back(Choose(values.back()));
      tokens.push_back(answer.back());
    }
    return answer;
  }

 private:
  static uint64_t Mix(uint64_t a, uint64_t b) {
    uint64_t x = a * 0x9e3779b97f4a7c15ULL ^ (b + 0x2545f4914f6cdd1dULL);
    x ^= x >> 29;
    return x * 0xbf58476d1ce4e5b9ULL;
  }
  static uint64_t Begin(TokenId token, int position) {
    return Mix(static_cast<uint64_t>(token), static_cast<uint64_t>(position));
  }
  TokenId Choose(uint64_t value) const {
    return 3 +
           static_cast<TokenId>((value >> 20) % static_cast<uint64_t>(options_.vocab_size - 10));
  }
  int FirstSeen(size_t group, int position) const {
    const int window = options_.windows[group];
    return window == 0 ? 0 : std::max(0, position - window + 1);
  }
  // Every lane of a block holds the token's value, so a loss shows in whichever part of the block
  // it is.
  static uint64_t Read(const model::StepGroup& group, size_t sequence, int position) {
    const std::byte* block = BlockOf(group, sequence, position);
    const auto token = static_cast<size_t>(position % kernels::kKvBlockTokens);
    uint64_t first = LoadFrom(block, token);
    for (size_t lane = 1; lane < NumLanes(group); ++lane) {
      const uint64_t value = LoadFrom(block + lane * kLaneBytes, token);
      if (value != first) first = ~value;
    }
    return first;
  }
  static void Write(const model::StepGroup& group, size_t sequence, int position, uint64_t value) {
    std::byte* block = BlockOf(group, sequence, position);
    const auto token = static_cast<size_t>(position % kernels::kKvBlockTokens);
    for (size_t lane = 0; lane < NumLanes(group); ++lane) {
      StoreTo(block + lane * kLaneBytes, token, value);
    }
  }
  // A lane has the layout of one F16 layer on the CPU backend: two planes of K by token, then V
  // token by token. A copy of a block's first tokens thus takes just their values along.
  static constexpr size_t kLaneBytes = 8 * kernels::kKvBlockTokens;
  static constexpr size_t kPlaneBytes = 2 * kernels::kKvBlockTokens;
  static uint64_t LoadFrom(const std::byte* lane, size_t token) {
    uint64_t value = 0;
    auto* const bytes = reinterpret_cast<std::byte*>(&value);
    std::memcpy(bytes, lane + 2 * token, 2);
    std::memcpy(bytes + 2, lane + kPlaneBytes + 2 * token, 2);
    std::memcpy(bytes + 4, lane + 2 * kPlaneBytes + 4 * token, 4);
    return value;
  }
  static void StoreTo(std::byte* lane, size_t token, uint64_t value) {
    const auto* const bytes = reinterpret_cast<const std::byte*>(&value);
    std::memcpy(lane + 2 * token, bytes, 2);
    std::memcpy(lane + kPlaneBytes + 2 * token, bytes + 2, 2);
    std::memcpy(lane + 2 * kPlaneBytes + 4 * token, bytes + 4, 4);
  }
  static size_t NumLanes(const model::StepGroup& group) {
    return group.arena->block_bytes() / kLaneBytes;
  }
  static std::byte* BlockOf(const model::StepGroup& group, size_t sequence, int position) {
    const auto& table = group.sequences[sequence].block_table;
    return group.arena->block(table[static_cast<size_t>(position / kernels::kKvBlockTokens)]);
  }

  Options options_;
  model::ModelConfig config_;
  std::vector<float> logits_;  // of the last ForwardHeads
  int num_steps_ = 0;
};

}  // namespace kvgate::engine
