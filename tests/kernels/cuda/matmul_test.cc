#include "kernels/cuda/matmul.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "kernels/cuda/device_memory.h"
#include "kernels/cuda/matmul_kernels.h"
#include "tests/kernels/test_tensors.h"

namespace kvgate::kernels::cuda {
namespace {

// Device memory with values, whole.
class Floats {
 public:
  explicit Floats(std::span<const float> values) : count_(values.size()) {
    memory_ = std::move(*DeviceMemory::Allocate(values.size_bytes(), "test"));
    memory_.CopyIn(std::as_bytes(values));
  }
  float* data() const { return reinterpret_cast<float*>(memory_.data()); }
  std::vector<float> Read() const {
    std::vector<float> values(count_);
    cudaMemcpy(values.data(), memory_.data(), count_ * sizeof(float), cudaMemcpyDeviceToHost);
    return values;
  }

 private:
  DeviceMemory memory_;
  size_t count_;
};

class DeviceMatMulTest : public testing::Test {
 protected:
  void SetUp() override {
    stream_ = std::move(*CommandStream::Open({.staging_bytes = 4096}));
    Open(1);
  }
  void Open(int num_multiprocessors) {
    matmul_ =
        std::move(*DeviceMatMul::Open({.num_multiprocessors = num_multiprocessors}, *stream_));
  }
  std::unique_ptr<Weight> Load(const TestWeight& weight) {
    auto loaded = matmul_->LoadWeight(weight.view());
    EXPECT_TRUE(loaded.has_value());
    return std::move(*loaded);
  }
  // With a bias and an old y that differ from output to output.
  std::vector<float> Run(const Weight& weight, std::span<const float> x, bool is_plain = false) {
    const auto num_rows = static_cast<int64_t>(x.size()) / weight.columns();
    const auto count = static_cast<size_t>(num_rows * weight.rows());
    const Floats device_x(x);
    const Floats bias(NormalValues(static_cast<size_t>(weight.rows()), 5));
    const Floats y(std::vector<float>(count, is_plain ? NAN : 0.25f));
    const MatMulTask task{.weight = &weight,
                          .bias = is_plain ? nullptr : bias.data(),
                          .y = y.data(),
                          .accumulate = !is_plain};
    matmul_->Run(device_x.data(), static_cast<int>(num_rows), {&task, 1});
    stream_->Synchronize();
    return y.Read();
  }

  std::unique_ptr<CommandStream> stream_;
  std::unique_ptr<DeviceMatMul> matmul_;
};

// A row of values times a matrix, in f64.
std::vector<double> WantRow(std::span<const float> matrix, std::span<const float> x) {
  std::vector<double> want(matrix.size() / x.size());
  for (size_t n = 0; n < want.size(); ++n) {
    for (size_t k = 0; k < x.size(); ++k) want[n] += double{matrix[n * x.size() + k]} * x[k];
  }
  return want;
}

std::vector<float> ValuesOf(const TestWeight& weight) {
  const WeightView view = weight.view();
  std::vector<float> values(static_cast<size_t>(view.rows * view.columns));
  DequantizeValues(view.dtype, view.data, view.rows * view.columns, values.data());
  return values;
}

// Half a unit of the eleventh bit in x and the same in a weight's value; its scale is rounded too.
double BoundOf(DType dtype) {
  if (dtype == DType::kF32) return 1e-5;
  return HasQuantLayout(dtype) ? 1.5e-3 : 1e-3;
}

struct Shape {
  int64_t n;
  int64_t k;
};

int64_t ColumnsFor(int64_t k, DType dtype) {
  const int64_t unit = DTypeElements(dtype);
  return (k + unit - 1) / unit * unit;
}

TEST_F(DeviceMatMulTest, ProductsAreThoseOfTheWeightsValues) {
  for (const DType dtype : kWeightDTypes) {
    for (const Shape shape : {Shape{1, 1}, Shape{17, 255}, Shape{33, 1100}, Shape{150, 640}}) {
      const int64_t k = ColumnsFor(shape.k, dtype);
      const TestWeight file_weight(dtype, shape.n, k, 7);
      const std::vector<float> matrix = ValuesOf(file_weight);
      const auto weight = Load(file_weight);
      const double factor = Norm(matrix) / std::sqrt(static_cast<double>(k));
      for (const int num_rows : {1, 3, 40}) {
        SCOPED_TRACE(testing::Message()
                     << DTypeName(dtype) << " M " << num_rows << " N " << shape.n << " K " << k);
        const std::vector<float> x = HostileRows(num_rows, k, 8);
        const std::vector<float> got = Run(*weight, x, true);
        for (int row = 0; row < num_rows; ++row) {
          const auto x_row = RowsOf(x, row, 1, k);
          const std::vector<double> want = WantRow(matrix, x_row);
          double error = 0;
          double norm = 0;
          for (size_t i = 0; i < want.size(); ++i) {
            const double delta = got[static_cast<size_t>(row * shape.n) + i] - want[i];
            error += delta * delta;
            norm += want[i] * want[i];
          }
          const double scale = std::max(std::sqrt(norm), Norm(x_row) * factor);
          ASSERT_LE(std::sqrt(error), BoundOf(dtype) * scale + 1e-34) << "row " << row;
        }
      }
    }
  }
}

}  // namespace
}  // namespace kvgate::kernels::cuda
