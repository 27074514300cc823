// A mixture of experts in file form, and one loaded by a backend. The router copies the first
// columns of a row to its logits, exactly on every backend, so the test decides which experts are
// chosen.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "kernels/experts.h"
#include "tests/kernels/test_tensors.h"

namespace kvgate::kernels {

struct MixtureOptions {
  ExpertRule rule = {.num_experts = 8, .num_used = 3};
  GluKind glu = GluKind::kSilu;
  int64_t hidden_dim = 128;
  int64_t ffn_dim = 96;
  int64_t shared_dim = 0;
  bool has_shared_router = false;
  bool has_biases = false;
  std::vector<float> router_bias = {};
  // The dtypes of gate, up and down: expert e has dtypes[(3 * e + part) % size].
  std::vector<DType> dtypes = {DType::kF16};
  uint64_t seed = 1;
};

class TestMixture {
 public:
  explicit TestMixture(const MixtureOptions& options) : options_(options) {
    const int num_experts = options.rule.num_experts;
    router_.resize(static_cast<size_t>(num_experts * options.hidden_dim));
    for (int i = 0; i < num_experts; ++i) {
      router_[static_cast<size_t>(i * options.hidden_dim + i)] = 1;
    }
    for (int i = 0; i < num_experts; ++i) AddMatrices(options.ffn_dim, i);
    if (options.shared_dim > 0) AddMatrices(options.shared_dim, num_experts);
    shared_router_ = NormalValues(static_cast<size_t>(options.hidden_dim), options.seed + 7, 0.1f);
  }

  const MixtureOptions& options() const { return options_; }
  const std::vector<TestWeight>& weights() const { return weights_; }
  WeightView router() const { return ViewOf(router_); }
  WeightView shared_router() const { return ViewOf(shared_router_); }
  ExpertShape shape() const {
    return {.num_experts = options_.rule.num_experts,
            .num_used = options_.rule.num_used,
            .hidden_dim = options_.hidden_dim,
            .ffn_dim = options_.ffn_dim,
            .shared_dim = options_.shared_dim};
  }
  // [num_experts, columns], or empty.
  std::vector<float> Biases(int64_t columns, uint64_t seed) const {
    if (!options_.has_biases) return {};
    return NormalValues(static_cast<size_t>(options_.rule.num_experts * columns), seed, 0.5f);
  }

 private:
  WeightView ViewOf(const std::vector<float>& values) const {
    return {.dtype = DType::kF32,
            .data = reinterpret_cast<const std::byte*>(values.data()),
            .rows = static_cast<int64_t>(values.size()) / options_.hidden_dim,
            .columns = options_.hidden_dim};
  }
  void AddMatrices(int64_t ffn_dim, int expert) {
    for (size_t part = 0; part < 3; ++part) {
      const DType dtype =
          options_.dtypes[(3 * static_cast<size_t>(expert) + part) % options_.dtypes.size()];
      const bool is_down = part == 2;
      weights_.emplace_back(dtype, is_down ? options_.hidden_dim : ffn_dim,
                            is_down ? ffn_dim : options_.hidden_dim,
                            options_.seed * 1000 + weights_.size());
    }
  }

  MixtureOptions options_;
  std::vector<float> router_;
  std::vector<float> shared_router_;
  std::vector<TestWeight> weights_;  // gate, up and down of each expert, then of the shared one
};

class LoadedMixture {
 public:
  LoadedMixture(Backend& backend, const TestMixture& mixture, int num_rows_max)
      : backend_(backend), hidden_dim_(mixture.options().hidden_dim) {
    const MixtureOptions& options = mixture.options();
    for (const TestWeight& weight : mixture.weights()) {
      WeightView view = weight.view();
      view.is_expert = true;
      weights_.push_back(std::move(*backend.LoadWeight(view)));
    }
    router_ = std::move(*backend.LoadWeight(mixture.router()));
    shared_router_ = std::move(*backend.LoadWeight(mixture.shared_router()));
    std::vector<ExpertMatrices> matrices;
    for (size_t i = 0; i < weights_.size(); i += 3) {
      matrices.push_back(
          {.gate = weights_[i].get(), .up = weights_[i + 1].get(), .down = weights_[i + 2].get()});
    }
    const auto num_experts = static_cast<size_t>(options.rule.num_experts);
    ExpertSetView view = {.rule = options.rule,
                          .glu = options.glu,
                          .router = router_.get(),
                          .router_bias = Buffer(options.router_bias),
                          .experts = std::span(matrices).first(num_experts),
                          .gate_bias = Buffer(mixture.Biases(options.ffn_dim, 21)),
                          .up_bias = Buffer(mixture.Biases(options.ffn_dim, 22)),
                          .down_bias = Buffer(mixture.Biases(options.hidden_dim, 23))};
    if (options.shared_dim > 0) view.shared = matrices.back();
    if (options.has_shared_router) view.shared_router = shared_router_.get();
    set_ = std::move(*backend.LoadExperts(view));
    scratch_ = std::move(*backend.AllocateExpertScratch(mixture.shape(), num_rows_max));
  }

  const ExpertScratch& scratch() const { return *scratch_; }
  void Mix(const float* x, int num_rows, float factor, float* y) {
    backend_.MixExperts({.experts = set_.get(),
                         .scratch = scratch_.get(),
                         .x = x,
                         .num_rows = num_rows,
                         .factor = factor,
                         .y = y});
  }
  // Returns y after the mixture of x is added to values of 0.25.
  std::vector<float> Run(std::span<const float> x, float factor = 1) {
    TestFloats device_x(backend_, x);
    TestFloats y(backend_, std::vector<float>(x.size(), 0.25f));
    Mix(device_x.data(), static_cast<int>(std::ssize(x) / hidden_dim_), factor, y.data());
    return y.Read();
  }

 private:
  const float* Buffer(std::span<const float> values) {
    if (values.empty()) return nullptr;
    buffers_.push_back(std::make_unique<TestFloats>(backend_, values));
    return buffers_.back()->data();
  }

  Backend& backend_;
  int64_t hidden_dim_;
  std::vector<std::unique_ptr<Weight>> weights_;
  std::unique_ptr<Weight> router_;
  std::unique_ptr<Weight> shared_router_;
  std::vector<std::unique_ptr<TestFloats>> buffers_;
  std::unique_ptr<ExpertSet> set_;
  std::unique_ptr<ExpertScratch> scratch_;
};

// Returns rows whose logits are `logit_of` applied to random numbers below 1000.
template <typename LogitOf>
std::vector<float> MixtureRows(const MixtureOptions& options, int num_rows, uint64_t seed,
                               LogitOf logit_of) {
  std::vector<float> x = NormalValues(static_cast<size_t>(num_rows * options.hidden_dim), seed);
  TestRandom random(seed + 1);
  for (int row = 0; row < num_rows; ++row) {
    for (int i = 0; i < options.rule.num_experts; ++i) {
      x[static_cast<size_t>(row * options.hidden_dim + i)] =
          logit_of(static_cast<int>(random.Below(1000)));
    }
  }
  return x;
}
inline std::vector<float> MixtureRows(const MixtureOptions& options, int num_rows, uint64_t seed) {
  return MixtureRows(options, num_rows, seed,
                     [](int value) { return static_cast<float>(value) / 300 - 1.5f; });
}

}  // namespace kvgate::kernels
