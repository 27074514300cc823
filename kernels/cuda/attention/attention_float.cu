// Attention over f32 KV: plain arithmetic, one warp per row, the same order for all rows. It serves
// f32 models and comparisons and is not optimised for speed.
#include "kernels/cuda/attention/attention_formulas.cuh"

namespace kvgate::kernels::cuda::attention {

using device::kWarpLanes;

namespace {

// A lane holds the dimensions lane, lane + 32, ...
inline constexpr int kLaneDims = kHeadDimMax / kWarpLanes;

KVGATE_DEVICE float WarpMaximum(float value) {
  for (int lanes = 1; lanes < kWarpLanes; lanes *= 2) {
    value = LargerOf(value, device::ShuffleXor(value, lanes));
  }
  return value;
}

KVGATE_DEVICE float WarpSum(float value) {
  for (int lanes = 1; lanes < kWarpLanes; lanes *= 2) value += device::ShuffleXor(value, lanes);
  return value;
}

// Returns the score of this lane's token of a tile, as an exponent of 2.
KVGATE_DEVICE float ScoreOfLane(const AttentionArgument& argument, const float* q,
                                const float* keys) {
  const int head_dim = argument.kv.head_dim;
  const float* key = keys + device::LaneIndex() * head_dim;
  float score = 0;
  for (int dim = 0; dim < head_dim; ++dim)
    score = device::Fma(q[dim] * argument.q_factor, key[dim], score);
  return argument.cap_log2 == 0 ? score : argument.cap_log2 * Tanh(score);
}

KVGATE_KERNEL void KVGATE_LAUNCH_BOUNDS(kWarpLanes, 1) FloatKernel(AttentionArgument argument) {
  const auto index = static_cast<int>(blockIdx.x);
  const AttentionItem item = argument.items[index / argument.num_heads];
  if (item.first_row < 0) return;
  const int head = index % argument.num_heads;
  const int lane = device::LaneIndex();
  const int head_dim = argument.kv.head_dim;
  const int position = item.first_position + item.row_begin;
  const int window = argument.window;
  const int first = window == 0 || position < window ? 0 : position - window + 1;
  const size_t head_offset = argument.kv.head_offset(argument.layer, head / argument.group());
  const ptrdiff_t row =
      static_cast<ptrdiff_t>(item.first_row + item.row_begin) * argument.num_heads + head;
  const float* q = argument.q + row * head_dim;
  const auto keys_of = [&](int tile) {
    const uint32_t block = argument.tables[item.table_begin + tile];
    return reinterpret_cast<const float*>(argument.kv.base + block * argument.kv.block_bytes +
                                          head_offset);
  };
  Total total = Total::Begin(argument.sinks, head);
  float values[kLaneDims] = {};
  for (int tile = first / kKvBlockTokens; tile <= position / kKvBlockTokens; ++tile) {
    const SeenSlots seen{ClampSlot(first - tile * kKvBlockTokens),
                         ClampSlot(position + 1 - tile * kKvBlockTokens)};
    const float* keys = keys_of(tile);
    const bool is_seen = seen.has(lane);
    const float score = is_seen ? ScoreOfLane(argument, q, keys) : NoMaximum();
    const float risen = LargerOf(total.maximum, WarpMaximum(score));
    const float carried = device::Exp2(total.maximum - risen);
    const float weight = is_seen ? device::Exp2(score - risen) : 0.0f;
    total.sum = device::Fma(total.sum, carried, WarpSum(weight));
    total.maximum = risen;
    const float* tile_values = keys + kKvBlockTokens * head_dim;
    for (int i = 0; i < kLaneDims; ++i) values[i] *= carried;
    for (int slot = seen.begin; slot < seen.end; ++slot) {
      const float of_slot = device::Shuffle(weight, slot);
      for (int i = 0; i < kLaneDims && i * kWarpLanes + lane < head_dim; ++i) {
        values[i] =
            device::Fma(of_slot, tile_values[slot * head_dim + i * kWarpLanes + lane], values[i]);
      }
    }
  }
  const float inverse = 1.0f / total.sum;
  for (int i = 0; i < kLaneDims && i * kWarpLanes + lane < head_dim; ++i) {
    argument.out[row * head_dim + i * kWarpLanes + lane] = Finished(values[i], inverse);
  }
  if (item.mass_begin < 0) return;
  for (int tile = first / kKvBlockTokens; tile <= position / kKvBlockTokens; ++tile) {
    const int slot_position = tile * kKvBlockTokens + lane;
    float weight = 0;
    if (slot_position >= first && slot_position <= position) {
      weight = device::Exp2(ScoreOfLane(argument, q, keys_of(tile)) - total.maximum);
    }
    const float share = WarpSum(weight) * inverse * static_cast<float>(kAttentionMassOne) + 0.5f;
    if (lane == 0 && share >= 1) {
      device::AtomicAdd(argument.masses + item.mass_begin + tile, static_cast<uint32_t>(share));
    }
  }
}

}  // namespace

AttentionKernel FloatAttentionKernel() { return {&FloatKernel, kWarpLanes, 0}; }

}  // namespace kvgate::kernels::cuda::attention
