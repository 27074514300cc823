// Kernels that store rows of K and V in KV blocks, and that copy KV blocks.
#include "kernels/cuda/attention/attention_types.h"
#include "kernels/cuda/device/device.cuh"
#include "kernels/cuda/device/e4m3.cuh"

namespace kvgate::kernels::cuda::attention {

using device::FloatToHalf;
using memory::KvLayout;

namespace {

constexpr int kThreads = 256;
constexpr float kLargestF16 = 65504.0f;
constexpr uint16_t kNanF16 = 0x7e00;

// The work of one thread: consecutive dimensions of K and V of one row and head.
struct StorePlace {
  const float* k;
  const float* v;
  std::byte* head;  // K of the head; V follows it
  int slot;
  int dim;
};

// Finds the place of this thread's unit of kDims dimensions. Returns false if it has none.
template <int kDims>
KVGATE_DEVICE bool FindPlace(const StoreKvArgument& argument, StorePlace& place) {
  const KvLayout& kv = argument.kv;
  const int units_of_head = kv.head_dim / kDims;
  const int units = units_of_head * kv.num_kv_heads;  // per row
  const int unit = static_cast<int>(blockIdx.y) * kThreads + static_cast<int>(threadIdx.x);
  const auto row = static_cast<int>(blockIdx.x);
  if (unit >= units) return false;
  const KvSlot slot = argument.slots[row];
  if (slot.slot < 0) return false;
  const ptrdiff_t offset = static_cast<ptrdiff_t>(row) * kv.num_kv_heads * kv.head_dim +
                           static_cast<ptrdiff_t>(unit) * kDims;
  place = {
      argument.k + offset, argument.v + offset,
      kv.base + slot.block * kv.block_bytes + kv.head_offset(argument.layer, unit / units_of_head),
      slot.slot, unit % units_of_head * kDims};
  return true;
}

KVGATE_KERNEL void KVGATE_LAUNCH_BOUNDS(kThreads, 1) StorePlainKernel(StoreKvArgument argument) {
  StorePlace place;
  if (!FindPlace<1>(argument, place)) return;
  const KvLayout& kv = argument.kv;
  std::byte* key = place.head + place.slot * kv.row_bytes;
  std::byte* value = key + kv.part_bytes();
  if (kv.dtype == DType::kF32) {
    reinterpret_cast<float*>(key)[place.dim] = *place.k;
    reinterpret_cast<float*>(value)[place.dim] = *place.v;
    return;
  }
  if (kv.dtype == DType::kF8E4M3) {
    reinterpret_cast<uint8_t*>(key)[place.dim] = device::FloatToE4m3(*place.k);
    reinterpret_cast<uint8_t*>(value)[place.dim] = device::FloatToE4m3(*place.v);
    return;
  }
  const bool is_bf16 = kv.dtype == DType::kBF16;
  reinterpret_cast<uint16_t*>(key)[place.dim] =
      is_bf16 ? device::FloatToBf16(*place.k) : FloatToHalf(*place.k);
  reinterpret_cast<uint16_t*>(value)[place.dim] =
      is_bf16 ? device::FloatToBf16(*place.v) : FloatToHalf(*place.v);
}

// The value of largest magnitude, the first of several, or NaN if there is one. As in
// kernels/dtype.cc.
KVGATE_DEVICE float LargestOf(const float (&values)[32]) {
  float largest = 0;
  bool has_nan = false;
  KVGATE_UNROLL
  for (int i = 0; i < 32; ++i) {
    has_nan |= values[i] != values[i];
    if (fabsf(values[i]) > fabsf(largest)) largest = values[i];
  }
  return has_nan ? device::BitsToFloat(0x7fc00000u) : largest;
}

KVGATE_DEVICE float Clamped(float value, float least, float most) {
  return value < least ? least : value > most ? most : value;
}

// Rounds halves away from zero; |value| <= 127.
KVGATE_DEVICE int Rounded(float value) {
  const int whole = static_cast<int>(value);
  const float rest = value - static_cast<float>(whole);
  return whole + (rest >= 0.5f ? 1 : 0) - (rest <= -0.5f ? 1 : 0);
}

// As QuantizeBlock of kernels/dtype.h; writes 8 words of quants and returns the scale.
KVGATE_DEVICE uint16_t QuantizeQ8(const float (&values)[32], uint32_t (&quants)[8]) {
  for (uint32_t& word : quants) word = 0;
  const float largest = LargestOf(values);
  if (largest != largest) return kNanF16;
  const float quotient = fabsf(largest) / 127.0f;
  const float d = quotient < kLargestF16 ? quotient : kLargestF16;
  const uint16_t scale = FloatToHalf(d);
  if (scale == 0) return scale;
  const float inverse = 1.0f / d;
  KVGATE_UNROLL
  for (int i = 0; i < 32; ++i) {
    const int quant = Rounded(Clamped(values[i] * inverse, -127.0f, 127.0f));
    quants[i / 4] |= static_cast<uint32_t>(quant & 255) << (i % 4 * 8);
  }
  return scale;
}

// As QuantizeQ8, but with 4 words.
KVGATE_DEVICE uint16_t QuantizeQ4(const float (&values)[32], uint32_t (&quants)[8]) {
  for (int i = 0; i < 4; ++i) quants[i] = 0x88888888u;  // 0x8 encodes the value zero
  const float largest = LargestOf(values);
  if (largest != largest) return kNanF16;
  const float d = Clamped(largest / -8.0f, -kLargestF16, kLargestF16);
  const uint16_t scale = FloatToHalf(d);
  if ((scale & 0x7fffu) == 0) return 0;
  const float inverse = 1.0f / d;
  for (int i = 0; i < 4; ++i) quants[i] = 0;
  KVGATE_UNROLL
  for (int i = 0; i < 32; ++i) {
    const auto nibble = static_cast<uint32_t>(Clamped(values[i] * inverse + 8.5f, 0.0f, 15.0f));
    quants[i % 16 / 4] |= nibble << (i % 4 * 8 + i / 16 * 4);
  }
  return scale;
}

KVGATE_DEVICE void StoreQuantGroup(const KvLayout& kv, const float* from, std::byte* part, int slot,
                                   int group) {
  float values[32];
  KVGATE_UNROLL
  for (int i = 0; i < 32; ++i) values[i] = from[i];
  const bool is_byte = kv.dtype == DType::kQ8_0;
  uint32_t quants[8];
  const uint16_t scale = is_byte ? QuantizeQ8(values, quants) : QuantizeQ4(values, quants);
  reinterpret_cast<uint16_t*>(part)[group * kKvBlockTokens + slot] = scale;
  auto* to = reinterpret_cast<device::Vector16*>(part + kv.scale_bytes + slot * kv.row_bytes) +
             group * (is_byte ? 2 : 1);
  to[0] = {{quants[0], quants[1], quants[2], quants[3]}};
  if (is_byte) to[1] = {{quants[4], quants[5], quants[6], quants[7]}};
}

KVGATE_KERNEL void KVGATE_LAUNCH_BOUNDS(kThreads, 1) StoreQuantKernel(StoreKvArgument argument) {
  StorePlace place;
  if (!FindPlace<32>(argument, place)) return;
  StoreQuantGroup(argument.kv, place.k, place.head, place.slot, place.dim / 32);
  StoreQuantGroup(argument.kv, place.v, place.head + argument.kv.part_bytes(), place.slot,
                  place.dim / 32);
}

// The grid in x is the parts of a KV block: layers x heads x {K, V}. A unit must belong to one
// token: it is 2 bytes, or 1 byte if a row has an odd number of bytes (fp8_e4m3 with an odd
// head_dim).
template <typename Unit>
KVGATE_KERNEL void KVGATE_LAUNCH_BOUNDS(kThreads, 1) CopyKvKernel(CopyKvArgument argument) {
  const KvLayout& kv = argument.kv;
  const CopyKvTask task = *argument.task;
  const size_t part_begin = static_cast<size_t>(blockIdx.x) * static_cast<size_t>(kv.part_bytes());
  const auto* from =
      reinterpret_cast<const Unit*>(kv.base + task.from * kv.block_bytes + part_begin);
  auto* to = reinterpret_cast<Unit*>(kv.base + task.to * kv.block_bytes + part_begin);
  constexpr int kUnitBytes = sizeof(Unit);
  const int unit = static_cast<int>(blockIdx.y) * kThreads + static_cast<int>(threadIdx.x);
  if (unit >= kv.part_bytes() / kUnitBytes) return;
  const int scales = kv.scale_bytes / kUnitBytes;
  const int token =
      unit < scales ? unit % kKvBlockTokens : (unit - scales) / (kv.row_bytes / kUnitBytes);
  if (token < task.num_tokens) {
    to[unit] = from[unit];
  } else if (argument.is_poisoning) {
    to[unit] = static_cast<Unit>(0xffff);
  }
}

unsigned int BlocksOf(int count) {
  return static_cast<unsigned int>((count + kThreads - 1) / kThreads);
}

}  // namespace

void LaunchStoreKv(device::CommandStream& stream, const StoreKvArgument& argument, int num_rows) {
  const KvLayout& kv = argument.kv;
  const int unit_dims = kv.scale_bytes > 0 ? 32 : 1;
  const unsigned int blocks = BlocksOf(kv.num_kv_heads * (kv.head_dim / unit_dims));
  stream.Launch(kv.scale_bytes > 0 ? &StoreQuantKernel : &StorePlainKernel,
                {.grid = dim3(static_cast<unsigned int>(num_rows), blocks), .threads = kThreads},
                argument);
}

void LaunchCopyKv(device::CommandStream& stream, const CopyKvArgument& argument) {
  const KvLayout& kv = argument.kv;
  const auto parts = static_cast<unsigned int>(2 * kv.num_layers * kv.num_kv_heads);
  const bool is_even = kv.row_bytes % 2 == 0;
  stream.Launch(
      is_even ? &CopyKvKernel<uint16_t> : &CopyKvKernel<uint8_t>,
      {.grid = dim3(parts, BlocksOf(kv.part_bytes() / (is_even ? 2 : 1))), .threads = kThreads},
      argument);
}

}  // namespace kvgate::kernels::cuda::attention
