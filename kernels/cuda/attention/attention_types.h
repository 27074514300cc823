// The data that attention.cc passes to its kernels: rows split into tiles, the location of their
// KV, the destination of partial results. Plain structs, explained in the kernels' files.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/backend.h"
#include "kernels/cuda/device/command_stream.h"
#include "kernels/cuda/memory/device_kv_arena.h"

namespace kvgate::kernels::cuda::attention {

// Rows per matrix instruction of a warp: tokens x query heads of one KV head.
inline constexpr int kWarpRows = 16;
inline constexpr int kHeadDimMax = 256;
// Floats after a partial result's values: its maximum and sum, padded.
inline constexpr int kPartialExtra = 4;

// Consecutive rows of one sequence, for every KV head: row i of an item is query head i % group of
// the KV head, for the token (row_begin + i) / group of the sequence.
struct AttentionItem {
  int first_row = 0;  // of the sequence in q and out; negative means an empty item
  int num_tokens = 0;
  int first_position = 0;
  int table_begin = 0;  // start of the sequence's block ids in the staged tables
  int row_begin = 0;
  int split = 0;  // the split to process; negative means all
  // Index of (token 0, split `split`) in the partial results; a token's splits are consecutive.
  int partial_begin = 0;
  int num_splits = 0;   // splits per token in the partial results
  int mass_begin = -1;  // start of the sequence in the masses
};

// The destination of a row's K and V.
struct KvSlot {
  uint32_t block = 0;
  int slot = 0;  // negative means no row
  friend bool operator==(const KvSlot&, const KvSlot&) = default;
};

struct CopyKvTask {
  uint32_t from = 0;
  uint32_t to = 0;
  int num_tokens = 0;
};

// A token whose splits are joined.
struct JoinItem {
  int row = 0;  // negative means an empty item
  int num_splits = 0;
  int partial_begin = 0;
};

struct AttentionArgument {
  const float* q = nullptr;  // [rows, num_heads, head_dim]
  float* out = nullptr;
  const AttentionItem* items = nullptr;
  const uint32_t* tables = nullptr;  // block ids
  memory::KvLayout kv;
  int layer = 0;
  int num_heads = 0;
  int window = 0;
  float q_factor = 0;  // factor that makes scores exponents of 2, or the argument of tanh
  float cap_log2 = 0;  // 0 means no cap; else scores are cap_log2 * tanh
  const float* sinks = nullptr;
  float* partials = nullptr;  // [tokens x splits, num_heads, head_dim + kPartialExtra]
  float* totals = nullptr;    // null, or [rows, num_heads, 2]: the softmax's maximum and sum
  unsigned long long* masses = nullptr;

  constexpr int group() const { return num_heads / kv.num_kv_heads; }
};

struct JoinArgument {
  const JoinItem* items = nullptr;
  const float* partials = nullptr;
  const float* sinks = nullptr;
  float* out = nullptr;
  float* totals = nullptr;
  int num_heads = 0;
  int head_dim = 0;
};

// A kernel with its launch parameters.
struct AttentionKernel {
  void (*run)(AttentionArgument) = nullptr;
  unsigned int threads = 0;
  size_t shared_bytes = 0;
};

// Kernels for one KV dtype and head_dim. The grid is items x KV heads, KV head fastest.
struct AttentionKernels {
  AttentionKernel split;  // item: at most kWarpRows rows, one split; writes partial results
  AttentionKernel whole;  // item: at most whole_rows rows, all their splits; writes out
  AttentionKernel mass;   // item: at most kWarpRows rows; reads totals, adds to masses
  int whole_rows = 0;     // 0 if a block cannot have enough shared memory
};

// Kernels for f16, bf16, fp8_e4m3, and for q8_0 and q4_0. head_dim <= kHeadDimMax.
AttentionKernels HalfAttentionKernels(int head_dim, size_t shared_bytes_max);
AttentionKernels Bf16AttentionKernels(int head_dim, size_t shared_bytes_max);
AttentionKernels E4m3AttentionKernels(int head_dim, size_t shared_bytes_max);
AttentionKernels QuantAttentionKernels(int head_dim, size_t shared_bytes_max);
// The kernel for f32: an item is one token, row_begin its index in the sequence. A warp processes
// one query head of it, masses included. The grid is items x query heads, head fastest.
AttentionKernel FloatAttentionKernel();
// Joins the splits of `num_items` tokens.
void LaunchJoin(device::CommandStream& stream, const JoinArgument& argument, int num_items);

// Stores rows of k and v at their slots.
struct StoreKvArgument {
  const float* k = nullptr;  // [rows, num_kv_heads, head_dim]
  const float* v = nullptr;
  const KvSlot* slots = nullptr;
  memory::KvLayout kv;
  int layer = 0;
};
void LaunchStoreKv(device::CommandStream& stream, const StoreKvArgument& argument, int num_rows);

// Copies the first num_tokens tokens of a block, and fills the rest with NaN if is_poisoning.
struct CopyKvArgument {
  const CopyKvTask* task = nullptr;
  memory::KvLayout kv;
  bool is_poisoning = false;
};
void LaunchCopyKv(device::CommandStream& stream, const CopyKvArgument& argument);

}  // namespace kvgate::kernels::cuda::attention
