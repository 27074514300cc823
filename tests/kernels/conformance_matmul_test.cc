// MatMul of every backend against the reference.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/kernels/test_backends.h"
#include "tests/kernels/test_tensors.h"

namespace kvgate::kernels {
namespace {

struct MatrixShape {
  int64_t n;
  int64_t k;
};

// Returns K of the shape, rounded up to whole quant blocks if the dtype has them.
int64_t ColumnsFor(const MatrixShape& shape, DType dtype) {
  const int64_t unit = DTypeElements(dtype);
  return (shape.k + unit - 1) / unit * unit;
}

// Returns the norm that each row of the result would have if its terms had random signs: the scale
// for rows that cancellation made small.
std::vector<double> RowScales(Backend& reference, const TestWeight& weight,
                              std::span<const float> x) {
  const WeightView view = weight.view();
  std::vector<TokenId> ids(static_cast<size_t>(view.rows));
  for (size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<TokenId>(i);
  std::vector<float> values(ids.size() * static_cast<size_t>(view.columns));
  reference.EmbedRows(view, ids, values.data());
  const double factor = Norm(values) / std::sqrt(static_cast<double>(view.columns));
  std::vector<double> scales;
  for (size_t row = 0; row * static_cast<size_t>(view.columns) < x.size(); ++row) {
    scales.push_back(Norm(RowsOf(x, static_cast<int64_t>(row), 1, view.columns)) * factor);
  }
  return scales;
}

// One product with its operands; runs on any backend.
struct Product {
  const TestWeight& weight;
  std::span<const float> x;
  int num_rows;
  std::span<const float> bias = {};   // [N] or empty
  std::span<const float> old_y = {};  // [M, N], or empty: no accumulation

  std::vector<float> RunOn(Backend& backend) const {
    const auto loaded = Load(backend, weight);
    const WeightView view = weight.view();
    TestFloats device_x(backend, RowsOf(x, 0, num_rows, view.columns));
    TestFloats device_bias(backend, bias);
    TestFloats y = old_y.empty() ? TestFloats(backend, static_cast<size_t>(num_rows * view.rows))
                                 : TestFloats(backend, RowsOf(old_y, 0, num_rows, view.rows));
    const MatMulTask task{.weight = loaded.get(),
                          .bias = bias.empty() ? nullptr : device_bias.data(),
                          .y = y.data(),
                          .accumulate = !old_y.empty()};
    backend.MatMul(device_x.data(), num_rows, {&task, 1});
    return y.Read();
  }
};

class MatMulConformance : public BackendTest {
 protected:
  // The sizes are odd and even, below and above every likely panel and tile width.
  static std::vector<MatrixShape> Shapes() {
    return Sizes<MatrixShape>({{1, 1},
                               {3, 7},
                               {16, 64},
                               {17, 255},
                               {31, 257},
                               {65, 300},
                               {130, 512},
                               {48, 1055},
                               {257, 96}},
                              {{3, 7}, {130, 512}, {48, 1055}});
  }

  void ExpectCloseForEveryRowCount(DType dtype, const MatrixShape& shape) {
    const int64_t k = ColumnsFor(shape, dtype);
    const TestWeight weight(dtype, shape.n, k, 7);
    const std::vector<int> row_counts =
        Sizes({1, 2, 3, 5, 7, 8, 31, 32, 33, 64, 100, 512}, {1, 2, 3, 8, 9, 33, 130});
    const int rows_max = row_counts.back();
    const std::vector<float> x = HostileRows(rows_max, k, 8);
    const std::vector<double> scales = RowScales(*reference_, weight, x);
    const std::vector<float> want =
        Product{.weight = weight, .x = x, .num_rows = rows_max}.RunOn(*reference_);
    for (const int m : row_counts) {
      SCOPED_TRACE(testing::Message() << "MatMul " << DTypeName(dtype) << " M " << m << " N "
                                      << shape.n << " K " << k);
      const std::vector<float> got =
          Product{.weight = weight, .x = x, .num_rows = m}.RunOn(*backend_);
      ExpectRowsClose(RowsOf(want, 0, m, shape.n), got, shape.n, GetParam().MatMulBound(dtype),
                      scales);
      if (HasFatalFailure()) return;
    }
  }
};

TEST_P(MatMulConformance, F32IsCloseForEveryShape) {
  for (const MatrixShape& shape : Shapes()) ExpectCloseForEveryRowCount(DType::kF32, shape);
}

TEST_P(MatMulConformance, F16IsCloseForEveryShape) {
  for (const MatrixShape& shape : Shapes()) ExpectCloseForEveryRowCount(DType::kF16, shape);
}

TEST_P(MatMulConformance, Bf16IsCloseForEveryShape) {
  for (const MatrixShape& shape : Shapes()) ExpectCloseForEveryRowCount(DType::kBF16, shape);
}

TEST_P(MatMulConformance, Q8_0IsCloseForEveryShape) {
  for (const MatrixShape& shape : Shapes()) ExpectCloseForEveryRowCount(DType::kQ8_0, shape);
}

// The widths give blocks of 256 that end inside a kernel's block of columns, and past it.
TEST_P(MatMulConformance, FormatsOfCodesAreCloseForEveryShape) {
  for (const DType dtype : kWeightDTypes) {
    if (!HasQuantLayout(dtype)) continue;
    for (const MatrixShape& shape : Sizes<MatrixShape>({{1, 32}, {17, 255}, {65, 1055}, {130, 512}},
                                                       {{17, 255}, {65, 1055}})) {
      ExpectCloseForEveryRowCount(dtype, shape);
      if (HasFatalFailure()) return;
    }
  }
}

TEST_P(MatMulConformance, BiasAndOldOutputAreAdded) {
  for (const DType dtype : kWeightDTypes) {
    for (const int m : {1, 5, 33}) {
      const int64_t n = 37;
      const int64_t k = ColumnsFor({.n = n, .k = 96}, dtype);
      const TestWeight weight(dtype, n, k, 11);
      const std::vector<float> x = NormalValues(static_cast<size_t>(m * k), 12);
      const std::vector<float> bias = NormalValues(static_cast<size_t>(n), 13);
      const std::vector<float> old_y = NormalValues(static_cast<size_t>(m * n), 14);
      for (const int mask : {0, 1, 2, 3}) {
        SCOPED_TRACE(testing::Message()
                     << "MatMul " << DTypeName(dtype) << " M " << m << " N " << n << " K " << k
                     << " bias " << (mask & 1) << " accumulate " << (mask >> 1));
        Product product{.weight = weight, .x = x, .num_rows = m};
        if ((mask & 1) != 0) product.bias = bias;
        if ((mask & 2) != 0) product.old_y = old_y;
        ExpectRowsClose(product.RunOn(*reference_), product.RunOn(*backend_), n,
                        GetParam().MatMulBound(dtype));
      }
    }
  }
}

// A layer calls it like this: q, k and v of one x, each with its own width, dtype, bias and rule.
TEST_P(MatMulConformance, SeveralTasksOfOneXAreIndependent) {
  const int64_t k = 288;
  const TestWeight weights[] = {
      TestWeight(DType::kQ8_0, 70, k, 21), TestWeight(DType::kF32, 9, k, 22),
      TestWeight(DType::kF16, 33, k, 23), TestWeight(DType::kBF16, 1, k, 24)};
  for (const int m : {1, 3, 33}) {
    const std::vector<float> x = NormalValues(static_cast<size_t>(m * k), 25);
    TestFloats device_x(*backend_, x);
    const std::vector<float> bias = NormalValues(70, 26);
    TestFloats device_bias(*backend_, bias);
    const std::vector<float> old_y = NormalValues(static_cast<size_t>(m * 70), 27);
    std::vector<std::unique_ptr<Weight>> loaded;
    std::vector<std::unique_ptr<TestFloats>> outputs;
    std::vector<MatMulTask> tasks;
    for (size_t i = 0; i < std::size(weights); ++i) {
      loaded.push_back(Load(*backend_, weights[i]));
      const int64_t n = loaded.back()->rows();
      outputs.push_back(std::make_unique<TestFloats>(*backend_, RowsOf(old_y, 0, m, n)));
      tasks.push_back({.weight = loaded.back().get(),
                       .bias = i % 2 == 0 ? device_bias.data() : nullptr,
                       .y = outputs.back()->data(),
                       .accumulate = i == 2});
    }
    backend_->MatMul(device_x.data(), m, tasks);
    for (size_t i = 0; i < std::size(weights); ++i) {
      const WeightView view = weights[i].view();
      SCOPED_TRACE(testing::Message() << "MatMul task " << i << " " << DTypeName(view.dtype)
                                      << " M " << m << " N " << view.rows << " K " << k);
      Product product{.weight = weights[i], .x = x, .num_rows = m};
      if (i % 2 == 0) product.bias = RowsOf(bias, 0, 1, view.rows);
      if (i == 2) product.old_y = old_y;
      ExpectRowsClose(product.RunOn(*reference_), outputs[i]->Read(), view.rows,
                      GetParam().MatMulBound(view.dtype), RowScales(*reference_, weights[i], x));
    }
  }
}

// A weight reports its shape, and counts at least the bytes of its elements.
TEST_P(MatMulConformance, ALoadedWeightKeepsItsShape) {
  for (const DType dtype : kWeightDTypes) {
    const int64_t columns = ColumnsFor({.n = 33, .k = 64}, dtype);
    const TestWeight file_weight(dtype, 33, columns, 31);
    const auto weight = Load(*backend_, file_weight);
    EXPECT_EQ(weight->dtype(), dtype);
    EXPECT_EQ(weight->rows(), 33);
    EXPECT_EQ(weight->columns(), columns);
    EXPECT_GE(weight->bytes(), DTypeBytes(dtype, static_cast<size_t>(33 * columns)))
        << DTypeName(dtype);
  }
}

KVGATE_RUN_ON_ALL_BACKENDS(MatMulConformance);

}  // namespace
}  // namespace kvgate::kernels
