#include "kernels/cuda/rows/row_kernels.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "base/check.h"
#include "kernels/cuda/device/device.cuh"
#include "kernels/cuda/rows/float_run.cuh"

namespace kvgate::kernels::cuda::rows {

using device::CommandStream;
using device::kWarpLanes;
using device::LaneIndex;

namespace {

constexpr unsigned int kThreads = 256;
// This many blocks of 256 threads keep a multiprocessor's memory requests in flight; further items
// are reached by strides.
constexpr int64_t kBlocksPerMultiprocessor = 16;

KVGATE_DEVICE int64_t GlobalThread() { return int64_t{blockIdx.x} * blockDim.x + threadIdx.x; }
KVGATE_DEVICE int64_t GlobalStride() { return int64_t{gridDim.x} * blockDim.x; }

// ---- gather and scatter ---------------------------------------------------------------------

struct GatherArgument {
  const float* x;
  const int* rows;  // [num_rows]
  float* y;
  int64_t columns;
  uint32_t num_rows;
  uint32_t runs_per_row;
  uint64_t is_aligned;
};

KVGATE_KERNEL void GatherKernel(GatherArgument a) {
  const uint32_t num_runs = a.num_rows * a.runs_per_row;
  for (int64_t i = GlobalThread(); i < num_runs; i += GlobalStride()) {
    const uint32_t row = static_cast<uint32_t>(i) / a.runs_per_row;
    const int64_t begin = int64_t{static_cast<uint32_t>(i) % a.runs_per_row} * kRunFloats;
    const FloatRun run =
        LoadRun(a.x + a.rows[row] * a.columns, begin, a.columns, a.is_aligned != 0);
    StoreRun(run, a.y + row * a.columns, begin, a.columns, a.is_aligned != 0);
  }
}

// Rows of x that are added to the same row of y are listed together, in their order: one thread
// adds them all to its four values.
struct ScatterArgument {
  const float* x;
  const int* targets;     // [num_targets], distinct rows of y
  const uint32_t* ends;   // [num_targets]: end of each target's part of the two below
  const uint32_t* terms;  // rows of x
  const float* factors;
  float* y;
  int64_t columns;
  uint32_t num_targets;
  uint32_t runs_per_row;
  uint64_t is_aligned;
};

KVGATE_KERNEL void ScatterAddKernel(ScatterArgument a) {
  const uint32_t num_runs = a.num_targets * a.runs_per_row;
  const bool is_aligned = a.is_aligned != 0;
  for (int64_t i = GlobalThread(); i < num_runs; i += GlobalStride()) {
    const uint32_t target = static_cast<uint32_t>(i) / a.runs_per_row;
    const int64_t begin = int64_t{static_cast<uint32_t>(i) % a.runs_per_row} * kRunFloats;
    float* y = a.y + a.targets[target] * a.columns;
    FloatRun sums = LoadRun(y, begin, a.columns, is_aligned);
    for (uint32_t t = target == 0 ? 0 : a.ends[target - 1]; t < a.ends[target]; ++t) {
      const FloatRun x = LoadRun(a.x + a.terms[t] * a.columns, begin, a.columns, is_aligned);
      const float factor = a.factors[t];
      KVGATE_UNROLL
      for (int j = 0; j < kRunFloats; ++j) sums.value[j] += x.value[j] * factor;
    }
    StoreRun(sums, y, begin, a.columns, is_aligned);
  }
}

// ---- norm -----------------------------------------------------------------------------------

// Runs of a row that a thread keeps in registers between the sum and the product.
constexpr int kCachedRuns = 4;
// A row with at most this many columns is processed by one warp: norms of single heads.
constexpr int64_t kWarpColumnsMax = kWarpLanes * kRunFloats * kCachedRuns;
constexpr unsigned int kNormThreadsMax = 512;

struct NormArgument {
  const float* x;
  const float* weight;
  const float* bias;  // of a layer norm
  float* y;
  int64_t columns;
  uint32_t num_rows;
  float eps;
  uint64_t is_aligned;
};

KVGATE_DEVICE float WarpSum(float value) {
  KVGATE_UNROLL
  for (int mask = kWarpLanes / 2; mask > 0; mask /= 2) value += device::ShuffleXor(value, mask);
  return value;
}

// Sums over all threads of the block, at most 32 warps. Every thread gets the same bits.
KVGATE_DEVICE float BlockSum(float value) {
  auto* sums = reinterpret_cast<float*>(device::SharedMemory());
  value = WarpSum(value);
  if (LaneIndex() == 0) sums[device::WarpIndex()] = value;
  device::SyncThreads();
  const int num_warps = static_cast<int>(blockDim.x) / kWarpLanes;
  return WarpSum(LaneIndex() < num_warps ? sums[LaneIndex()] : 0.0f);
}

KVGATE_DEVICE void AddSquares(const FloatRun& run, FloatRun& sums) {
  KVGATE_UNROLL
  for (int j = 0; j < kRunFloats; ++j) {
    sums.value[j] = device::Fma(run.value[j], run.value[j], sums.value[j]);
  }
}

KVGATE_DEVICE FloatRun Normalized(const FloatRun& x, const FloatRun& weight, float scale) {
  FloatRun y;
  KVGATE_UNROLL
  for (int j = 0; j < kRunFloats; ++j) y.value[j] = x.value[j] * scale * weight.value[j];
  return y;
}

// Normalises one row on a warp or on a block. Thread i % num_threads processes run i of the row.
template <bool kIsWarp>
KVGATE_KERNEL void RmsNormKernel(NormArgument a) {
  const int num_threads = kIsWarp ? kWarpLanes : static_cast<int>(blockDim.x);
  const int thread = kIsWarp ? LaneIndex() : static_cast<int>(threadIdx.x);
  const uint32_t row =
      kIsWarp ? blockIdx.x * (blockDim.x / kWarpLanes) + static_cast<uint32_t>(device::WarpIndex())
              : blockIdx.x;
  if (row >= a.num_rows) return;  // applies to the whole warp, and no barrier follows
  const bool is_aligned = a.is_aligned != 0;
  const float* x = a.x + row * a.columns;
  float* y = a.y + row * a.columns;
  const int64_t stride = int64_t{num_threads} * kRunFloats;
  FloatRun cached[kCachedRuns];
  FloatRun weights[kCachedRuns];
  FloatRun sums = {};
  int64_t begin = int64_t{thread} * kRunFloats;
  KVGATE_UNROLL
  for (int i = 0; i < kCachedRuns; ++i) {
    cached[i] = LoadRun(x, begin + i * stride, a.columns, is_aligned);
    weights[i] = LoadRun(a.weight, begin + i * stride, a.columns, is_aligned);
  }
  KVGATE_UNROLL
  for (int i = 0; i < kCachedRuns; ++i) AddSquares(cached[i], sums);
  for (int64_t at = begin + kCachedRuns * stride; at < a.columns; at += stride) {
    AddSquares(LoadRun(x, at, a.columns, is_aligned), sums);
  }
  const float own = (sums.value[0] + sums.value[1]) + (sums.value[2] + sums.value[3]);
  const float sum = kIsWarp ? WarpSum(own) : BlockSum(own);
  const float scale = 1.0f / sqrtf(sum / static_cast<float>(a.columns) + a.eps);
  KVGATE_UNROLL
  for (int i = 0; i < kCachedRuns; ++i, begin += stride) {
    StoreRun(Normalized(cached[i], weights[i], scale), y, begin, a.columns, is_aligned);
  }
  for (; begin < a.columns; begin += stride) {
    const FloatRun weight = LoadRun(a.weight, begin, a.columns, is_aligned);
    StoreRun(Normalized(LoadRun(x, begin, a.columns, is_aligned), weight, scale), y, begin,
             a.columns, is_aligned);
  }
}

// Normalises one row on a warp. Only encoders have this norm; its three passes read the row from
// the cache.
KVGATE_KERNEL void LayerNormKernel(NormArgument a) {
  const uint32_t row =
      blockIdx.x * (blockDim.x / kWarpLanes) + static_cast<uint32_t>(device::WarpIndex());
  if (row >= a.num_rows) return;  // applies to the whole warp, and no barrier follows
  const float* x = a.x + row * a.columns;
  float* y = a.y + row * a.columns;
  const auto count = static_cast<float>(a.columns);
  float sum = 0;
  for (int64_t i = LaneIndex(); i < a.columns; i += kWarpLanes) sum += x[i];
  const float mean = WarpSum(sum) / count;
  float squares = 0;
  for (int64_t i = LaneIndex(); i < a.columns; i += kWarpLanes) {
    squares = device::Fma(x[i] - mean, x[i] - mean, squares);
  }
  const float scale = 1.0f / sqrtf(WarpSum(squares) / count + a.eps);
  for (int64_t i = LaneIndex(); i < a.columns; i += kWarpLanes) {
    y[i] = (x[i] - mean) * scale * a.weight[i] + a.bias[i];
  }
}

// ---- rotation -------------------------------------------------------------------------------

struct RopeTableArgument {
  const int* positions;   // [num_rows]
  const float* inv_freq;  // [half]
  float* table;
  uint32_t num_rows;
  uint32_t half;
  float magnitude;
  uint32_t padding;
};

// Computed in f64: at position 1 000 000 an f32 product is off by up to 0.06 rad.
KVGATE_KERNEL void RopeTableKernel(RopeTableArgument a) {
  const uint32_t num_entries = a.num_rows * a.half;
  for (int64_t i = GlobalThread(); i < num_entries; i += GlobalStride()) {
    const uint32_t row = static_cast<uint32_t>(i) / a.half;
    const uint32_t column = static_cast<uint32_t>(i) % a.half;
    const double angle =
        static_cast<double>(a.positions[row]) * static_cast<double>(a.inv_freq[column]);
    a.table[2 * i] = static_cast<float>(cos(angle) * static_cast<double>(a.magnitude));
    a.table[2 * i + 1] = static_cast<float>(sin(angle) * static_cast<double>(a.magnitude));
  }
}

struct RopeArgument {
  float* x;
  const float* table;  // [num_rows, half, 2]
  uint32_t num_rows;
  uint32_t num_heads;
  uint32_t head_dim;
  uint32_t half;
  uint64_t is_aligned;
};

// Products and their sum are rounded separately.
KVGATE_DEVICE void Rotate(float& a, float& b, float cosine, float sine) {
  const float first = a * cosine - b * sine;
  b = a * sine + b * cosine;
  a = first;
}

// A thread rotates four pairs of one head: 32 bytes of x and 32 of the table.
template <RopeKind kKind>
KVGATE_KERNEL void RopeKernel(RopeArgument a) {
  const uint32_t runs = (a.half + kRunFloats - 1) / kRunFloats;
  const uint32_t runs_per_row = runs * a.num_heads;
  const bool is_aligned = a.is_aligned != 0;
  for (int64_t i = GlobalThread(); i < int64_t{a.num_rows} * runs_per_row; i += GlobalStride()) {
    const uint32_t row = static_cast<uint32_t>(i) / runs_per_row;
    const uint32_t in_row = static_cast<uint32_t>(i) % runs_per_row;
    const uint32_t head = in_row / runs;
    const int64_t pair = int64_t{in_row % runs} * kRunFloats;
    float* x = a.x + (int64_t{row} * a.num_heads + head) * a.head_dim;
    const float* table = a.table + int64_t{row} * a.half * 2;
    const int64_t end = 2 * int64_t{a.half};
    const FloatRun angles[2] = {LoadRun(table, 2 * pair, end, is_aligned),
                                LoadRun(table, 2 * pair + kRunFloats, end, is_aligned)};
    // Starts of the two runs, and the end of the first.
    const int64_t first = kKind == RopeKind::kHalves ? pair : 2 * pair;
    const int64_t second = kKind == RopeKind::kHalves ? a.half + pair : first + kRunFloats;
    const int64_t first_end = kKind == RopeKind::kHalves ? a.half : end;
    FloatRun low = LoadRun(x, first, first_end, is_aligned);
    FloatRun high = LoadRun(x, second, end, is_aligned);
    KVGATE_UNROLL
    for (int j = 0; j < kRunFloats; ++j) {
      const FloatRun& entry = angles[j / 2];
      if constexpr (kKind == RopeKind::kHalves) {
        Rotate(low.value[j], high.value[j], entry.value[j % 2 * 2], entry.value[j % 2 * 2 + 1]);
      } else {
        FloatRun& run = j < 2 ? low : high;
        Rotate(run.value[j % 2 * 2], run.value[j % 2 * 2 + 1], entry.value[j % 2 * 2],
               entry.value[j % 2 * 2 + 1]);
      }
    }
    StoreRun(low, x, first, first_end, is_aligned);
    StoreRun(high, x, second, end, is_aligned);
  }
}

// ---- value by value -------------------------------------------------------------------------

// out[i] = Function(a[i], b[i]); `out` may equal either. If b is unused, it is set to a.
struct ValuesArgument {
  const float* a;
  const float* b;
  float* out;
  int64_t count;
  float factor;
  uint32_t is_aligned;
};

template <float (*kFunction)(float a, float b, float factor)>
KVGATE_DEVICE void ForValues(const ValuesArgument& a) {
  const bool is_aligned = a.is_aligned != 0;
  for (int64_t begin = GlobalThread() * kRunFloats; begin < a.count;
       begin += GlobalStride() * kRunFloats) {
    const FloatRun first = LoadRun(a.a, begin, a.count, is_aligned);
    const FloatRun second = a.b == a.a ? first : LoadRun(a.b, begin, a.count, is_aligned);
    FloatRun out;
    KVGATE_UNROLL
    for (int j = 0; j < kRunFloats; ++j) {
      out.value[j] = kFunction(first.value[j], second.value[j], a.factor);
    }
    StoreRun(out, a.out, begin, a.count, is_aligned);
  }
}

// Computed from exp(-|x|), which is in [0, 1], so that a huge negative x gives 0, not 1 / infinity.
KVGATE_DEVICE float Sigmoid(float x) {
  const float decay = expf(-fabsf(x));
  return (x < 0 ? decay : 1.0f) / (1.0f + decay);
}

// The gate is multiplied with its sigmoid first, so that a vanishing gate gives 0 even for a huge
// up.
template <GluKind kKind>
KVGATE_DEVICE float GluOf(float gate, float up, float) {
  if constexpr (kKind == GluKind::kSilu) {
    return gate * Sigmoid(gate) * up;
  } else if constexpr (kKind == GluKind::kGeluTanh) {
    // (1 + tanh(u)) / 2 equals sigmoid(2u).
    constexpr float kTwoRootTwoOverPi = 1.5957691216057308f;
    const float bend = device::Fma(gate * gate, 0.044715f, 1.0f);
    return gate * Sigmoid(gate * kTwoRootTwoOverPi * bend) * up;
  } else if constexpr (kKind == GluKind::kGelu) {
    return gate * (0.5f * erfcf(gate * -0.70710678118654752f)) * up;
  } else {
    const float g = gate > 7.0f ? 7.0f : gate;  // NaN stays NaN
    const float u = up > 7.0f ? 7.0f : up < -7.0f ? -7.0f : up;
    return g * Sigmoid(g * 1.702f) * (u + 1.0f);
  }
}

KVGATE_DEVICE float GeluOf(float x, float, float) { return GluOf<GluKind::kGelu>(x, 1.0f, 0); }
// Product and sum are rounded separately.
KVGATE_DEVICE float AddScaledOf(float x, float y, float factor) { return y + x * factor; }
KVGATE_DEVICE float ScaleOf(float x, float, float factor) { return x * factor; }
KVGATE_DEVICE float SoftCapOf(float x, float, float cap) { return cap * tanhf(x / cap); }

template <GluKind kKind>
KVGATE_KERNEL void GluKernel(ValuesArgument a) {
  ForValues<GluOf<kKind>>(a);
}
KVGATE_KERNEL void GeluKernel(ValuesArgument a) { ForValues<GeluOf>(a); }
KVGATE_KERNEL void AddScaledKernel(ValuesArgument a) { ForValues<AddScaledOf>(a); }
KVGATE_KERNEL void ScaleKernel(ValuesArgument a) { ForValues<ScaleOf>(a); }
KVGATE_KERNEL void SoftCapKernel(ValuesArgument a) { ForValues<SoftCapOf>(a); }

uint32_t RunsOf(int64_t columns) {
  return static_cast<uint32_t>((columns + kRunFloats - 1) / kRunFloats);
}

// Kernels use 32-bit divisions to find the row of a run.
void CheckNumRuns(int64_t num_rows, int64_t runs_per_row) {
  KVGATE_CHECK(num_rows * runs_per_row <= std::numeric_limits<uint32_t>::max(),
               "too many values for one operation");
}

ValuesArgument ValuesOf(const float* a, const float* b, float factor, size_t count, float* out) {
  return {.a = a,
          .b = b,
          .out = out,
          .count = static_cast<int64_t>(count),
          .factor = factor,
          .is_aligned = AreRunsAligned(0, a, b, out)};
}

}  // namespace

cudaError_t RowKernels::FindImage() {
  cudaFuncAttributes attributes;
  return cudaFuncGetAttributes(&attributes, reinterpret_cast<const void*>(&ScaleKernel));
}

device::LaunchShape RowKernels::ShapeFor(int64_t num_items) const {
  const int64_t num_blocks = (num_items + kThreads - 1) / kThreads;
  const int64_t limit = num_multiprocessors_ * kBlocksPerMultiprocessor;
  return {.grid = dim3(static_cast<unsigned int>(std::clamp<int64_t>(num_blocks, 1, limit))),
          .threads = kThreads};
}

void RowKernels::GatherRows(const float* x, std::span<const int> rows, int64_t columns, float* y) {
  if (rows.empty()) return;
  const uint32_t runs_per_row = RunsOf(columns);
  const auto num_rows = static_cast<int64_t>(rows.size());
  CheckNumRuns(num_rows, runs_per_row);
  const GatherArgument argument{.x = x,
                                .rows = stream_.Stage(rows),
                                .y = y,
                                .columns = columns,
                                .num_rows = static_cast<uint32_t>(num_rows),
                                .runs_per_row = runs_per_row,
                                .is_aligned = AreRunsAligned(columns, x, y)};
  stream_.Launch(&GatherKernel, ShapeFor(num_rows * runs_per_row), argument);
}

void RowKernels::ScatterAddRows(const float* x, std::span<const int> rows,
                                std::span<const float> factors, int64_t columns, float* y) {
  std::vector<uint32_t> terms(rows.size());
  std::iota(terms.begin(), terms.end(), 0u);
  std::stable_sort(terms.begin(), terms.end(),
                   [&](uint32_t a, uint32_t b) { return rows[a] < rows[b]; });
  std::vector<float> sorted_factors(rows.size());
  std::vector<int> targets;
  std::vector<uint32_t> ends;
  for (size_t i = 0; i < terms.size(); ++i) {
    sorted_factors[i] = factors[terms[i]];
    const int row = rows[terms[i]];
    if (targets.empty() || targets.back() != row) {
      targets.push_back(row);
      ends.push_back(0);
    }
    ends.back() = static_cast<uint32_t>(i) + 1;
  }
  const uint32_t runs_per_row = RunsOf(columns);
  const auto num_targets = static_cast<int64_t>(targets.size());
  CheckNumRuns(num_targets, runs_per_row);
  static_assert(sizeof(int) == 4 && sizeof(float) == 4);
  stream_.ReserveStaging(2 * CommandStream::StagedBytes(4 * targets.size()) +
                         2 * CommandStream::StagedBytes(4 * terms.size()));
  const ScatterArgument argument{.x = x,
                                 .targets = stream_.Stage<int>(targets),
                                 .ends = stream_.Stage<uint32_t>(ends),
                                 .terms = stream_.Stage<uint32_t>(terms),
                                 .factors = stream_.Stage<float>(sorted_factors),
                                 .y = y,
                                 .columns = columns,
                                 .num_targets = static_cast<uint32_t>(num_targets),
                                 .runs_per_row = runs_per_row,
                                 .is_aligned = AreRunsAligned(columns, x, y)};
  stream_.Launch(&ScatterAddKernel, ShapeFor(num_targets * runs_per_row), argument);
}

void RowKernels::Norm(const float* x, const NormArgs& norm, int num_rows, int64_t columns,
                      float* y) {
  const NormArgument argument{.x = x,
                              .weight = norm.weight,
                              .bias = norm.bias,
                              .y = y,
                              .columns = columns,
                              .num_rows = static_cast<uint32_t>(num_rows),
                              .eps = norm.eps,
                              .is_aligned = AreRunsAligned(columns, x, norm.weight, y)};
  const bool is_layer = norm.kind == NormKind::kLayer;
  if (is_layer || columns <= kWarpColumnsMax) {
    constexpr unsigned int kRows = kThreads / kWarpLanes;
    stream_.Launch(is_layer ? &LayerNormKernel : &RmsNormKernel<true>,
                   {.grid = dim3((argument.num_rows + kRows - 1) / kRows), .threads = kThreads},
                   argument);
    return;
  }
  // Two runs per thread, unless that needs more than 512 threads.
  const uint32_t warps = (RunsOf(columns) + 2 * kWarpLanes - 1) / (2 * kWarpLanes);
  const unsigned int threads = std::min<unsigned int>(warps * kWarpLanes, kNormThreadsMax);
  stream_.Launch(&RmsNormKernel<false>,
                 {.grid = dim3(argument.num_rows),
                  .threads = threads,
                  .shared_bytes = sizeof(float) * kWarpLanes},
                 argument);
}

void RowKernels::RopeTable(std::span<const int> positions, std::span<const float> inv_freq,
                           float magnitude, float* table) {
  if (positions.empty() || inv_freq.empty()) return;
  const auto num_rows = static_cast<int64_t>(positions.size());
  const auto half = static_cast<int64_t>(inv_freq.size());
  CheckNumRuns(num_rows, half);
  stream_.ReserveStaging(CommandStream::StagedBytes(positions.size_bytes()) +
                         CommandStream::StagedBytes(inv_freq.size_bytes()));
  const RopeTableArgument argument{.positions = stream_.Stage(positions),
                                   .inv_freq = stream_.Stage(inv_freq),
                                   .table = table,
                                   .num_rows = static_cast<uint32_t>(num_rows),
                                   .half = static_cast<uint32_t>(half),
                                   .magnitude = magnitude,
                                   .padding = 0};
  stream_.Launch(&RopeTableKernel, ShapeFor(num_rows * half), argument);
}

void RowKernels::Rope(float* x, int num_rows, const Backend::RopeArgs& args, const float* table) {
  const int half = args.rotary_dim / 2;
  const RopeArgument argument{
      .x = x,
      .table = table,
      .num_rows = static_cast<uint32_t>(num_rows),
      .num_heads = static_cast<uint32_t>(args.num_heads),
      .head_dim = static_cast<uint32_t>(args.head_dim),
      .half = static_cast<uint32_t>(half),
      .is_aligned = args.head_dim % kRunFloats == 0 && AreRunsAligned(half, x, table)};
  const int64_t num_items = int64_t{num_rows} * args.num_heads * RunsOf(half);
  if (num_items == 0) return;
  CheckNumRuns(num_items, 1);
  stream_.Launch(args.kind == RopeKind::kHalves ? &RopeKernel<RopeKind::kHalves>
                                                : &RopeKernel<RopeKind::kInterleaved>,
                 ShapeFor(num_items), argument);
}

void RowKernels::Glu(GluKind kind, const float* gate, const float* up, size_t count, float* out) {
  if (count == 0) return;
  void (*kernel)(ValuesArgument) = &GluKernel<GluKind::kSilu>;
  if (kind == GluKind::kGeluTanh) kernel = &GluKernel<GluKind::kGeluTanh>;
  if (kind == GluKind::kGelu) kernel = up == nullptr ? &GeluKernel : &GluKernel<GluKind::kGelu>;
  if (kind == GluKind::kClampedSilu) kernel = &GluKernel<GluKind::kClampedSilu>;
  if (up == nullptr) up = gate;  // is not read
  stream_.Launch(kernel, ShapeFor(RunsOf(static_cast<int64_t>(count))),
                 ValuesOf(gate, up, 0, count, out));
}

void RowKernels::AddScaled(const float* x, float factor, size_t count, float* y) {
  if (count == 0) return;
  stream_.Launch(&AddScaledKernel, ShapeFor(RunsOf(static_cast<int64_t>(count))),
                 ValuesOf(x, y, factor, count, y));
}

void RowKernels::Scale(float factor, size_t count, float* x) {
  if (count == 0) return;
  stream_.Launch(&ScaleKernel, ShapeFor(RunsOf(static_cast<int64_t>(count))),
                 ValuesOf(x, x, factor, count, x));
}

void RowKernels::SoftCap(float cap, size_t count, float* x) {
  if (count == 0) return;
  stream_.Launch(&SoftCapKernel, ShapeFor(RunsOf(static_cast<int64_t>(count))),
                 ValuesOf(x, x, cap, count, x));
}

}  // namespace kvgate::kernels::cuda::rows
