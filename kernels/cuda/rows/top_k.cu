#include "kernels/cuda/rows/top_k.h"

#include <bit>
#include <cfloat>
#include <type_traits>
#include <vector>

#include "base/check.h"
#include "kernels/cuda/device/device.cuh"

namespace kvgate::kernels::cuda::rows {

using device::Exp2;
using device::kWarpLanes;
using device::LaneIndex;
using device::SyncThreads;
using device::WarpIndex;

namespace {

constexpr int kSliceThreads = 256;  // also the groups per slice
constexpr int kSliceWarps = kSliceThreads / kWarpLanes;
constexpr int kRowThreads = 1024;
constexpr int kRowWarps = kRowThreads / kWarpLanes;
constexpr int kGroupsOfThread = 16;
constexpr int kGroupsMax = kRowThreads * kGroupsOfThread;  // per row
constexpr int kSlicesMax = kGroupsMax / kSliceThreads;
constexpr float kLog2E = 1.4426950408889634f;
static_assert(kSlicesMax == 2 * kWarpLanes && kRowWarps == kWarpLanes);

// How a row is split. A group is kVectors vectors of 4 columns, which are kSliceThreads * 4 apart.
struct RowCut {
  int vectors = 1;
  int num_slices = 1;
};

RowCut CutRow(int64_t columns) {
  RowCut cut;
  while (columns > int64_t{kGroupsMax} * 4 * cut.vectors) cut.vectors *= 2;
  const int64_t slice = int64_t{kSliceThreads} * 4 * cut.vectors;
  cut.num_slices = static_cast<int>((columns + slice - 1) / slice);
  return cut;
}

struct SliceSums {
  float greatest;
  float exp_sum;
  float scaled_exp_sum;
};

struct Argument {
  const float* x;         // [rows, columns]
  const float* scales;    // [rows]; 0 means that there is no such row
  uint64_t* group_tops;   // [rows, num_slices * kSliceThreads]
  SliceSums* slice_sums;  // [rows, num_slices]
  TopKResult to;
  int64_t columns;
  int num_slices;
  int num_groups;
  int count;
  int is_aligned;  // every row's first column is 16-byte aligned
};
// No padding, because commands are compared byte by byte.
static_assert(std::has_unique_object_representations_v<Argument>);

KVGATE_DEVICE float Lowest() { return device::BitsToFloat(0xff800000u); }

KVGATE_DEVICE float Clean(float value) {
  // Adding +0 turns -0 into +0.
  return value > Lowest() ? (value < FLT_MAX ? value : FLT_MAX) + 0.0f : Lowest();
}

// Entries order by value, and equal values by ascending column; an entry is never 0.
KVGATE_DEVICE uint64_t EntryOf(float value, int64_t column) {
  const uint32_t bits = device::FloatToBits(value);
  const uint32_t ordered = (bits & 0x80000000u) != 0 ? ~bits : bits | 0x80000000u;
  return static_cast<uint64_t>(ordered) << 32 | ~static_cast<uint32_t>(column);
}
KVGATE_DEVICE float ValueOf(uint64_t entry) {
  const auto ordered = static_cast<uint32_t>(entry >> 32);
  return device::BitsToFloat((ordered & 0x80000000u) != 0 ? ordered & 0x7fffffffu : ~ordered);
}
KVGATE_DEVICE int32_t ColumnOf(uint64_t entry) {
  return static_cast<int32_t>(~static_cast<uint32_t>(entry));
}

// Loads four columns and cleans the values; those past the last column are the lowest value.
KVGATE_DEVICE void LoadFour(const Argument& a, const float* x, int64_t column, float* values) {
  if (a.is_aligned != 0 && column + 4 <= a.columns) {
    const device::Vector16 vector = device::LoadOnce(x + column);
    KVGATE_UNROLL
    for (int i = 0; i < 4; ++i) values[i] = Clean(device::BitsToFloat(vector.word[i]));
    return;
  }
  KVGATE_UNROLL
  for (int i = 0; i < 4; ++i) values[i] = column + i < a.columns ? Clean(x[column + i]) : Lowest();
}

KVGATE_DEVICE float WarpMax(float value) {
  KVGATE_UNROLL
  for (int mask = kWarpLanes / 2; mask > 0; mask /= 2) {
    const float other = device::ShuffleXor(value, mask);
    value = other > value ? other : value;
  }
  return value;
}
KVGATE_DEVICE float WarpTotal(float value) {
  KVGATE_UNROLL
  for (int mask = kWarpLanes / 2; mask > 0; mask /= 2) value += device::ShuffleXor(value, mask);
  return value;
}

template <int kVectors>
KVGATE_KERNEL void KVGATE_LAUNCH_BOUNDS(kSliceThreads, 4) ScanSlice(Argument a) {
  const auto row = static_cast<int64_t>(blockIdx.x) / a.num_slices;
  const int slice = static_cast<int>(blockIdx.x) % a.num_slices;
  const float scale = a.scales[row];
  if (scale == 0) return;
  const float* x = a.x + row * a.columns;
  const auto thread = static_cast<int>(threadIdx.x);
  const int64_t begin = int64_t{slice} * kSliceThreads * 4 * kVectors + thread * 4;

  float values[4 * kVectors];
  KVGATE_UNROLL
  for (int v = 0; v < kVectors; ++v) {
    LoadFour(a, x, begin + v * kSliceThreads * 4, values + 4 * v);
  }
  float top = Lowest();
  int64_t top_column = -1;
  KVGATE_UNROLL
  for (int i = 0; i < 4 * kVectors; ++i) {
    const int64_t column = begin + i / 4 * (kSliceThreads * 4) + i % 4;
    // Columns ascend, so the first of equal values is kept.
    if (column < a.columns && (top_column < 0 || values[i] > top)) {
      top = values[i];
      top_column = column;
    }
  }
  const int64_t group = static_cast<int64_t>(blockIdx.x) * kSliceThreads + thread;
  a.group_tops[group] = top_column < 0 ? 0 : EntryOf(top, top_column);

  auto* greatest = reinterpret_cast<float*>(device::SharedMemory());  // [kSliceWarps]
  float* sums = greatest + kSliceWarps;                               // [kSliceWarps]
  float* scaled_sums = sums + kSliceWarps;                            // [kSliceWarps]
  const float warp_max = WarpMax(top);
  if (LaneIndex() == 0) greatest[WarpIndex()] = warp_max;
  SyncThreads();
  float max = greatest[0];
  KVGATE_UNROLL
  for (int w = 1; w < kSliceWarps; ++w) max = greatest[w] > max ? greatest[w] : max;
  float sum = 0;
  float scaled_sum = 0;
  if (max > Lowest()) {
    KVGATE_UNROLL
    for (int i = 0; i < 4 * kVectors; ++i) {
      const float exponent = (values[i] - max) * kLog2E;
      sum += Exp2(exponent);
      scaled_sum += Exp2(exponent * scale);
    }
  }
  sum = WarpTotal(sum);
  scaled_sum = WarpTotal(scaled_sum);
  if (LaneIndex() == 0) {
    sums[WarpIndex()] = sum;
    scaled_sums[WarpIndex()] = scaled_sum;
  }
  SyncThreads();
  if (thread != 0) return;
  for (int w = 1; w < kSliceWarps; ++w) {
    sum += sums[w];
    scaled_sum += scaled_sums[w];
  }
  a.slice_sums[blockIdx.x] = {max, sum, scaled_sum};
}

// Shared memory of a row's block; the entries that reach the bar follow it.
struct RowShared {
  uint32_t warp_counts[2][kRowWarps];  // used alternately, so that one barrier per count suffices
  uint32_t num_groups;
  uint32_t num_entries;
  uint32_t groups[kTopCountMax];
};

// Returns the sum of all threads' values to each thread.
KVGATE_DEVICE uint32_t BlockSum(uint32_t value, uint32_t* warp_counts) {
  const uint32_t of_warp = device::WarpSum(value);
  if (LaneIndex() == 0) warp_counts[WarpIndex()] = of_warp;
  SyncThreads();
  return device::WarpSum(warp_counts[LaneIndex()]);
}

// Finds, bit by bit, the greatest bar that at least `count` of the block's entries reach. It may be
// lower if its upper bits already select exactly `count` entries, and is 0 if there are fewer
// entries. A top of 0 is no entry.
KVGATE_DEVICE uint64_t FindBar(const uint64_t (&tops)[kGroupsOfThread], uint32_t count,
                               RowShared& shared) {
  uint64_t bar = 0;
  KVGATE_NO_UNROLL
  for (int bit = 63; bit >= 0; --bit) {
    const uint64_t higher = bar | uint64_t{1} << bit;
    uint32_t reached = 0;
    KVGATE_UNROLL
    for (int i = 0; i < kGroupsOfThread; ++i) reached += tops[i] >= higher ? 1 : 0;
    reached = BlockSum(reached, shared.warp_counts[bit % 2]);
    if (reached < count) continue;
    bar = higher;
    if (reached == count) break;
  }
  return bar;
}

// Joins the slices' sums. Called by one warp.
KVGATE_DEVICE void JoinSums(const Argument& a, int64_t row, float scale) {
  const SliceSums* slices = a.slice_sums + row * a.num_slices;
  SliceSums mine[2];
  KVGATE_UNROLL
  for (int i = 0; i < 2; ++i) {
    const int slice = LaneIndex() + i * kWarpLanes;
    mine[i] = slice < a.num_slices ? slices[slice] : SliceSums{Lowest(), 0, 0};
  }
  const float max =
      WarpMax(mine[1].greatest > mine[0].greatest ? mine[1].greatest : mine[0].greatest);
  float sum = 0;
  float scaled_sum = 0;
  KVGATE_UNROLL
  for (int i = 0; i < 2; ++i) {
    if (!(mine[i].greatest > Lowest())) continue;
    const float exponent = (mine[i].greatest - max) * kLog2E;
    sum += mine[i].exp_sum * Exp2(exponent);
    scaled_sum += mine[i].scaled_exp_sum * Exp2(exponent * scale);
  }
  sum = WarpTotal(sum);
  scaled_sum = WarpTotal(scaled_sum);
  if (LaneIndex() != 0) return;
  a.to.exp_sums[row] = sum;
  a.to.scaled_exp_sums[row] = scaled_sum;
}

// Lists the groups whose greatest entry reaches the bar, at most `count`, in any order.
KVGATE_DEVICE void ListGroups(const uint64_t (&tops)[kGroupsOfThread], uint64_t bar,
                              RowShared& shared) {
  KVGATE_UNROLL
  for (int i = 0; i < kGroupsOfThread; ++i) {
    if (tops[i] == 0 || tops[i] < bar) continue;
    shared.groups[device::AtomicFetchAdd(&shared.num_groups, 1)] = threadIdx.x + i * kRowThreads;
  }
}

// Writes the entries ranked before `count`, and fills the remaining places with empty entries.
KVGATE_DEVICE void WriteTop(const Argument& a, int64_t row, const uint64_t* entries,
                            uint32_t num_entries) {
  const auto count = static_cast<uint32_t>(a.count);
  TokenId* ids = a.to.ids + row * a.count;
  float* values = a.to.values + row * a.count;
  for (uint32_t i = threadIdx.x; i < num_entries; i += kRowThreads) {
    const uint64_t entry = entries[i];
    uint32_t rank = 0;
    for (uint32_t j = 0; j < num_entries; ++j) rank += entries[j] > entry ? 1 : 0;
    if (rank >= count) continue;
    ids[rank] = ColumnOf(entry);
    values[rank] = ValueOf(entry);
  }
  for (uint32_t i = num_entries + threadIdx.x; i < count; i += kRowThreads) {
    ids[i] = -1;
    values[i] = Lowest();
  }
}

template <int kVectors>
KVGATE_KERNEL void KVGATE_LAUNCH_BOUNDS(kRowThreads, 1) SelectOfRow(Argument a) {
  const auto row = static_cast<int64_t>(blockIdx.x);
  const float scale = a.scales[row];
  if (scale == 0) return;
  auto& shared = *reinterpret_cast<RowShared*>(device::SharedMemory());
  auto* entries = reinterpret_cast<uint64_t*>(device::SharedMemory() + sizeof(RowShared));
  const auto thread = static_cast<int>(threadIdx.x);
  if (thread == 0) shared.num_groups = shared.num_entries = 0;

  const uint64_t* group_tops = a.group_tops + row * a.num_groups;
  uint64_t tops[kGroupsOfThread];
  KVGATE_UNROLL
  for (int i = 0; i < kGroupsOfThread; ++i) {
    const int group = thread + i * kRowThreads;
    tops[i] = group < a.num_groups ? group_tops[group] : 0;
  }
  const uint64_t bar = FindBar(tops, static_cast<uint32_t>(a.count), shared);
  ListGroups(tops, bar, shared);
  SyncThreads();

  const float* x = a.x + row * a.columns;
  const int num_vectors = static_cast<int>(shared.num_groups) * kVectors;
  for (int i = thread; i < num_vectors; i += kRowThreads) {
    const auto group = static_cast<int>(shared.groups[i / kVectors]);
    const int64_t column =
        (int64_t{group / kSliceThreads} * kVectors + i % kVectors) * (kSliceThreads * 4) +
        group % kSliceThreads * 4;
    float values[4];
    LoadFour(a, x, column, values);
    KVGATE_UNROLL
    for (int j = 0; j < 4; ++j) {
      if (column + j >= a.columns) break;
      const uint64_t entry = EntryOf(values[j], column + j);
      if (entry >= bar) entries[device::AtomicFetchAdd(&shared.num_entries, 1)] = entry;
    }
  }
  if (WarpIndex() == 0) JoinSums(a, row, scale);
  SyncThreads();
  WriteTop(a, row, entries, shared.num_entries);
}

// Returns the number of staged scales, rounded up so that a growing batch seldom changes it.
size_t RoundUpRows(int num_rows) { return std::bit_ceil(static_cast<size_t>(num_rows)); }

// Returns the bytes of scratch before the slices' sums; a multiple of 256.
size_t GroupBytes(int num_rows, const RowCut& cut) {
  return RoundUpRows(num_rows) * static_cast<size_t>(cut.num_slices) * kSliceThreads *
         sizeof(uint64_t);
}

template <int kVectors>
void LaunchKernels(device::CommandStream& stream, const Argument& argument, unsigned int num_rows) {
  stream.Launch(&ScanSlice<kVectors>,
                {.grid = {num_rows * static_cast<unsigned int>(argument.num_slices)},
                 .threads = kSliceThreads,
                 .shared_bytes = 3 * kSliceWarps * sizeof(float)},
                argument);
  const size_t entries = static_cast<size_t>(argument.count) * 4 * kVectors;
  stream.Launch(&SelectOfRow<kVectors>,
                {.grid = {num_rows},
                 .threads = kRowThreads,
                 .shared_bytes = sizeof(RowShared) + entries * sizeof(uint64_t)},
                argument);
}

}  // namespace

size_t TopKScratchBytes(int num_rows, int64_t columns) {
  const RowCut cut = CutRow(columns);
  return GroupBytes(num_rows, cut) +
         RoundUpRows(num_rows) * static_cast<size_t>(cut.num_slices) * sizeof(SliceSums);
}

void TopK(device::CommandStream& stream, const TopKTask& task, void* scratch,
          const TopKResult& to) {
  const RowCut cut = CutRow(task.columns);
  KVGATE_CHECK(cut.vectors <= 8, "columns of a row");
  std::vector<float> scales(task.scales.begin(), task.scales.end());
  scales.resize(RoundUpRows(task.num_rows));  // 0 means that there is no such row
  stream.ReserveStaging(device::CommandStream::StagedBytes(scales.size() * sizeof(float)));
  const Argument argument = {
      .x = task.x,
      .scales = stream.Stage<float>(scales),
      .group_tops = static_cast<uint64_t*>(scratch),
      .slice_sums = reinterpret_cast<SliceSums*>(static_cast<std::byte*>(scratch) +
                                                 GroupBytes(task.num_rows, cut)),
      .to = to,
      .columns = task.columns,
      .num_slices = cut.num_slices,
      .num_groups = cut.num_slices * kSliceThreads,
      .count = task.count,
      .is_aligned = reinterpret_cast<uintptr_t>(task.x) % 16 == 0 && task.columns % 4 == 0 ? 1 : 0};
  const auto num_rows = static_cast<unsigned int>(scales.size());
  if (cut.vectors == 1) return LaunchKernels<1>(stream, argument, num_rows);
  if (cut.vectors == 2) return LaunchKernels<2>(stream, argument, num_rows);
  if (cut.vectors == 4) return LaunchKernels<4>(stream, argument, num_rows);
  LaunchKernels<8>(stream, argument, num_rows);
}

}  // namespace kvgate::kernels::cuda::rows
