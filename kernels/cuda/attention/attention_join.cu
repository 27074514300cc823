// Joins the splits of rows whose splits were computed in parallel.
#include "kernels/cuda/attention/attention_formulas.cuh"

namespace kvgate::kernels::cuda::attention {

using device::kWarpLanes;
using device::LaneIndex;
using device::Shuffle;

namespace {

constexpr int kJoinThreads = 128;
constexpr int kChunkSplits = 128;  // number of splits whose factors are computed at a time
// Split values loaded concurrently.
constexpr int kInFlight = 8;

struct JoinShared {
  JoinFactors factors[kChunkSplits];
  Total total;
};

// Returns the maximum over the lanes up to this one. Maxima do not depend on the order, so a tree
// may compute them.
KVGATE_DEVICE float RisingMaximum(float value) {
  for (int lanes = 1; lanes < kWarpLanes; lanes *= 2) {
    const float before = Shuffle(value, LaneIndex() - lanes < 0 ? 0 : LaneIndex() - lanes);
    if (LaneIndex() >= lanes) value = LargerOf(value, before);
  }
  return value;
}

// Does the work of Join for `count` splits with one warp: the factors in parallel, the sum in
// order.
KVGATE_DEVICE void JoinChunk(const float* sums, ptrdiff_t stride, int count, JoinShared& shared) {
  Total total = shared.total;
  const int lane = LaneIndex();
  for (int begin = 0; begin < count; begin += kWarpLanes) {
    const bool is_there = begin + lane < count;
    const float* from = sums + (begin + lane) * stride;
    const float maximum = is_there ? from[0] : NoMaximum();
    const float sum = is_there ? from[1] : 0.0f;
    const float risen = LargerOf(total.maximum, RisingMaximum(sum == 0.0f ? NoMaximum() : maximum));
    const float before = Shuffle(risen, lane == 0 ? 0 : lane - 1);
    const JoinFactors factors = FactorsOf(lane == 0 ? total.maximum : before, risen, maximum, sum);
    if (is_there) shared.factors[begin + lane] = factors;
    const int here = count - begin < kWarpLanes ? count - begin : kWarpLanes;
    for (int i = 0; i < here; ++i) {
      const JoinFactors of_split{Shuffle(factors.old, i), Shuffle(factors.added, i)};
      total.sum = Joined(total.sum, Shuffle(sum, i), of_split);
    }
    total.maximum = Shuffle(risen, kWarpLanes - 1);
  }
  device::SyncWarp();
  if (lane == 0) shared.total = total;
}

// The grid is items x heads, head fastest.
KVGATE_KERNEL void KVGATE_LAUNCH_BOUNDS(kJoinThreads, 1) JoinKernel(JoinArgument argument) {
  auto& shared = *reinterpret_cast<JoinShared*>(device::SharedMemory());
  const auto index = static_cast<int>(blockIdx.x);
  const JoinItem item = argument.items[index / argument.num_heads];
  if (item.row < 0) return;
  const int head = index % argument.num_heads;
  const int head_dim = argument.head_dim;
  const ptrdiff_t vector = head_dim + kPartialExtra;
  const ptrdiff_t stride = vector * argument.num_heads;  // from one split to the next
  const float* partials = argument.partials + item.partial_begin * stride + head * vector;
  const auto thread = static_cast<int>(threadIdx.x);
  if (thread == 0) shared.total = Total::Begin(argument.sinks, head);
  float values[kHeadDimMax / kJoinThreads] = {};
  for (int begin = 0; begin < item.num_splits; begin += kChunkSplits) {
    const int left = item.num_splits - begin;
    const int count = left < kChunkSplits ? left : kChunkSplits;
    device::SyncThreads();  // the factors of the previous chunk are no longer needed
    const float* chunk = partials + begin * stride;
    if (device::WarpIndex() == 0) JoinChunk(chunk + head_dim, stride, count, shared);
    device::SyncThreads();
    KVGATE_UNROLL
    for (int i = 0; i < kHeadDimMax / kJoinThreads; ++i) {
      const int dim = i * kJoinThreads + thread;
      if (dim >= head_dim) continue;
      for (int split = 0; split < count; split += kInFlight) {
        float loaded[kInFlight];
        KVGATE_UNROLL
        for (int j = 0; j < kInFlight; ++j) {
          loaded[j] = split + j < count ? chunk[(split + j) * stride + dim] : 0.0f;
        }
        KVGATE_UNROLL
        for (int j = 0; j < kInFlight; ++j) {
          if (split + j < count) {
            values[i] = Joined(values[i], loaded[j], shared.factors[split + j]);
          }
        }
      }
    }
  }
  const ptrdiff_t row = static_cast<ptrdiff_t>(item.row) * argument.num_heads + head;
  const float inverse = 1.0f / shared.total.sum;
  KVGATE_UNROLL
  for (int i = 0; i < kHeadDimMax / kJoinThreads; ++i) {
    const int dim = i * kJoinThreads + thread;
    if (dim < head_dim) argument.out[row * head_dim + dim] = Finished(values[i], inverse);
  }
  if (thread != 0 || argument.totals == nullptr) return;
  argument.totals[2 * row] = shared.total.maximum;
  argument.totals[2 * row + 1] = shared.total.sum;
}

}  // namespace

void LaunchJoin(device::CommandStream& stream, const JoinArgument& argument, int num_items) {
  stream.Launch(&JoinKernel,
                {.grid = dim3(static_cast<unsigned int>(num_items * argument.num_heads)),
                 .threads = kJoinThreads,
                 .shared_bytes = sizeof(JoinShared)},
                argument);
}

}  // namespace kvgate::kernels::cuda::attention
