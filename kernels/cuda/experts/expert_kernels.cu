#include "kernels/cuda/experts/expert_kernels.h"

#include <algorithm>
#include <limits>
#include <type_traits>

#include "base/check.h"
#include "kernels/cuda/device/device.cuh"
#include "kernels/cuda/rows/float_run.cuh"

namespace kvgate::kernels::cuda::experts {

using device::kWarpLanes;
using device::SyncThreads;
using matmul::RowGroup;
using rows::kRunFloats;

namespace {

constexpr unsigned int kThreads = 256;
constexpr int kWarps = kThreads / kWarpLanes;

// ---- routing: a block is a row ------------------------------------------------------------------

struct RouteArgument {
  const float* logits;
  const float* shared_logits;
  float* shared_factors;
  float* shares;
  int* chosen;
  int* order;
  int* places;
  RowGroup* alone;
  int num_experts;
  int num_used;
  float share_scale;
  uint32_t is_of_all;
};
static_assert(sizeof(RouteArgument) == 8 * 8 + 4 * 4, "without padding");

// Arrays in shared memory, one entry per expert. The doubles come first because of their alignment.
struct RouteShared {
  double* weights;
  float* logits;
  uint32_t* is_chosen;
  double* largest;  // a single value
};
constexpr size_t RouteSharedBytes(int num_experts) {
  return static_cast<size_t>(num_experts) * (sizeof(double) + sizeof(float) + sizeof(uint32_t)) +
         sizeof(double);
}
KVGATE_DEVICE RouteShared RouteSharedOf(int num_experts) {
  RouteShared shared{};
  shared.largest = reinterpret_cast<double*>(device::SharedMemory());
  shared.weights = shared.largest + 1;
  shared.logits = reinterpret_cast<float*>(shared.weights + num_experts);
  shared.is_chosen = reinterpret_cast<uint32_t*>(shared.logits + num_experts);
  return shared;
}

// Returns the rank of a logit, in which NaN counts as -infinity.
KVGATE_DEVICE float RankOf(float logit) {
  return logit != logit ? -std::numeric_limits<float>::infinity() : logit;
}

// Returns the number of experts ranked before this one, which does not depend on the order of the
// threads.
KVGATE_DEVICE int CountBefore(const float* logits, int num_experts, int expert) {
  const float own = RankOf(logits[expert]);
  int count = 0;
  for (int other = 0; other < num_experts; ++other) {
    const float rank = RankOf(logits[other]);
    count += rank > own || (rank == own && other < expert) ? 1 : 0;
  }
  return count;
}

// Stores the pair of a selected expert. Sums run over ascending experts, as on the host.
KVGATE_DEVICE void StorePair(const RouteArgument& a, const RouteShared& shared, int expert) {
  int slot = 0;
  double sum = 0;
  for (int other = 0; other < a.num_experts; ++other) {
    const bool is_chosen = shared.is_chosen[other] != 0;
    if (is_chosen && other < expert) ++slot;
    if (is_chosen || a.is_of_all != 0) sum += shared.weights[other];
  }
  const int pair = static_cast<int>(blockIdx.x) * a.num_used + slot;
  const double share = shared.weights[expert] / sum * static_cast<double>(a.share_scale);
  a.shares[pair] = static_cast<float>(share);
  a.chosen[pair] = expert;
  if (a.alone == nullptr) return;
  a.order[pair] = pair;
  a.places[pair] = pair;
  a.alone[pair] = {expert, pair, 1, 0};
}

KVGATE_KERNEL void KVGATE_LAUNCH_BOUNDS(kThreads, 4) RouteKernel(RouteArgument a) {
  const RouteShared shared = RouteSharedOf(a.num_experts);
  const int64_t row = blockIdx.x;
  const int thread = static_cast<int>(threadIdx.x);
  const int num_threads = static_cast<int>(blockDim.x);
  for (int i = thread; i < a.num_experts; i += num_threads) {
    shared.logits[i] = a.logits[row * a.num_experts + i];
  }
  if (thread == 0 && a.shared_logits != nullptr) {
    const double logit = static_cast<double>(a.shared_logits[row]);
    a.shared_factors[row] = static_cast<float>(1.0 / (1.0 + exp(-logit)));
  }
  SyncThreads();
  for (int i = thread; i < a.num_experts; i += num_threads) {
    const int num_before = CountBefore(shared.logits, a.num_experts, i);
    shared.is_chosen[i] = num_before < a.num_used ? 1 : 0;
    if (num_before == 0) *shared.largest = static_cast<double>(shared.logits[i]);
  }
  SyncThreads();
  for (int i = thread; i < a.num_experts; i += num_threads) {
    if (a.is_of_all == 0 && shared.is_chosen[i] == 0) continue;
    shared.weights[i] = exp(static_cast<double>(shared.logits[i]) - *shared.largest);
  }
  SyncThreads();
  for (int i = thread; i < a.num_experts; i += num_threads) {
    if (shared.is_chosen[i] != 0) StorePair(a, shared, i);
  }
}

// ---- pairs by expert: a block is an expert ------------------------------------------------------

struct GroupArgument {
  const int* chosen;  // [num_pairs]
  int* order;
  int* places;
  GroupList lists[2];
  int num_pairs;
  int num_experts;
};
static_assert(std::has_unique_object_representations_v<GroupArgument>);

struct GroupShared {
  uint32_t sums[3][kWarps];      // of preceding experts, per warp: pairs, groups of both lists
  uint32_t of_thread[kThreads];  // this expert's pairs
};

KVGATE_DEVICE int CountGroups(int num_pairs, int rows_of_group) {
  return (num_pairs + rows_of_group - 1) / rows_of_group;
}

// Called by all threads; each gets the same total. Use `sums` for one call only; a barrier must
// follow.
KVGATE_DEVICE void StoreWarpSum(uint32_t value, uint32_t* sums) {
  value = device::WarpSum(value);
  if (device::LaneIndex() == 0) sums[device::WarpIndex()] = value;
}
KVGATE_DEVICE int TotalOf(const uint32_t* values, int count) {
  uint32_t total = 0;
  for (int i = 0; i < count; ++i) total += values[i];
  return static_cast<int>(total);
}

// Stores this expert's groups; the last expert's block also marks all remaining groups as empty.
KVGATE_DEVICE void StoreGroups(const GroupList& list, int first_group, int expert, int first_pair,
                               int num_pairs, bool is_last) {
  const int num_groups = CountGroups(num_pairs, list.rows_of_group);
  const int end = is_last ? list.num_groups - first_group : num_groups;
  for (int i = static_cast<int>(threadIdx.x); i < end; i += static_cast<int>(kThreads)) {
    const int first = i * list.rows_of_group;
    const int left = num_pairs - first;
    const int count = left < list.rows_of_group ? left : list.rows_of_group;
    list.groups[first_group + i] =
        i < num_groups ? RowGroup{expert, first_pair + first, count, 0} : RowGroup{0, 0, 0, 0};
  }
}

KVGATE_KERNEL void KVGATE_LAUNCH_BOUNDS(kThreads, 4) GroupKernel(GroupArgument a) {
  auto& shared = *reinterpret_cast<GroupShared*>(device::SharedMemory());
  auto* counts = reinterpret_cast<uint32_t*>(&shared + 1);  // [num_experts]
  const int expert = static_cast<int>(blockIdx.x);
  const int thread = static_cast<int>(threadIdx.x);
  for (int i = thread; i < a.num_experts; i += static_cast<int>(kThreads)) counts[i] = 0;
  SyncThreads();
  // A thread processes a contiguous run of pairs, so that an expert's pairs stay in order.
  const int begin = static_cast<int>(int64_t{thread} * a.num_pairs / kThreads);
  const int end = static_cast<int>((int64_t{thread} + 1) * a.num_pairs / kThreads);
  uint32_t num_own = 0;
  for (int pair = begin; pair < end; ++pair) {
    const int chosen = a.chosen[pair];
    num_own += chosen == expert ? 1 : 0;
    if (chosen < expert) device::AtomicFetchAdd(&counts[chosen], 1);
  }
  shared.of_thread[thread] = num_own;
  SyncThreads();
  uint32_t before[3] = {};
  for (int i = thread; i < expert; i += static_cast<int>(kThreads)) {
    const int count = static_cast<int>(counts[i]);
    before[0] += counts[i];
    before[1] += static_cast<uint32_t>(CountGroups(count, a.lists[0].rows_of_group));
    before[2] += static_cast<uint32_t>(CountGroups(count, a.lists[1].rows_of_group));
  }
  KVGATE_UNROLL
  for (int i = 0; i < 3; ++i) StoreWarpSum(before[i], shared.sums[i]);
  SyncThreads();
  const int first = TotalOf(shared.sums[0], kWarps);
  int place = first + TotalOf(shared.of_thread, thread);
  for (int pair = begin; pair < end; ++pair) {
    if (a.chosen[pair] != expert) continue;
    a.order[place] = pair;
    a.places[pair] = place++;
  }
  const int count = TotalOf(shared.of_thread, kThreads);
  const bool is_last = expert + 1 == a.num_experts;
  KVGATE_UNROLL
  for (int i = 0; i < 2; ++i) {
    StoreGroups(a.lists[i], TotalOf(shared.sums[i + 1], kWarps), expert, first, count, is_last);
  }
}

// ---- sums ---------------------------------------------------------------------------------------

struct AddTermsArgument {
  const float* terms;
  const int* places;
  const float* factors;
  float* y;
  int64_t columns;
  float scale;
  uint32_t num_rows;
  uint32_t num_terms;
  uint32_t runs_per_row;
  uint64_t is_aligned;
};
static_assert(sizeof(AddTermsArgument) == 5 * 8 + 4 * 4 + 8, "without padding");

// One thread adds all terms of a row for four adjacent values.
KVGATE_KERNEL void KVGATE_LAUNCH_BOUNDS(kThreads, 4) AddTermsKernel(AddTermsArgument a) {
  const bool is_aligned = a.is_aligned != 0;
  const int64_t num_runs = int64_t{a.num_rows} * a.runs_per_row;
  for (int64_t i = int64_t{blockIdx.x} * kThreads + threadIdx.x; i < num_runs;
       i += int64_t{gridDim.x} * kThreads) {
    const uint32_t row = static_cast<uint32_t>(i) / a.runs_per_row;
    const int64_t begin = int64_t{static_cast<uint32_t>(i) % a.runs_per_row} * kRunFloats;
    float* y = a.y + row * a.columns;
    rows::FloatRun sums = rows::LoadRun(y, begin, a.columns, is_aligned);
    for (uint32_t term = 0; term < a.num_terms; ++term) {
      const int64_t pair = int64_t{row} * a.num_terms + term;
      const int64_t place = a.places == nullptr ? pair : a.places[pair];
      const rows::FloatRun x =
          rows::LoadRun(a.terms + place * a.columns, begin, a.columns, is_aligned);
      const float factor = a.factors == nullptr ? a.scale : a.factors[pair] * a.scale;
      KVGATE_UNROLL
      for (int j = 0; j < kRunFloats; ++j) sums.value[j] += x.value[j] * factor;
    }
    rows::StoreRun(sums, y, begin, a.columns, is_aligned);
  }
}

}  // namespace

int GroupsMost(int64_t num_pairs, int num_experts, int rows_of_group) {
  // The maximum is reached if every expert is selected, all but one of them once.
  const int64_t num_chosen = std::min<int64_t>(num_pairs, num_experts);
  return static_cast<int>(num_chosen + (num_pairs - num_chosen) / rows_of_group);
}

void LaunchRoute(const RouteTask& task, RowGroup* alone, device::CommandStream& stream) {
  const int num_experts = task.rule.num_experts;
  const int warps = std::min((num_experts + kWarpLanes - 1) / kWarpLanes, kWarps);
  stream.Launch(&RouteKernel,
                {.grid = {static_cast<unsigned int>(task.num_rows)},
                 .threads = static_cast<unsigned int>(warps * kWarpLanes),
                 .shared_bytes = RouteSharedBytes(num_experts)},
                {.logits = task.logits,
                 .shared_logits = task.shared_logits,
                 .shared_factors = task.shared_factors,
                 .shares = task.shares,
                 .chosen = task.chosen,
                 .order = task.order,
                 .places = task.places,
                 .alone = alone,
                 .num_experts = num_experts,
                 .num_used = task.rule.num_used,
                 .share_scale = task.rule.share_scale,
                 .is_of_all = task.rule.is_of_all() ? 1u : 0u});
}

void LaunchGroupPairs(const RouteTask& task, const GroupList& input, const GroupList& output,
                      device::CommandStream& stream) {
  const int num_experts = task.rule.num_experts;
  const GroupArgument argument{.chosen = task.chosen,
                               .order = task.order,
                               .places = task.places,
                               .lists = {input, output},
                               .num_pairs = task.num_rows * task.rule.num_used,
                               .num_experts = num_experts};
  stream.Launch(
      &GroupKernel,
      {.grid = {static_cast<unsigned int>(num_experts)},
       .threads = kThreads,
       .shared_bytes = sizeof(GroupShared) + static_cast<size_t>(num_experts) * sizeof(uint32_t)},
      argument);
}

void LaunchAddTerms(const AddTermsTask& task, int num_multiprocessors,
                    device::CommandStream& stream) {
  // This many blocks keep a multiprocessor's memory requests in flight.
  constexpr int64_t kBlocksPerMultiprocessor = 16;
  const int64_t runs_per_row = (task.columns + kRunFloats - 1) / kRunFloats;
  const int64_t num_runs = task.num_rows * runs_per_row;
  KVGATE_CHECK(num_runs <= std::numeric_limits<uint32_t>::max(), "too many values to add");
  const int64_t num_blocks = std::min<int64_t>((num_runs + kThreads - 1) / kThreads,
                                               kBlocksPerMultiprocessor * num_multiprocessors);
  stream.Launch(&AddTermsKernel,
                {.grid = {static_cast<unsigned int>(num_blocks)}, .threads = kThreads},
                {.terms = task.terms,
                 .places = task.places,
                 .factors = task.factors,
                 .y = task.y,
                 .columns = task.columns,
                 .scale = task.scale,
                 .num_rows = static_cast<uint32_t>(task.num_rows),
                 .num_terms = static_cast<uint32_t>(task.num_terms),
                 .runs_per_row = static_cast<uint32_t>(runs_per_row),
                 .is_aligned = rows::AreRunsAligned(task.columns, task.terms, task.y)});
}

}  // namespace kvgate::kernels::cuda::experts
