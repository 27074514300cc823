// What products of many rows need beside the product: x in f16, segments added up; and products
// with f32 weights.
#include <type_traits>

#include "kernels/cuda/matmul_kernels.h"
#include "kernels/cuda/packed_units.cuh"
#include "kernels/cuda/product.cuh"

namespace kvgate::kernels::cuda {
namespace {

constexpr int kThreads = 8 * kWarpLanes;

// ---- x in f16: a block is a row ---------------------------------------------------------------

struct PackRowsArgument {
  const float* x;
  uint16_t* values;
  float* scales;
  int columns;
  int padded_columns;
  int64_t is_in_steps;
};
static_assert(std::has_unique_object_representations_v<PackRowsArgument>);

// Of each 16 pairs of columns, in ColumnOrder::kSteps: step, then half of the step, then lane,
// where a lane has 4 pairs of neighbours, 2 of each step.
KVGATE_DEVICE int PairInSteps(int pair) {
  return (pair & ~15) | (pair & 3) << 2 | (pair >> 3 & 1) << 1 | (pair >> 2 & 1);
}

KVGATE_KERNEL void KVGATE_LAUNCH_BOUNDS(kThreads, 4) PackRowsKernel(PackRowsArgument argument) {
  const int64_t row = blockIdx.x;
  const float* from = argument.x + row * argument.columns;
  auto* to = reinterpret_cast<uint32_t*>(argument.values + row * argument.padded_columns);
  const uint32_t magnitude =
      BlockMagnitude(from, argument.columns, reinterpret_cast<uint32_t*>(SharedMemory()));
  const float multiplier = BitsToFloat(MultiplierBits(magnitude));
  if (threadIdx.x == 0) argument.scales[row] = BitsToFloat(InverseBits(magnitude));
  for (int pair = static_cast<int>(threadIdx.x); pair < argument.padded_columns / 2;
       pair += kThreads) {
    const int of_x = argument.is_in_steps != 0 ? PairInSteps(pair) : pair;
    to[pair] = ScaledPair(from, argument.columns, of_x, multiplier);
  }
}

// ---- segments that blocks of their own have summed ----------------------------------------------

struct AddPartsArgument {
  Product product;
  const float* x_scales;
  int64_t num_rows;
};
static_assert(std::has_unique_object_representations_v<AddPartsArgument>);

KVGATE_KERNEL void KVGATE_LAUNCH_BOUNDS(kThreads, 4) AddPartsKernel(AddPartsArgument argument) {
  const Product& product = argument.product;
  const int64_t index = int64_t{blockIdx.x} * kThreads + static_cast<int>(threadIdx.x);
  const int64_t width = int64_t{product.num_tiles} * kTileRows;
  const int64_t count = argument.num_rows * width;
  const auto row = static_cast<int>(index / width);
  const auto output = static_cast<int>(index % width);
  if (index >= count || output >= product.rows) return;
  float parts[kSegments];
  KVGATE_UNROLL
  for (int i = 0; i < kSegments; ++i) parts[i] = product.parts[i * count + index];
  float total = 0;
  KVGATE_UNROLL
  for (int i = 0; i < kSegments; ++i) total += parts[i];
  FinishOutput(product, row, output, total, argument.x_scales[row]);
}

// ---- sums that a library has made ---------------------------------------------------------------

KVGATE_KERNEL void KVGATE_LAUNCH_BOUNDS(kThreads, 4) FinishRowsKernel(AddPartsArgument argument) {
  const Product& product = argument.product;
  const int64_t index = int64_t{blockIdx.x} * kThreads + static_cast<int>(threadIdx.x);
  if (index >= argument.num_rows * product.rows) return;
  const auto row = static_cast<int>(index / product.rows);
  FinishOutput(product, row, static_cast<int>(index % product.rows), product.parts[index],
               argument.x_scales[row]);
}

// ---- f32 weights: a warp is an output and some rows
// -----------------------------------------------

constexpr int kFloatRows = 4;     // of x, of a warp
constexpr int kFloatOutputs = 8;  // of a block, one each warp

struct FloatRowsArgument {
  Product product;
  const float* x;
  int num_rows;
  int columns;
};
static_assert(std::has_unique_object_representations_v<FloatRowsArgument>);

KVGATE_KERNEL void KVGATE_LAUNCH_BOUNDS(kThreads, 4) FloatRowsKernel(FloatRowsArgument argument) {
  const Product& product = argument.product;
  const int output = static_cast<int>(blockIdx.x) * kFloatOutputs + WarpIndex();
  const int first_row = static_cast<int>(blockIdx.y) * kFloatRows;
  if (output >= product.rows) return;  // a whole warp
  const float* weight =
      reinterpret_cast<const float*>(product.weight) + int64_t{output} * argument.columns;
  const float* x = argument.x + int64_t{first_row} * argument.columns;
  const int count =
      argument.num_rows - first_row < kFloatRows ? argument.num_rows - first_row : kFloatRows;
  float sum[kFloatRows] = {};
  for (int k = LaneIndex(); k < argument.columns; k += kWarpLanes) {
    KVGATE_UNROLL
    for (int row = 0; row < kFloatRows; ++row) {
      if (row < count) sum[row] = Fma(weight[k], x[int64_t{row} * argument.columns + k], sum[row]);
    }
  }
  KVGATE_UNROLL
  for (int row = 0; row < kFloatRows; ++row) {
    if (row >= count) break;
    for (int mask = kWarpLanes / 2; mask > 0; mask /= 2) sum[row] += ShuffleXor(sum[row], mask);
    if (LaneIndex() != 0) continue;
    float* y = product.y + int64_t{first_row + row} * product.rows + output;
    float value = sum[row];
    if (product.bias != nullptr) value += product.bias[output];
    if (product.accumulates != 0) value += *y;
    *y = value;
  }
}

}  // namespace

void LaunchPackRows(const InputRows& x, ColumnOrder order, CommandStream& stream) {
  stream.Launch(&PackRowsKernel,
                {.grid = {static_cast<unsigned int>(x.halves.num_rows)},
                 .threads = kThreads,
                 .shared_bytes = 8 * sizeof(uint32_t)},
                {.x = x.x,
                 .values = const_cast<uint16_t*>(x.halves.values),
                 .scales = const_cast<float*>(x.halves.scales),
                 .columns = static_cast<int>(x.columns),
                 .padded_columns = x.halves.padded_columns,
                 .is_in_steps = order == ColumnOrder::kSteps ? 1 : 0});
}

void LaunchAddParts(const HalfRows& x, std::span<const Product> products, CommandStream& stream) {
  for (const Product& product : products) {
    const int64_t count = int64_t{x.num_rows} * product.num_tiles * kTileRows;
    stream.Launch(&AddPartsKernel,
                  {.grid = {static_cast<unsigned int>((count + kThreads - 1) / kThreads)},
                   .threads = kThreads},
                  {.product = product, .x_scales = x.scales, .num_rows = x.num_rows});
  }
}

void LaunchFinishRows(const HalfRows& x, const Product& product, CommandStream& stream) {
  const int64_t count = int64_t{x.num_rows} * product.rows;
  stream.Launch(
      &FinishRowsKernel,
      {.grid = {static_cast<unsigned int>((count + kThreads - 1) / kThreads)}, .threads = kThreads},
      {.product = product, .x_scales = x.scales, .num_rows = x.num_rows});
}

void LaunchFloatRows(const float* x, int num_rows, int columns, const Product& product,
                     CommandStream& stream) {
  const auto outputs = static_cast<unsigned int>(product.rows);
  const auto rows = static_cast<unsigned int>(num_rows);
  stream.Launch(&FloatRowsKernel,
                {.grid = {(outputs + kFloatOutputs - 1) / kFloatOutputs,
                          (rows + kFloatRows - 1) / kFloatRows},
                 .threads = kThreads},
                {.product = product, .x = x, .num_rows = num_rows, .columns = columns});
}

}  // namespace kvgate::kernels::cuda
