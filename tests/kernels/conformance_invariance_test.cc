// The promise of an invariant backend: the bits of a row depend on that row's inputs alone. Rows
// are computed alone, in batches of every size, at every position, beside rows of NaN, with one
// thread and with two. Attention has a file of its own.
#include <gtest/gtest.h>

#include <limits>
#include <vector>

#include "tests/kernels/test_backends.h"
#include "tests/kernels/test_invariance.h"
#include "tests/kernels/test_tensors.h"

namespace kvgate::kernels {
namespace {

TEST_P(Invariance, BackendsOfOneNumericsIdShareIt) {
  EXPECT_FALSE(backend_->Info().numerics_id.empty());
  EXPECT_EQ(backend_->Info().numerics_id == reference_->Info().numerics_id,
            backend_->Info().name == "reference");
  if (twin_ == nullptr) GTEST_SKIP() << "no twin";
  EXPECT_EQ(backend_->Info().numerics_id, twin_->Info().numerics_id);
  EXPECT_NE(backend_->Info().num_threads, twin_->Info().num_threads);
}

// --- products -----------------------------------------------------------------------------------

// A run of `num_rows` rows out of rows_max, and its first row.
struct Window {
  int first_row;
  int num_rows;
};

std::vector<Window> WindowsOf(std::span<const int> row_counts, std::span<const int> first_rows) {
  const int rows_max = row_counts.back();
  std::vector<Window> windows;
  for (const int num_rows : row_counts) {
    for (const int first_row : first_rows) {
      if (first_row + num_rows <= rows_max) windows.push_back({first_row, num_rows});
    }
    windows.push_back({rows_max - num_rows, num_rows});
  }
  return windows;
}

// Multiplies by one weight on one backend, with bias and old output so that both are covered.
class ProductRun {
 public:
  ProductRun(Backend& backend, const TestWeight& weight)
      : backend_(backend),
        weight_(Load(backend, weight)),
        bias_(backend, NormalValues(static_cast<size_t>(weight_->rows()), 101)) {}

  std::vector<float> Run(std::span<const float> x) {
    const auto num_rows = static_cast<int64_t>(x.size()) / weight_->columns();
    TestFloats device_x(backend_, x);
    TestFloats y(backend_,
                 std::vector<float>(static_cast<size_t>(num_rows * weight_->rows()), 0.25f));
    const MatMulTask task{
        .weight = weight_.get(), .bias = bias_.data(), .y = y.data(), .accumulate = true};
    backend_.MatMul(device_x.data(), static_cast<int>(num_rows), {&task, 1});
    return y.Read();
  }

