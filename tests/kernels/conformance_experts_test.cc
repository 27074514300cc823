// MixExperts of every backend: results close to the reference, and bits of a row that do not depend
// on the rows beside it.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "tests/kernels/test_backends.h"
#include "tests/kernels/test_experts.h"
#include "tests/kernels/test_invariance.h"

namespace kvgate::kernels {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();

class ExpertsConformance : public BackendTest {
 protected:
  // The bound covers two products before a row reaches y, and the shares of its experts.
  double BoundOf(const MixtureOptions& options) const {
    double bound = 0;
    for (const DType dtype : options.dtypes) {
      bound = std::max(bound, GetParam().MatMulBound(dtype));
    }
    return 4 * bound;
  }

  void ExpectAsReference(const MixtureOptions& options, std::span<const float> x,
                         float factor = 1) {
    const TestMixture mixture(options);
    const int num_rows = static_cast<int>(std::ssize(x) / options.hidden_dim);
    const std::vector<float> want = LoadedMixture(*reference_, mixture, num_rows).Run(x, factor);
    const std::vector<float> got = LoadedMixture(*backend_, mixture, num_rows).Run(x, factor);
    ExpectRowsClose(want, got, options.hidden_dim, BoundOf(options));
  }
};

TEST_P(ExpertsConformance, EveryRuleGivesItsShares) {
  for (const int num_rows : {1, 7}) {
    for (const auto& [gating, renormalise, num_used] :
         {std::tuple{ExpertGating::kSoftmax, false, 3},
          {ExpertGating::kSoftmax, true, 3},
          {ExpertGating::kSoftmaxOfSelected, false, 2},
          {ExpertGating::kSoftmax, false, 1},
          {ExpertGating::kSoftmaxOfSelected, true, 8}}) {
      SCOPED_TRACE(testing::Message() << "rows " << num_rows << " used " << num_used << " of all "
                                      << (gating == ExpertGating::kSoftmax && !renormalise));
      const MixtureOptions options = {.rule = {.num_experts = 8,
                                               .num_used = num_used,
                                               .gating = gating,
                                               .renormalise = renormalise,
                                               .share_scale = 1.5f}};
      ExpectAsReference(options, MixtureRows(options, num_rows, 31), 0.5f);
    }
  }
}

TEST_P(ExpertsConformance, EveryDTypeInEveryNumberOfRows) {
  for (const DType dtype : kWeightDTypes) {
    MixtureOptions options = {.dtypes = {dtype}};
    if (DTypeElements(dtype) == 256) options.hidden_dim = options.ffn_dim = 256;
    for (const int num_rows : Sizes({1, 5, 40, 90}, {2, 9, 40})) {
      SCOPED_TRACE(testing::Message() << DTypeName(dtype) << " rows " << num_rows);
      ExpectAsReference(options, MixtureRows(options, num_rows, 32));
      if (HasFatalFailure()) return;
    }
  }
}

TEST_P(ExpertsConformance, BiasesGatesAndASharedExpert) {
  for (const GluKind glu : {GluKind::kSilu, GluKind::kGeluTanh, GluKind::kClampedSilu}) {
    for (const bool has_shared_router : {false, true}) {
      for (const int num_rows : {3, 20}) {
        SCOPED_TRACE(testing::Message() << "glu " << static_cast<int>(glu) << " router "
                                        << has_shared_router << " rows " << num_rows);
        const MixtureOptions options = {
            .glu = glu,
            .shared_dim = 160,
            .has_shared_router = has_shared_router,
            .has_biases = true,
            .router_bias = {0.5f, -0.5f, 1, 0, 0, -1, 2, 0.25f},
        };
        ExpectAsReference(options, MixtureRows(options, num_rows, 33), 0.75f);
      }
    }
  }
}

// Each expert's matrices may have a format of their own in a file.
TEST_P(ExpertsConformance, MatricesOfDifferentDTypes) {
  const MixtureOptions options = {
      .dtypes = {DType::kQ4_0, DType::kQ4_0, DType::kQ8_0, DType::kF32, DType::kF16}};
  for (const int num_rows : {1, 12, 60}) {
    SCOPED_TRACE(testing::Message() << "rows " << num_rows);
    ExpectAsReference(options, MixtureRows(options, num_rows, 34));
  }
}

// More experts than a warp has lanes, most of them never chosen; the widths are not whole tiles.
TEST_P(ExpertsConformance, ManyExpertsOfOddWidths) {
  const MixtureOptions options = {
      .rule = {.num_experts = 70, .num_used = 6}, .hidden_dim = 83, .ffn_dim = 37};
  for (const int num_rows : {1, 5, 33}) {
    SCOPED_TRACE(testing::Message() << "rows " << num_rows);
    ExpectAsReference(options, MixtureRows(options, num_rows, 35));
  }
}

// All rows go to the same experts and the others are empty; equal logits are a tie among all.
TEST_P(ExpertsConformance, TiesGoToTheLowerExpert) {
  const MixtureOptions options;
  for (const int num_rows : {2, 12, 50}) {
    SCOPED_TRACE(testing::Message() << "rows " << num_rows);
    ExpectAsReference(options, MixtureRows(options, num_rows, 36, [](int) { return 0.5f; }));
    ExpectAsReference(options, MixtureRows(options, num_rows, 37, [](int value) {
                        return value % 3 == 0 ? 1.0f : value % 2 == 0 ? 0.0f : -0.0f;
                      }));
  }
}

// A NaN logit counts as the lowest, so if shares are taken among the selected experts, none is NaN.
TEST_P(ExpertsConformance, ALogitOfNanIsNotChosenBeforeOthers) {
  const MixtureOptions options = {.rule = {.num_experts = 8, .num_used = 3, .renormalise = true},
                                  .router_bias = {0, kNan, 0, 0, kNan, -kInfinity, 0, kNan}};
  for (const int num_rows : {2, 12}) {
    SCOPED_TRACE(testing::Message() << "rows " << num_rows);
    ExpectAsReference(options, MixtureRows(options, num_rows, 38));
  }
}

TEST_P(ExpertsConformance, SharesMadeOfNanAreNan) {
  for (const bool renormalise : {false, true}) {
    MixtureOptions options = {.rule = {.num_experts = 4, .num_used = 3, .renormalise = renormalise},
                              .router_bias = {0, kNan, 0, kNan}};
    for (const int num_rows : {1, 9}) {
      const TestMixture mixture(options);
      LoadedMixture loaded(*backend_, mixture, num_rows);
      for (const float value : loaded.Run(MixtureRows(options, num_rows, 39))) {
        EXPECT_TRUE(std::isnan(value));
      }
    }
  }
}

TEST_P(ExpertsConformance, ScratchIsWhatWasCounted) {
  const TestMixture mixture({.shared_dim = 300});
  const LoadedMixture loaded(*backend_, mixture, 17);
  const ExpertScratchFloats floats =
      CountExpertScratch(mixture.shape(), backend_->Info().routes_experts);
  EXPECT_EQ(loaded.scratch().num_floats(), 17 * floats.per_row + floats.fixed);
}

KVGATE_RUN_ON_ALL_BACKENDS(ExpertsConformance);

class ExpertsInvariance : public Invariance {};

// Rows alone, and in batch sizes that together reach every kernel of kernels/cuda.
TEST_P(ExpertsInvariance, ARowHasTheSameBitsInEveryBatch) {
  const std::vector<int> row_counts = Sizes({1, 3, 4, 5, 9, 40, 130, 200}, {1, 3, 9, 40, 130, 200});
  const int rows_max = row_counts.back();
  for (const DType dtype : Sizes<DType>({DType::kF32, DType::kBF16, DType::kQ8_0, DType::kQ4_0,
                                         DType::kQ4_K, DType::kQ5_K, DType::kQ6_K, DType::kQ2_K},
                                        {DType::kF32, DType::kBF16, DType::kQ8_0, DType::kQ4_K})) {
    MixtureOptions options = {.shared_dim = 64, .has_shared_router = true, .dtypes = {dtype}};
    if (DTypeElements(dtype) == 256) {
      options.hidden_dim = options.ffn_dim = options.shared_dim = 256;
    }
    const TestMixture mixture(options);
    const std::vector<float> x = MixtureRows(options, rows_max, 41);
    const std::vector<float> want = LoadedMixture(*backend_, mixture, rows_max).Run(x);
    for (Backend* backend : Backends()) {
      LoadedMixture loaded(*backend, mixture, rows_max);
      for (const int num_rows : row_counts) {
        for (const int first : Sizes({0, 37, rows_max - num_rows}, {rows_max - num_rows})) {
          if (first + num_rows > rows_max) continue;
          SCOPED_TRACE(testing::Message()
                       << DTypeName(dtype) << " rows " << first << " to " << first + num_rows
                       << " threads " << backend->Info().num_threads);
          ExpectSameBits(RowsOf(want, first, num_rows, options.hidden_dim),
                         loaded.Run(RowsOf(x, first, num_rows, options.hidden_dim)),
                         options.hidden_dim);
          if (HasFatalFailure()) return;
        }
      }
    }
  }
}

TEST_P(ExpertsInvariance, ARowDoesNotFeelItsNeighbours) {
  const MixtureOptions options;
  const TestMixture mixture(options);
  LoadedMixture loaded(*backend_, mixture, 60);
  const std::vector<float> row = MixtureRows(options, 1, 42);
  const std::vector<float> want = loaded.Run(row);
  for (const float other : {kNan, kInfinity, 3e38f, 0.0f}) {
    for (const int num_rows : {2, 9, 60}) {
      for (const int place : {0, num_rows / 2, num_rows - 1}) {
        SCOPED_TRACE(testing::Message()
                     << "row " << place << " of " << num_rows << " beside rows of " << other);
        std::vector<float> x(static_cast<size_t>(num_rows * options.hidden_dim), other);
        std::ranges::copy(row, x.begin() + place * options.hidden_dim);
        ExpectSameBits(want, RowsOf(loaded.Run(x), place, 1, options.hidden_dim),
                       options.hidden_dim);
      }
    }
  }
}

KVGATE_RUN_ON_ALL_BACKENDS(ExpertsInvariance);

}  // namespace
}  // namespace kvgate::kernels
