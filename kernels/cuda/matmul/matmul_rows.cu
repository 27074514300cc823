// Kernels around the products of many rows: conversion of x to f16, addition of segments; and
// products with f32 weights.
#include <type_traits>

#include "kernels/cuda/matmul/matmul_kernels.h"
#include "kernels/cuda/matmul/packed_units.cuh"
#include "kernels/cuda/matmul/product.cuh"

namespace kvgate::kernels::cuda::matmul {

using device::CommandStream;

namespace {

constexpr int kThreads = 8 * device::kWarpLanes;

// ---- x in f16: a block is a row ---------------------------------------------------------------

struct PackRowsArgument {
  const float* x;
  RowSources sources;
  uint16_t* values;
  float* scales;
  int columns;
  int padded_columns;
  int64_t is_in_steps;
};
static_assert(std::has_unique_object_representations_v<PackRowsArgument>);

// Maps a position in ColumnOrder::kSteps to the pair of columns stored there, within 16 pairs. The
// position consists of step, half of the step, and lane; a lane has 4 adjacent pairs, 2 of each
// step.
KVGATE_DEVICE int PairInSteps(int pair) {
  return (pair & ~15) | (pair & 3) << 2 | (pair >> 3 & 1) << 1 | (pair >> 2 & 1);
}

KVGATE_KERNEL void KVGATE_LAUNCH_BOUNDS(kThreads, 4) PackRowsKernel(PackRowsArgument argument) {
  const int64_t row = blockIdx.x;
  const float* from =
      argument.x + SourceOf(argument.sources, static_cast<int>(row)) * argument.columns;
  auto* to = reinterpret_cast<uint32_t*>(argument.values + row * argument.padded_columns);
  const uint32_t magnitude =
      BlockMagnitude(from, argument.columns, reinterpret_cast<uint32_t*>(device::SharedMemory()));
  const float multiplier = device::BitsToFloat(MultiplierBits(magnitude));
  if (threadIdx.x == 0) argument.scales[row] = device::BitsToFloat(InverseBits(magnitude));
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
  FinishOutput(product, product.y, row, output, total, argument.x_scales[row]);
}

// ---- sums that a library has made ---------------------------------------------------------------

KVGATE_KERNEL void KVGATE_LAUNCH_BOUNDS(kThreads, 4) FinishRowsKernel(AddPartsArgument argument) {
  const Product& product = argument.product;
  const int64_t index = int64_t{blockIdx.x} * kThreads + static_cast<int>(threadIdx.x);
  if (index >= argument.num_rows * product.rows) return;
  const auto row = static_cast<int>(index / product.rows);
  FinishOutput(product, product.y, row, static_cast<int>(index % product.rows),
               product.parts[index], argument.x_scales[row]);
}

// ---- f32 weights: a warp is an output and some rows ------------------------------------------

constexpr int kFloatRows = 4;     // rows of x per warp
constexpr int kFloatOutputs = 8;  // per block, one per warp

// Computes one output with a warp. x_of(row) returns a row of x.
template <typename RowOf>
KVGATE_DEVICE void RunFloatOutput(const Product& product, float* all_y, int output, int columns,
                                  int first_row, int num_rows, RowOf x_of) {
  const float* weight = reinterpret_cast<const float*>(product.weight) + int64_t{output} * columns;
  const int count = num_rows - first_row < kFloatRows ? num_rows - first_row : kFloatRows;
  const float* x[kFloatRows];
  KVGATE_UNROLL
  for (int row = 0; row < kFloatRows; ++row)
    x[row] = x_of(row < count ? first_row + row : first_row);
  float sum[kFloatRows] = {};
  for (int k = device::LaneIndex(); k < columns; k += device::kWarpLanes) {
    KVGATE_UNROLL
    for (int row = 0; row < kFloatRows; ++row) {
      if (row < count) sum[row] = device::Fma(weight[k], x[row][k], sum[row]);
    }
  }
  KVGATE_UNROLL
  for (int row = 0; row < kFloatRows; ++row) {
    if (row >= count) break;
    for (int mask = device::kWarpLanes / 2; mask > 0; mask /= 2)
      sum[row] += device::ShuffleXor(sum[row], mask);
    if (device::LaneIndex() != 0) continue;
    float* y = all_y + int64_t{first_row + row} * product.rows + output;
    float value = sum[row];
    if (product.bias != nullptr) value += product.bias[output];
    if (product.accumulates != 0) value += *y;
    *y = value;
  }
}

struct FloatRowsArgument {
  Product product;
  const float* x;
  int num_rows;
  int columns;
};
static_assert(std::has_unique_object_representations_v<FloatRowsArgument>);

KVGATE_KERNEL void KVGATE_LAUNCH_BOUNDS(kThreads, 4) FloatRowsKernel(FloatRowsArgument argument) {
  const int output = static_cast<int>(blockIdx.x) * kFloatOutputs + device::WarpIndex();
  if (output >= argument.product.rows) return;  // applies to the whole warp
  RunFloatOutput(argument.product, argument.product.y, output, argument.columns,
                 static_cast<int>(blockIdx.y) * kFloatRows, argument.num_rows,
                 [&](int row) { return argument.x + int64_t{row} * argument.columns; });
}

struct FloatExpertRowsArgument {
  const float* x;
  RowSources sources;
  ExpertProducts products;
  int64_t columns;
};
static_assert(std::has_unique_object_representations_v<FloatExpertRowsArgument>);

KVGATE_KERNEL void KVGATE_LAUNCH_BOUNDS(kThreads, 4)
    FloatExpertRowsKernel(FloatExpertRowsArgument argument) {
  const int num_blocks = (argument.products.outputs + kFloatOutputs - 1) / kFloatOutputs;
  const GroupPlace place = GroupPlaceOf(argument.products, num_blocks);
  const ExpertMatrix* matrix = MatrixOf(argument.products, place, PackedKind::kFloats);
  const int output = place.index * kFloatOutputs + device::WarpIndex();
  // applies to the whole warp
  if (matrix == nullptr || output >= argument.products.outputs) return;
  for (int first = 0; first < place.group.count; first += kFloatRows) {
    RunFloatOutput(matrix->product, OutputOf(argument.products, place), output,
                   static_cast<int>(argument.columns), first, place.group.count, [&](int row) {
                     const int64_t source = SourceOf(argument.sources, place.group.first + row);
                     return argument.x + source * argument.columns;
                   });
  }
}

void LaunchPack(const InputRows& x, const RowSources& sources, ColumnOrder order,
                CommandStream& stream) {
  stream.Launch(&PackRowsKernel,
                {.grid = {static_cast<unsigned int>(x.halves.num_rows)},
                 .threads = kThreads,
                 .shared_bytes = 8 * sizeof(uint32_t)},
                {.x = x.x,
                 .sources = sources,
                 .values = const_cast<uint16_t*>(x.halves.values),
                 .scales = const_cast<float*>(x.halves.scales),
                 .columns = static_cast<int>(x.columns),
                 .padded_columns = x.halves.padded_columns,
                 .is_in_steps = order == ColumnOrder::kSteps ? 1 : 0});
}

}  // namespace

void LaunchPackRows(const InputRows& x, ColumnOrder order, CommandStream& stream) {
  LaunchPack(x, {}, order, stream);
}

void LaunchPackRows(const InputRows& x, const RowSources& sources, CommandStream& stream) {
  LaunchPack(x, sources, ColumnOrder::kNatural, stream);
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

void LaunchFloatRows(const float* x, int columns, const RowSources& sources,
                     const ExpertProducts& products, CommandStream& stream) {
  const int blocks_of_product = (products.outputs + kFloatOutputs - 1) / kFloatOutputs;
  const int num_blocks = products.num_groups * products.num_products * blocks_of_product;
  stream.Launch(&FloatExpertRowsKernel,
                {.grid = {static_cast<unsigned int>(num_blocks)}, .threads = kThreads},
                {.x = x, .sources = sources, .products = products, .columns = columns});
}

}  // namespace kvgate::kernels::cuda::matmul
