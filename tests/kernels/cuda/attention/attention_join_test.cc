// Joining splits that were computed in parallel must give the bits of joining them in turn.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "kernels/cuda/attention/attention_formulas.cuh"
#include "tests/kernels/cuda/attention_backend.h"
#include "tests/kernels/test_tensors.h"

namespace kvgate::kernels::cuda::attention {
namespace {

constexpr int kHeads = 2;
constexpr float kInfinity = std::numeric_limits<float>::infinity();

TEST(AttentionJoinTest, SplitsSideBySideHaveTheBitsOfSplitsInTurn) {
  AttentionBackend backend;
  const std::vector<float> sinks{3.0f, -2.0f};
  TestFloats device_sinks(backend, sinks);
  for (const int head_dim : {16, 80, 256}) {
    for (const int num_splits : {1, 31, 33, 128, 300}) {
      SCOPED_TRACE(testing::Message() << "head_dim " << head_dim << " splits " << num_splits);
      const int vector = head_dim + kPartialExtra;
      std::vector<float> partials =
          NormalValues(static_cast<size_t>(num_splits) * kHeads * vector, 1, 8.0f);
      for (int i = 0; i < num_splits * kHeads; ++i) {
        float* sums = partials.data() + i * vector + head_dim;
        sums[1] = 1.0f + std::abs(sums[1]);
        if (i % 7 != 3) continue;  // the row sees none of this split
        sums[0] = -kInfinity;
        sums[1] = 0;
        std::fill_n(sums - head_dim, head_dim, 0.0f);
      }
      for (const bool has_sinks : {false, true}) {
        const float* sink = has_sinks ? device_sinks.data() : nullptr;
        TestFloats device_partials(backend, partials);
        TestFloats out(backend, static_cast<size_t>(kHeads * head_dim));
        TestFloats totals(backend, size_t{2 * kHeads});
        const std::vector<JoinItem> items{{.row = -1},
                                          {.row = 0, .num_splits = num_splits, .partial_begin = 0}};
        LaunchJoin(backend.stream(),
                   {.items = backend.stream().Stage<JoinItem>(items),
                    .partials = device_partials.data(),
                    .sinks = sink,
                    .out = out.data(),
                    .totals = totals.data(),
                    .num_heads = kHeads,
                    .head_dim = head_dim},
                   2);
        const std::vector<float> got = out.Read();
        const std::vector<float> got_totals = totals.Read();
        for (int head = 0; head < kHeads; ++head) {
          Total total = Total::Begin(has_sinks ? sinks.data() : nullptr, head);
          std::vector<float> want(static_cast<size_t>(head_dim), 0.0f);
          for (int split = 0; split < num_splits; ++split) {
            const float* values = partials.data() + (split * kHeads + head) * vector;
            const JoinFactors factors = Join(total, values[head_dim], values[head_dim + 1]);
            for (int i = 0; i < head_dim; ++i) {
              float& to = want[static_cast<size_t>(i)];
              to = Joined(to, values[i], factors);
            }
          }
          for (float& value : want) value = Finished(value, 1.0f / total.sum);
          ExpectSameBits(want, RowsOf(got, head, 1, head_dim), head_dim);
          EXPECT_EQ(got_totals[static_cast<size_t>(2 * head)], total.maximum);
          EXPECT_EQ(got_totals[static_cast<size_t>(2 * head + 1)], total.sum);
        }
      }
    }
  }
}

}  // namespace
}  // namespace kvgate::kernels::cuda::attention
