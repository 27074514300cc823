// TopK of every backend, which reduces a row of logits for sampling, against the reference.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <vector>

#include "tests/kernels/test_backends.h"
#include "tests/kernels/test_tensors.h"

namespace kvgate::kernels {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kGreatest = std::numeric_limits<float>::max();

struct Tops {
  std::vector<TokenId> ids;
  std::vector<float> values;
  std::vector<float> exp_sums;
  std::vector<float> scaled_exp_sums;
};

Tops TopOf(Backend& backend, std::span<const float> x, int64_t columns, int count,
           std::span<const float> scales) {
  TestFloats device_x(backend, x);
  const size_t size = scales.size() * static_cast<size_t>(count);
  Tops tops{.ids = std::vector<TokenId>(size, -7),
            .values = std::vector<float>(size, kNan),
            .exp_sums = std::vector<float>(scales.size(), kNan),
            .scaled_exp_sums = std::vector<float>(scales.size(), kNan)};
  backend.TopK({.x = device_x.data(),
                .num_rows = static_cast<int>(scales.size()),
                .columns = columns,
                .count = count,
                .scales = scales},
               {.ids = tops.ids.data(),
                .values = tops.values.data(),
                .exp_sums = tops.exp_sums.data(),
                .scaled_exp_sums = tops.scaled_exp_sums.data()});
  device_x.Read();  // checks the guards
  return tops;
}

class SamplingConformance : public BackendTest {
 protected:
  void Expect(std::span<const float> x, int64_t columns, int count) {
    const size_t num_rows = x.size() / static_cast<size_t>(columns);
    std::vector<float> scales;
    for (size_t r = 0; r < num_rows; ++r) scales.push_back(r % 3 == 0 ? 1.0f : r % 3 * 1.7f - 1);
    const Tops want = TopOf(*reference_, x, columns, count, scales);
    const Tops got = TopOf(*backend_, x, columns, count, scales);
    ASSERT_EQ(want.ids, got.ids);
    ExpectSameBits(want.values, got.values, count);
    for (size_t r = 0; r < num_rows; ++r) {
      ASSERT_NEAR(want.exp_sums[r], got.exp_sums[r], kExpSumTolerance * want.exp_sums[r]);
      ASSERT_NEAR(want.scaled_exp_sums[r], got.scaled_exp_sums[r],
                  kExpSumTolerance * want.scaled_exp_sums[r]);
    }
  }
};

TEST_P(SamplingConformance, TopKOfEveryWidthAndCount) {
  for (const int64_t columns : {1, 3, 64, 255, 1024, 4099, 20001}) {
    for (const int count : {1, 20, 256}) {
      SCOPED_TRACE(testing::Message() << "TopK columns " << columns << " count " << count);
      Expect(NormalValues(static_cast<size_t>(4 * columns), 3, 4.0f), columns, count);
    }
  }
}

TEST_P(SamplingConformance, TopKOfTheVocabulariesThereAre) {
  for (const int64_t columns : {65536, 128256, 151936, 262144}) {
    SCOPED_TRACE(testing::Message() << "TopK columns " << columns);
    Expect(NormalValues(static_cast<size_t>(2 * columns), 5, 3.0f), columns, 256);
  }
}

// Tests the order among equal values, and rows whose greatest values are adjacent.
TEST_P(SamplingConformance, TopKOfTiesAndOfRowsInOrder) {
  for (const int64_t columns : {300, 8192, 70001}) {
    SCOPED_TRACE(testing::Message() << "TopK columns " << columns);
    std::vector<float> x;
    const auto add_row = [&](const std::function<float(int64_t)>& value) {
      for (int64_t i = 0; i < columns; ++i) x.push_back(value(i));
    };
    add_row([](int64_t) { return 2.5f; });
    add_row([](int64_t i) { return static_cast<float>(i) * 1e-3f; });
    add_row([](int64_t i) { return static_cast<float>(-i) * 1e-3f; });
    add_row([](int64_t i) { return static_cast<float>(i % 7); });
    add_row([](int64_t i) { return i % 2 == 0 ? 0.0f : -0.0f; });
    for (const int count : {1, 31, 256}) Expect(x, columns, count);
  }
}

TEST_P(SamplingConformance, TopKTakesNanAsLowestAndInfinityAsTheGreatestNumber) {
  for (const int64_t columns : {5, 300, 10000}) {
    SCOPED_TRACE(testing::Message() << "TopK columns " << columns);
    std::vector<float> x(static_cast<size_t>(6 * columns), -kInfinity);
    const auto row = [&](int64_t r) {
      return std::span(x).subspan(static_cast<size_t>(r * columns), static_cast<size_t>(columns));
    };
    std::ranges::fill(row(0), kNan);
    row(2)[3] = -1e30f;
    row(3)[1] = kGreatest;
    row(3)[4] = kInfinity;
    row(3)[2] = kNan;
    row(4)[0] = -kGreatest;
    row(4)[4] = kGreatest;
    std::ranges::copy(HostileValues(static_cast<size_t>(columns), 4), row(5).begin());
    row(5)[2] = kNan;
    for (const int count : {1, 4, 200}) Expect(x, columns, count);
  }
}

// The bits of a row's results must depend on the row alone.
TEST_P(SamplingConformance, TopKOfARowAloneAndAmongOthers) {
  for (const int64_t columns : {257, 5000}) {
    const int count = 40;
    const std::vector<float> x = NormalValues(static_cast<size_t>(9 * columns), 11, 3.0f);
    const std::vector<float> scales{1, 2, 0.5f, 1, 1, 3, 1, 1e-3f, 40};
    const Tops all = TopOf(*backend_, x, columns, count, scales);
    for (size_t r = 0; r < scales.size(); ++r) {
      const Tops one = TopOf(*backend_, RowsOf(x, static_cast<int64_t>(r), 1, columns), columns,
                             count, std::span(scales).subspan(r, 1));
      ASSERT_TRUE(std::equal(one.ids.begin(), one.ids.end(), all.ids.begin() + count * r));
      ExpectSameBits(RowsOf(all.values, static_cast<int64_t>(r), 1, count), one.values, count);
      ExpectSameBits({&all.exp_sums[r], 1}, one.exp_sums, 1);
      ExpectSameBits({&all.scaled_exp_sums[r], 1}, one.scaled_exp_sums, 1);
    }
  }
}

KVGATE_RUN_ON_ALL_BACKENDS(SamplingConformance);

}  // namespace
}  // namespace kvgate::kernels
