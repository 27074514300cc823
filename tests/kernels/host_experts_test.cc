// Compares the host's implementation with the formulas of kernels/experts.h in plain loops, which
// choose and add independently.
#include "kernels/host_experts.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/reference/reference_backend.h"
#include "tests/kernels/test_experts.h"

namespace kvgate::kernels {
namespace {

// Computes one mixture of f32 matrices.
class PlainMixture {
 public:
  explicit PlainMixture(const TestMixture& mixture) : mixture_(mixture) {
    for (const TestWeight& weight : mixture.weights()) matrices_.push_back(Read(weight.view()));
    shared_router_ = Read(mixture.shared_router());
  }

  std::vector<double> Out(std::span<const float> x) const {
    const MixtureOptions& options = mixture_.options();
    const int num_experts = options.rule.num_experts;
    std::vector<bool> is_chosen(static_cast<size_t>(num_experts));
    for (int i = 0; i < options.rule.num_used; ++i) {
      int best = -1;
      for (int e = 0; e < num_experts; ++e) {
        if (is_chosen[static_cast<size_t>(e)]) continue;
        if (best < 0 || Logit(x, e) > Logit(x, best)) best = e;
      }
      is_chosen[static_cast<size_t>(best)] = true;
    }
    double sum = 0;
    for (int e = 0; e < num_experts; ++e) {
      const bool counts = is_chosen[static_cast<size_t>(e)] || options.rule.is_of_all();
      if (counts) sum += std::exp(Logit(x, e));
    }
    std::vector<double> out(x.size());
    for (int e = 0; e < num_experts; ++e) {
      if (!is_chosen[static_cast<size_t>(e)]) continue;
      Add(Expert(x, e), options.rule.share_scale * std::exp(Logit(x, e)) / sum, out);
    }
    if (options.shared_dim == 0) return out;
    const double gate = Dot(shared_router_, 0, std::vector<double>(x.begin(), x.end()));
    const double factor = options.has_shared_router ? 1 / (1 + std::exp(-gate)) : 1;
    Add(Expert(x, num_experts), factor, out);
    return out;
  }

 private:
  struct Matrix {
    std::vector<float> values;
    int64_t rows;
    int64_t columns;
  };

  static Matrix Read(const WeightView& view) {
    const auto count = static_cast<size_t>(view.rows * view.columns);
    Matrix matrix{std::vector<float>(count), view.rows, view.columns};
    std::memcpy(matrix.values.data(), view.data, count * sizeof(float));
    return matrix;
  }
  static double Dot(const Matrix& matrix, int64_t row, const std::vector<double>& x) {
    double sum = 0;
    for (int64_t i = 0; i < matrix.columns; ++i) {
      sum += x[static_cast<size_t>(i)] *
             static_cast<double>(matrix.values[static_cast<size_t>(row * matrix.columns + i)]);
    }
    return sum;
  }
  static std::vector<double> Product(const Matrix& matrix, const std::vector<double>& x) {
    std::vector<double> y;
    for (int64_t row = 0; row < matrix.rows; ++row) y.push_back(Dot(matrix, row, x));
    return y;
  }
  static void Add(const std::vector<double>& x, double factor, std::vector<double>& y) {
    for (size_t i = 0; i < x.size(); ++i) y[i] += factor * x[i];
  }
  double Logit(std::span<const float> x, int expert) const {
    const std::vector<float>& bias = mixture_.options().router_bias;
    const auto i = static_cast<size_t>(expert);
    return static_cast<double>(x[i]) + (bias.empty() ? 0.0 : static_cast<double>(bias[i]));
  }
  // The shared expert is the last one, and has no biases.
  std::vector<double> Expert(std::span<const float> x, int expert) const {
    const MixtureOptions& options = mixture_.options();
    const bool has_biases = options.has_biases && expert < options.rule.num_experts;
    const auto product = [&](int part, const std::vector<double>& in, uint64_t seed) {
      std::vector<double> out = Product(matrices_[static_cast<size_t>(3 * expert + part)], in);
      if (!has_biases) return out;
      const std::vector<float> biases = mixture_.Biases(std::ssize(out), seed);
      for (size_t i = 0; i < out.size(); ++i) {
        out[i] += static_cast<double>(biases[static_cast<size_t>(expert) * out.size() + i]);
      }
      return out;
    };
    const std::vector<double> in(x.begin(), x.end());
    std::vector<double> gate = product(0, in, 21);
    const std::vector<double> up = product(1, in, 22);
    for (size_t i = 0; i < gate.size(); ++i) gate[i] *= up[i] / (1 + std::exp(-gate[i]));
    return product(2, gate, 23);
  }

  const TestMixture& mixture_;
  std::vector<Matrix> matrices_;
  Matrix shared_router_;
};

void ExpectAsPlain(const MixtureOptions& options, int num_rows) {
  const auto backend = reference::MakeReferenceBackend();
  const TestMixture mixture(options);
  const std::vector<float> x = MixtureRows(options, num_rows, 51);
  std::vector<float> want;
  for (int row = 0; row < num_rows; ++row) {
    const PlainMixture plain(mixture);
    for (const double value : plain.Out(RowsOf(x, row, 1, options.hidden_dim))) {
      want.push_back(static_cast<float>(0.25 + 0.5 * value));
    }
  }
  const std::vector<float> got = LoadedMixture(*backend, mixture, num_rows).Run(x, 0.5f);
  ExpectRowsClose(want, got, options.hidden_dim, 1e-6);
}

TEST(HostExpertsTest, EveryRuleIsItsFormula) {
  for (const int num_rows : {1, 4, 5, 11}) {
    for (const bool renormalise : {false, true}) {
      for (const ExpertGating gating : {ExpertGating::kSoftmax, ExpertGating::kSoftmaxOfSelected}) {
        ExpectAsPlain({.rule = {.num_experts = 6,
                                .num_used = 3,
                                .gating = gating,
                                .renormalise = renormalise,
                                .share_scale = 2.5f},
                       .hidden_dim = 24,
                       .ffn_dim = 10,
                       .dtypes = {DType::kF32}},
                      num_rows);
      }
    }
  }
}

TEST(HostExpertsTest, BiasesAndTheSharedExpertAreAdded) {
  for (const bool has_shared_router : {false, true}) {
    for (const int num_rows : {2, 9}) {
      ExpectAsPlain({.rule = {.num_experts = 4, .num_used = 2},
                     .hidden_dim = 24,
                     .ffn_dim = 10,
                     .shared_dim = 20,
                     .has_shared_router = has_shared_router,
                     .has_biases = true,
                     .router_bias = {0, 1, -1, 0.5f},
                     .dtypes = {DType::kF32}},
                    num_rows);
    }
  }
}

}  // namespace
}  // namespace kvgate::kernels