 private:
  Backend& backend_;
  std::unique_ptr<Weight> weight_;
  TestFloats bias_;
};

struct MatrixShape {
  int64_t n;
  int64_t k;
};

TEST_P(Invariance, AMatMulRowHasTheSameBitsInEveryBatch) {
  const std::vector<int> row_counts =
      Sizes({1, 2, 3, 5, 7, 8, 31, 32, 33, 64, 100, 512}, {1, 3, 8, 33, 130});
  const int rows_max = row_counts.back();
  const std::vector<int> first_rows = Sizes({0, 1, 6, 37, 250}, {6, 37});
  for (const DType dtype : kWeightDTypes) {
    for (MatrixShape shape :
         Sizes<MatrixShape>({{1, 32}, {17, 288}, {65, 320}, {130, 512}}, {{17, 288}, {65, 320}})) {
      if (DTypeElements(dtype) == 256 && shape.n != 65) continue;
      if (DTypeElements(dtype) == 256) shape.k = 768;
      const TestWeight weight(dtype, shape.n, shape.k, 102);
      const std::vector<float> x = HostileRows(rows_max, shape.k, 103);
      const std::vector<float> want = ProductRun(*backend_, weight).Run(x);
      for (Backend* backend : Backends()) {
        ProductRun product(*backend, weight);
        for (const Window& window : WindowsOf(row_counts, first_rows)) {
          SCOPED_TRACE(testing::Message() << "MatMul " << DTypeName(dtype) << " N " << shape.n
                                          << " K " << shape.k << " rows " << window.first_row
                                          << " to " << window.first_row + window.num_rows
                                          << " threads " << backend->Info().num_threads);
          const std::vector<float> got =
              product.Run(RowsOf(x, window.first_row, window.num_rows, shape.k));
          ExpectSameBits(RowsOf(want, window.first_row, window.num_rows, shape.n), got, shape.n);
          if (HasFatalFailure()) return;
        }
      }
    }
  }
}

TEST_P(Invariance, AMatMulRowOfCodesHasTheSameBitsInEveryBatchSize) {
  for (const DType dtype : kWeightDTypes) {
    if (!HasQuantLayout(dtype)) continue;
    const int64_t k = 768;
    const TestWeight weight(dtype, 40, k, 107);
    const std::vector<float> x = HostileRows(70, k, 108);
    ProductRun product(*backend_, weight);
    const std::vector<float> want = product.Run(x);
    for (int num_rows = 1; num_rows < 70; num_rows += GetParam().is_slow && num_rows > 8 ? 17 : 1) {
      SCOPED_TRACE(testing::Message() << "MatMul " << DTypeName(dtype) << " rows " << num_rows);
      const int first = 70 - num_rows;
      ExpectSameBits(RowsOf(want, first, num_rows, 40), product.Run(RowsOf(x, first, num_rows, k)),
                     40);
      if (HasFatalFailure()) return;
    }
  }
}

// K is not a multiple of any vector width, so the tail must be summed in the same order too.
TEST_P(Invariance, AMatMulRowOfOddWidthHasTheSameBitsInEveryBatch) {
  for (const DType dtype : {DType::kF32, DType::kF16, DType::kBF16}) {
    for (const MatrixShape& shape : {MatrixShape{31, 257}, MatrixShape{16, 1055}}) {
      const TestWeight weight(dtype, shape.n, shape.k, 104);
      const int rows_max = GetParam().is_slow ? 34 : 100;
      const std::vector<float> x = HostileRows(rows_max, shape.k, 105);
      ProductRun product(*backend_, weight);
      const std::vector<float> want = product.Run(x);
      for (const int num_rows : {1, 2, 3, 5, 8, 33}) {
        for (int row = 0; row + num_rows <= rows_max; row += num_rows) {
          SCOPED_TRACE(testing::Message()
                       << "MatMul " << DTypeName(dtype) << " N " << shape.n << " K " << shape.k
                       << " rows " << row << " to " << row + num_rows);
          ExpectSameBits(RowsOf(want, row, num_rows, shape.n),
                         product.Run(RowsOf(x, row, num_rows, shape.k)), shape.n);
          if (HasFatalFailure()) return;
        }
      }
    }
  }
}

TEST_P(Invariance, AMatMulRowDoesNotFeelItsNeighbours) {
  const int64_t n = 33;
  for (const DType dtype : kWeightDTypes) {
    const int64_t k = DTypeElements(dtype) == 256 ? 256 : 96;
    const TestWeight weight(dtype, n, k, 106);
    const std::vector<float> row = HostileValues(static_cast<size_t>(k), 107);
    ProductRun product(*backend_, weight);
    const std::vector<float> want = product.Run(row);
    for (const float other :
         {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity(), 3e38f}) {
      for (const int num_rows : Sizes({2, 5, 8, 33}, {2, 5, 33})) {
        for (const int place : {0, num_rows / 2, num_rows - 1}) {
          SCOPED_TRACE(testing::Message() << "MatMul " << DTypeName(dtype) << " row " << place
                                          << " of " << num_rows << " beside rows of " << other);
          std::vector<float> x(static_cast<size_t>(num_rows * k), other);
          std::copy(row.begin(), row.end(), x.begin() + place * k);
          const std::vector<float> got = product.Run(x);
          ExpectSameBits(want, RowsOf(got, place, 1, n), n);
        }
      }
    }
  }
}

TEST_P(Invariance, AMatMulTaskDoesNotFeelTheOthers) {
  const int64_t k = 288;
  const TestWeight weights[] = {TestWeight(DType::kQ8_0, 70, k, 111),
                                TestWeight(DType::kF32, 9, k, 112),
                                TestWeight(DType::kF16, 130, k, 113)};
  for (const int m : {1, 4, 65}) {
    const std::vector<float> x = HostileRows(m, k, 114);
    TestFloats device_x(*backend_, x);
    std::vector<std::unique_ptr<Weight>> loaded;
    std::vector<std::unique_ptr<TestFloats>> together;
    std::vector<MatMulTask> tasks;
    for (const TestWeight& weight : weights) {
      loaded.push_back(Load(*backend_, weight));
      const size_t count = static_cast<size_t>(m * loaded.back()->rows());
      together.push_back(std::make_unique<TestFloats>(*backend_, count));
      tasks.push_back({.weight = loaded.back().get(), .y = together.back()->data()});
    }
    backend_->MatMul(device_x.data(), m, tasks);
    for (size_t i = 0; i < tasks.size(); ++i) {
      SCOPED_TRACE(testing::Message() << "MatMul task " << i << " M " << m);
      const int64_t n = loaded[i]->rows();
      TestFloats alone(*backend_, static_cast<size_t>(m * n));
      const MatMulTask task{.weight = loaded[i].get(), .y = alone.data()};
      backend_->MatMul(device_x.data(), m, {&task, 1});
      ExpectSameBits(alone.Read(), together[i]->Read(), n);
    }
  }
}

// --- rows ---------------------------------------------------------------------------------------

// Widths that move a row's elements to other vector lanes than they have when the row is alone.
constexpr int64_t kWidths[] = {3, 17, 64, 301};
constexpr int kNumRows = 33;

TEST_P(Invariance, ANormalisedRowHasTheSameBitsAlone) {
  for (const NormKind kind : {NormKind::kRms, NormKind::kLayer}) {
    for (const int64_t columns : kWidths) {
      const std::vector<float> x = HostileRows(kNumRows, columns, 121, 1e14f);
      const std::vector<float> weight = NormalValues(static_cast<size_t>(columns), 122);
      const std::vector<float> bias = NormalValues(static_cast<size_t>(columns), 120);
      std::vector<float> want;
      for (Backend* backend : Backends()) {
        SCOPED_TRACE(testing::Message() << "Norm " << static_cast<int>(kind) << " columns "
                                        << columns << " threads " << backend->Info().num_threads);
        TestFloats device_x(*backend, x);
        TestFloats device_weight(*backend, weight);
        TestFloats device_bias(*backend, bias);
        const NormArgs norm = {.kind = kind,
                               .weight = device_weight.data(),
                               .bias = kind == NormKind::kLayer ? device_bias.data() : nullptr,
                               .eps = 1e-5f};
        TestFloats all(*backend, x.size());
        backend->Norm(device_x.data(), norm, kNumRows, columns, all.data());
        if (want.empty()) want = all.Read();
        ExpectSameBits(want, all.Read(), columns);
        for (int row = 0; row < kNumRows; ++row) {
          TestFloats one(*backend, RowsOf(x, row, 1, columns));
          backend->Norm(one.data(), norm, 1, columns, one.data());
          ExpectSameBits(RowsOf(want, row, 1, columns), one.Read(), columns);
        }
      }
    }
  }
}

TEST_P(Invariance, AGluRowHasTheSameBitsAlone) {
  for (const GluKind kind :
       {GluKind::kSilu, GluKind::kGeluTanh, GluKind::kGelu, GluKind::kClampedSilu}) {
    for (const int64_t columns : kWidths) {
      std::vector<float> gate = HostileRows(kNumRows, columns, 123);
      for (size_t i = 0; i < gate.size(); i += 5) gate[i] *= 30;  // into the sigmoid's tails
      const std::vector<float> up = HostileValues(gate.size(), 124);
      std::vector<float> want;
      for (Backend* backend : Backends()) {
        SCOPED_TRACE(testing::Message() << "Glu " << static_cast<int>(kind) << " columns "
                                        << columns << " threads " << backend->Info().num_threads);
        TestFloats device_gate(*backend, gate);
        TestFloats device_up(*backend, up);
        TestFloats all(*backend, gate.size());
        backend->Glu(kind, device_gate.data(), device_up.data(), gate.size(), all.data());
        if (want.empty()) want = all.Read();
        ExpectSameBits(want, all.Read(), columns);
        for (int row = 0; row < kNumRows; ++row) {
          TestFloats one_gate(*backend, RowsOf(gate, row, 1, columns));
          TestFloats one_up(*backend, RowsOf(up, row, 1, columns));
          backend->Glu(kind, one_gate.data(), one_up.data(), static_cast<size_t>(columns),
                       one_gate.data());
          ExpectSameBits(RowsOf(want, row, 1, columns), one_gate.Read(), columns);
        }
      }
    }
  }
}

// Compares AddScaled, SoftCap and Scale over all values with the same over each row alone.
TEST_P(Invariance, AScaledOrCappedRowHasTheSameBitsAlone) {
  const auto compute = [](Backend& backend, std::span<const float> x, std::span<const float> y) {
    TestFloats device_x(backend, x);
    TestFloats device_y(backend, y);
    backend.AddScaled(device_x.data(), 0.37f, x.size(), device_y.data());
    backend.SoftCap(30.0f, x.size(), device_y.data());
    backend.Scale(1.7f, x.size(), device_y.data());
    return device_y.Read();
  };
  for (const int64_t columns : kWidths) {
    const std::vector<float> x = HostileRows(kNumRows, columns, 126);
    const std::vector<float> y = HostileValues(x.size(), 127, 20.0f);
    const std::vector<float> want = compute(*backend_, x, y);
    for (Backend* backend : Backends()) {
      SCOPED_TRACE(testing::Message()
                   << "columns " << columns << " threads " << backend->Info().num_threads);
      ExpectSameBits(want, compute(*backend, x, y), columns);
      for (int row = 0; row < kNumRows; ++row) {
        ExpectSameBits(RowsOf(want, row, 1, columns),
                       compute(*backend, RowsOf(x, row, 1, columns), RowsOf(y, row, 1, columns)),
                       columns);
      }
    }
  }
}

// The outputs of experts add up in their order, regardless of the other rows that they served.
TEST_P(Invariance, AScatteredRowHasTheSameBitsAlone) {
  for (const int64_t columns : {int64_t{3}, int64_t{301}, int64_t{4096}}) {
    const std::vector<float> x = HostileRows(kNumRows, columns, 128);
    const std::vector<float> y = HostileValues(static_cast<size_t>(5 * columns), 129);
    const std::vector<float> factors = NormalValues(kNumRows, 130);
    std::vector<int> rows(kNumRows);
    for (int i = 0; i < kNumRows; ++i) rows[static_cast<size_t>(i)] = i * 7 % 5;
    std::vector<float> want;
    for (Backend* backend : Backends()) {
      SCOPED_TRACE(testing::Message()
                   << "columns " << columns << " threads " << backend->Info().num_threads);
      TestFloats device_x(*backend, x);
      TestFloats all(*backend, y);
      backend->ScatterAddRows(device_x.data(), rows, factors, columns, all.data());
      if (want.empty()) want = all.Read();
      ExpectSameBits(want, all.Read(), columns);
      for (int row = 0; row < 5; ++row) {
        TestFloats one(*backend, RowsOf(y, row, 1, columns));
        for (size_t i = 0; i < rows.size(); ++i) {
          if (rows[i] != row) continue;
          TestFloats term(*backend, RowsOf(x, static_cast<int64_t>(i), 1, columns));
          const int first = 0;
          backend->ScatterAddRows(term.data(), {&first, 1}, {&factors[i], 1}, columns, one.data());
          backend->Synchronize();  // before `term` is destroyed
        }
        ExpectSameBits(RowsOf(want, row, 1, columns), one.Read(), columns);
      }
    }
  }
}

// Compares RoPE tables and rotations of all rows in one call with those of each row alone.
TEST_P(Invariance, ARopeRowHasTheSameBitsAlone) {
  for (const RopeKind kind : {RopeKind::kInterleaved, RopeKind::kHalves}) {
    for (const int rotary_dim : {80, 64, 6}) {
      const Backend::RopeArgs args{
          .kind = kind, .num_heads = 3, .head_dim = 80, .rotary_dim = rotary_dim};
      const int64_t columns = static_cast<int64_t>(args.num_heads) * args.head_dim;
      const auto half = static_cast<size_t>(rotary_dim / 2);
      std::vector<float> inv_freq(half);
      for (size_t i = 0; i < half; ++i) {
        inv_freq[i] = static_cast<float>(std::pow(1e4, -static_cast<double>(i) / half));
      }
      std::vector<int> positions(kNumRows);
      for (int row = 0; row < kNumRows; ++row) positions[static_cast<size_t>(row)] = row * 977;
      const std::vector<float> x = HostileRows(kNumRows, columns, 125);
      std::vector<float> want;
      for (Backend* backend : Backends()) {
        SCOPED_TRACE(testing::Message()
                     << "Rope kind " << static_cast<int>(kind) << " rotary_dim " << rotary_dim
                     << " threads " << backend->Info().num_threads);
        TestFloats all(*backend, x);
        TestFloats table(*backend, positions.size() * half * 2);
        backend->RopeTable(positions, inv_freq, 1.0f, table.data());
        backend->Rope(all.data(), kNumRows, args, table.data());
        if (want.empty()) want = all.Read();
        ExpectSameBits(want, all.Read(), columns);
        for (int row = 0; row < kNumRows; ++row) {
          TestFloats one(*backend, RowsOf(x, row, 1, columns));
          TestFloats one_table(*backend, half * 2);
          backend->RopeTable({&positions[static_cast<size_t>(row)], 1}, inv_freq, 1.0f,
                             one_table.data());
          backend->Rope(one.data(), 1, args, one_table.data());
          ExpectSameBits(RowsOf(want, row, 1, columns), one.Read(), columns);
        }
      }
    }
  }
}

KVGATE_RUN_ON_ALL_BACKENDS(Invariance);

}  // namespace
}  // namespace kvgate::kernels
