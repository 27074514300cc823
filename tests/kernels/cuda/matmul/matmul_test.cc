#include "kernels/cuda/matmul/matmul.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "kernels/cuda/matmul/matmul_kernels.h"
#include "tests/kernels/cuda/device_values.h"
#include "tests/kernels/test_tensors.h"

namespace kvgate::kernels::cuda::matmul {
namespace {

using Floats = DeviceValues<float>;

class DeviceMatMulTest : public testing::Test {
 protected:
  void SetUp() override {
    stream_ = std::move(*device::CommandStream::Open({.staging_bytes = 4096}));
    Open(1);
  }
  void Open(int num_multiprocessors, bool has_warpgroups = false) {
    matmul_ = std::move(*DeviceMatMul::Open(
        {.num_multiprocessors = num_multiprocessors, .has_warpgroups = has_warpgroups}, *stream_));
  }
  std::unique_ptr<Weight> Load(const TestWeight& weight) {
    auto loaded = matmul_->LoadWeight(weight.view());
    EXPECT_TRUE(loaded.has_value());
    return std::move(*loaded);
  }
  // Multiplies with a bias and an old y that differ between outputs, unless `is_plain`.
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

  std::unique_ptr<device::CommandStream> stream_;
  std::unique_ptr<DeviceMatMul> matmul_;
};

// Multiplies a row of values by a matrix in f64.
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

// The bound is half a unit of the eleventh bit in x and the same in a weight, whose scale is also
// rounded.
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

// 100 rows are computed in one product, and in products of 1 to 70 rows.
TEST_F(DeviceMatMulTest, ARowHasTheSameBitsAmongAnyNumberOfRows) {
  constexpr int kRows = 100;
  for (const DType dtype : kWeightDTypes) {
    const int64_t k = ColumnsFor(1100, dtype);
    const TestWeight file_weight(dtype, 37, k, 21);
    const auto weight = Load(file_weight);
    const std::vector<float> x = HostileRows(kRows, k, 22);
    const std::vector<float> want = Run(*weight, x);
    for (const int num_rows : {1, 2, 3, 8, 9, 40, 70}) {
      SCOPED_TRACE(testing::Message() << DTypeName(dtype) << " M " << num_rows);
      for (const int first : {0, 13, kRows - num_rows}) {
        const auto got = Run(*weight, RowsOf(x, first, num_rows, k));
        ExpectSameBits(RowsOf(want, first, num_rows, 37), got, 37);
      }
    }
  }
}

// If a device has more multiprocessors than a product has blocks, blocks share its segments.
TEST_F(DeviceMatMulTest, SharedSegmentsHaveTheSameBits) {
  for (const DType dtype : {DType::kBF16, DType::kQ4_K, DType::kQ6_K}) {
    const int64_t k = ColumnsFor(1100, dtype);
    const TestWeight file_weight(dtype, 150, k, 23);
    const std::vector<float> x = HostileRows(70, k, 24);
    Open(1);
    const std::vector<float> want = Run(*Load(file_weight), x);
    for (const int num_multiprocessors : {2, 5, 100}) {
      SCOPED_TRACE(testing::Message() << DTypeName(dtype) << " on " << num_multiprocessors);
      Open(num_multiprocessors);
      const auto weight = Load(file_weight);
      ExpectSameBits(want, Run(*weight, x), 150);
      ExpectSameBits(RowsOf(want, 0, 20, 150), Run(*weight, RowsOf(x, 0, 20, k)), 150);
    }
  }
}

// One dtype for each kind of packed weight. K is an odd number of units, fewer than the segments,
// and past a unit; outputs and rows end past a block; blocks have 128 rows and, for 16 bits, 192.
TEST_F(DeviceMatMulTest, WarpgroupsGiveTheSameBits) {
  for (const DType dtype : {DType::kBF16, DType::kQ4_0, DType::kQ4_K, DType::kQ2_K, DType::kQ5_0,
                            DType::kQ6_K, DType::kQ8_0}) {
    for (const Shape shape : {Shape{150, 1100}, Shape{17, 300}, Shape{128, 1}, Shape{130, 832}}) {
      if (dtype != DType::kBF16 && shape.k == 832) continue;
      const int64_t k = ColumnsFor(shape.k, dtype);
      const TestWeight file_weight(dtype, shape.n, k, 25);
      const std::vector<float> x = HostileRows(300, k, 26);
      Open(1);
      const std::vector<float> want = Run(*Load(file_weight), x);
      Open(1, true);
      ASSERT_TRUE(matmul_->uses_warpgroups());
      const auto weight = Load(file_weight);
      for (const int num_rows : {70, 193, 300}) {
        SCOPED_TRACE(testing::Message()
                     << DTypeName(dtype) << " M " << num_rows << " N " << shape.n << " K " << k);
        ExpectSameBits(RowsOf(want, 0, num_rows, shape.n), Run(*weight, RowsOf(x, 0, num_rows, k)),
                       shape.n);
      }
    }
  }
}

// One call has several kinds, one of them too small for blocks of its own, so none uses warpgroups.
TEST_F(DeviceMatMulTest, TasksOfOneXAgreeOnAnOrderOfItsColumns) {
  const int64_t k = 256;
  const TestWeight large(DType::kQ8_0, 700, k, 27);
  const TestWeight small(DType::kQ6_K, 20, k, 28);
  const std::vector<float> x = HostileRows(130, k, 29);
  const Floats device_x(x);
  std::vector<std::vector<float>> of_warps;
  for (const bool has_warpgroups : {false, true}) {
    for (const int num_multiprocessors : {1, 4}) {
      Open(num_multiprocessors, has_warpgroups);
      const auto large_weight = Load(large);
      const auto small_weight = Load(small);
      const Floats large_y(std::vector<float>(130 * 700));
      const Floats small_y(std::vector<float>(130 * 20));
      const MatMulTask tasks[] = {{.weight = large_weight.get(), .y = large_y.data()},
                                  {.weight = small_weight.get(), .y = small_y.data()}};
      matmul_->Run(device_x.data(), 130, tasks);
      stream_->Synchronize();
      of_warps.push_back(large_y.Read());
      of_warps.push_back(small_y.Read());
    }
  }
  for (size_t i = 2; i < of_warps.size(); ++i) {
    ExpectSameBits(of_warps[i % 2], of_warps[i], i % 2 == 0 ? 700 : 20);
  }
}

TEST_F(DeviceMatMulTest, WarpgroupsThatAddOtherwiseAreNotUsed) {
  const TestWeight file_weight(DType::kF16, 40, 300, 30);
  const std::vector<float> x = HostileRows(70, 300, 31);
  Open(1);
  const std::vector<float> want = Run(*Load(file_weight), x);
  emulator::SetWarpgroupsRound(true);
  Open(1, true);
  EXPECT_FALSE(matmul_->uses_warpgroups());
  const std::vector<float> got = Run(*Load(file_weight), x);
  emulator::SetWarpgroupsRound(false);
  ExpectSameBits(want, got, 40);
}

// Blocks have 192 rows if that gives fewer waves of blocks, for 16-bit weights only.
TEST_F(DeviceMatMulTest, RowsOfAWarpgroupsBlockAreWhatTheDeviceTakesLeastTimeFor) {
  const Product product{.num_tiles = 8 * 4};  // four blocks of outputs
  const auto rows_of_block = [&](PackedKind kind, int num_rows, int num_multiprocessors) {
    return WarpgroupShapeOf(kind, num_rows, {&product, 1}, num_multiprocessors).rows_of_block;
  };
  EXPECT_EQ(rows_of_block(PackedKind::kHalves, 1920, 8), 192);  // 5 waves with 192 rows, 8 with 128
  EXPECT_EQ(rows_of_block(PackedKind::kHalves, 256, 8), 128);   // one wave with either
  EXPECT_EQ(rows_of_block(PackedKind::kCodes8, 1920, 8), 128);
  const WarpgroupShape shape = WarpgroupShapeOf(PackedKind::kHalves, 193, {&product, 1}, 8);
  EXPECT_EQ(shape.num_row_blocks, 2);
  EXPECT_EQ(shape.num_blocks, 8);
}

TEST_F(DeviceMatMulTest, ARowDoesNotFeelItsNeighbours) {
  for (const DType dtype : {DType::kF32, DType::kF16, DType::kQ4_K, DType::kQ8_0}) {
    const int64_t k = ColumnsFor(96, dtype);
    const TestWeight file_weight(dtype, 33, k, 31);
    const auto weight = Load(file_weight);
    const std::vector<float> row = HostileValues(static_cast<size_t>(k), 32);
    const std::vector<float> want = Run(*weight, row);
    for (const float other : {std::numeric_limits<float>::quiet_NaN(),
                              std::numeric_limits<float>::infinity(), 3e38f, 0.0f}) {
      for (const int num_rows : {2, 8, 33}) {
        SCOPED_TRACE(testing::Message()
                     << DTypeName(dtype) << " beside " << num_rows - 1 << " rows of " << other);
        const int place = num_rows / 2;
        std::vector<float> x(static_cast<size_t>(num_rows * k), other);
        std::copy(row.begin(), row.end(), x.begin() + place * k);
        const std::vector<float> got = Run(*weight, x, false);
        ExpectSameBits(want, RowsOf(got, place, 1, 33), 33);
        if (std::isnan(other)) {
          EXPECT_TRUE(std::isnan(got[0]) && std::isnan(got[32]));
        }
      }
    }
  }
}

TEST_F(DeviceMatMulTest, ARowOfZerosIsItsBiasAndOldOutput) {
  const TestWeight file_weight(DType::kBF16, 20, 70, 41);
  const auto weight = Load(file_weight);
  const std::vector<float> bias = NormalValues(20, 5);
  for (const int num_rows : {1, 40}) {
    const std::vector<float> got =
        Run(*weight, std::vector<float>(static_cast<size_t>(num_rows) * 70, 0.0f));
    for (size_t i = 0; i < got.size(); ++i) ASSERT_EQ(got[i], bias[i % 20] + 0.25f);
  }
}

// q, k and v of one x, each with its own dtype; there are more of one kind than one launch takes.
TEST_F(DeviceMatMulTest, TasksOfOneXDoNotFeelOneAnother) {
  const int64_t k = 288;
  std::vector<TestWeight> files;
  for (const DType dtype : {DType::kQ8_0, DType::kF32, DType::kF16, DType::kQ4_0}) {
    files.emplace_back(dtype, 40, k, 51 + files.size());
  }
  for (int i = 0; i < kProductsMax + 1; ++i) files.emplace_back(DType::kBF16, 9 + i, k, 60 + i);
  std::vector<std::unique_ptr<Weight>> weights;
  for (const TestWeight& file : files) weights.push_back(Load(file));
  for (const int num_rows : {1, 5, 40}) {
    const std::vector<float> x = HostileRows(num_rows, k, 52);
    const Floats device_x(x);
    const Floats bias(NormalValues(40, 5));
    std::vector<std::unique_ptr<Floats>> outputs;
    std::vector<MatMulTask> tasks;
    for (const auto& weight : weights) {
      outputs.push_back(std::make_unique<Floats>(
          std::vector<float>(static_cast<size_t>(num_rows * weight->rows()), 0.25f)));
      tasks.push_back({.weight = weight.get(),
                       .bias = bias.data(),
                       .y = outputs.back()->data(),
                       .accumulate = true});
    }
    matmul_->Run(device_x.data(), num_rows, tasks);
    stream_->Synchronize();
    for (size_t i = 0; i < weights.size(); ++i) {
      SCOPED_TRACE(testing::Message() << "task " << i << " M " << num_rows);
      ExpectSameBits(Run(*weights[i], x), outputs[i]->Read(), weights[i]->rows());
    }
  }
}

// Steps with equal commands run as graphs, so launch arguments must not differ between steps.
TEST_F(DeviceMatMulTest, ARepeatedProductIsAGraph) {
  const TestWeight file_weight(DType::kF16, 20, 70, 71);
  const auto weight = Load(file_weight);
  const Floats x(NormalValues(3 * 70, 72));
  const Floats y(std::vector<float>(60));
  const MatMulTask task{.weight = weight.get(), .y = y.data()};
  for (int i = 0; i < 4; ++i) {
    matmul_->Run(x.data(), 3, {&task, 1});
    stream_->Flush();
  }
  stream_->Synchronize();
  EXPECT_GE(stream_->num_graph_launches(), 2u);
}

TEST_F(DeviceMatMulTest, MemoryThatIsNotThereIsAnError) {
  const TestWeight file_weight(DType::kF16, 512, 512, 81);
  emulator::SetDeviceMemory(100000);
  const auto loaded = matmul_->LoadWeight(file_weight.view());
  const auto opened = DeviceMatMul::Open({}, *stream_);
  emulator::SetDeviceMemory(size_t{4} << 30);
  ASSERT_FALSE(loaded.has_value());
  EXPECT_EQ(loaded.error().code, ErrorCode::kOverloaded);
  ASSERT_FALSE(opened.has_value());
  EXPECT_EQ(opened.error().code, ErrorCode::kOverloaded);
}

TEST_F(DeviceMatMulTest, FastNumericsNeedALibraryThatTheEmulatorHasNot) {
  const auto opened = DeviceMatMul::Open({.is_fast = true}, *stream_);
  ASSERT_FALSE(opened.has_value());
  EXPECT_EQ(opened.error().code, ErrorCode::kUnsupported);
}

// If scratch cannot grow, x is processed in more pieces, with the same bits.
TEST_F(DeviceMatMulTest, ManyRowsInLittleScratchHaveTheSameBits) {
  const int64_t k = 16000;
  const TestWeight file_weight(DType::kQ8_0, 3, k, 91);
  const auto weight = Load(file_weight);
  const std::vector<float> x = NormalValues(static_cast<size_t>(150 * k), 92);
  const Floats device_x(x);
  const Floats y(std::vector<float>(450));
  const MatMulTask task{.weight = weight.get(), .y = y.data()};
  emulator::SetDeviceMemory(100000);
  matmul_->Run(device_x.data(), 150, {&task, 1});
  stream_->Synchronize();
  emulator::SetDeviceMemory(size_t{4} << 30);
  const std::vector<float> pieces = y.Read();
  ExpectSameBits(Run(*weight, x, true), pieces, 3);
}

}  // namespace
}  // namespace kvgate::kernels::cuda::matmul
