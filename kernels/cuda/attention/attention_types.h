// What attention.cc hands to its kernels: rows cut into tiles, where their KV lies, where partial
// results go. Plain structs; the kernels' files say what is done with them.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/backend.h"
#include "kernels/cuda/command_stream.h"
#include "kernels/cuda/memory/device_kv_arena.h"

namespace kvgate::kernels::cuda {

// Rows that a warp's matrix instructions take at once: tokens x query heads of one KV head.
inline constexpr int kWarpRows = 16;
inline constexpr int kHeadDimMax = 256;
// Floats behind a partial result's values: its maximum and sum, padded.
inline constexpr int kPartialExtra = 4;

// Consecutive rows of one sequence for every KV head: row i of an item is query head i % group of
// the KV head, for the token (row_begin + i) / group of the sequence.
struct AttentionItem {
  int first_row = 0;  // of the sequence in q and out; negative: no item
  int num_tokens = 0;
  int first_position = 0;
  int table_begin = 0;  // of the sequence in the staged tables
  int row_begin = 0;
  int split = 0;  // the one to take; negative: all
  // Of (token 0, split `split`) in the partial results; a token's splits are consecutive.
  int partial_begin = 0;
  int num_splits = 0;   // of each token in the partial results
  int mass_begin = -1;  // of the sequence in the masses
};

// Where a row's K and V go.
struct KvSlot {
  uint32_t block = 0;
  int slot = 0;  // negative: no row
  friend bool operator==(const KvSlot&, const KvSlot&) = default;
};

struct CopyKvTask {
  uint32_t from = 0;
  uint32_t to = 0;
  int num_tokens = 0;
};

// A token whose splits are to be joined.
struct JoinItem {
  int row = 0;  // negative: no item
  int num_splits = 0;
  int partial_begin = 0;
};

struct AttentionArgument {
  const float* q = nullptr;  // [rows, num_heads, head_dim]
  float* out = nullptr;
  const AttentionItem* items = nullptr;
  const uint32_t* tables = nullptr;  // block ids
  KvLayout kv;
  int layer = 0;
  int num_heads = 0;
  int window = 0;
  float q_factor = 0;  // q times it has scores with exponents of 2, or tanh's argument
  float cap_log2 = 0;  // 0: no cap; else scores are cap_log2 * tanh
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

// A kernel with what its launch takes.
struct AttentionKernel {
  void (*run)(AttentionArgument) = nullptr;
  unsigned int threads = 0;
  size_t shared_bytes = 0;
};

// For one KV dtype and head_dim. Blocks are items x KV heads, KV head fastest.
struct AttentionKernels {
  AttentionKernel split;  // an item is at most kWarpRows rows and one split: to the partial results
  AttentionKernel whole;  // an item is at most whole_rows rows, all their splits: to out
  AttentionKernel mass;   // an item is at most kWarpRows rows; reads totals, adds to masses
  int whole_rows = 0;     // 0: a block cannot have the shared memory that it takes
};

// For f16, bf16, fp8_e4m3, and q8_0 and q4_0. head_dim <= kHeadDimMax.
AttentionKernels HalfAttentionKernels(int head_dim, size_t shared_bytes_max);
AttentionKernels Bf16AttentionKernels(int head_dim, size_t shared_bytes_max);
AttentionKernels E4m3AttentionKernels(int head_dim, size_t shared_bytes_max);
AttentionKernels QuantAttentionKernels(int head_dim, size_t shared_bytes_max);
// For f32: an item is one token, row_begin its number in the sequence; a warp takes one of its
// query heads, masses too. Blocks are items x query heads, head fastest.
AttentionKernel FloatAttentionKernel();
// Joins the splits of `num_items` tokens.
void LaunchJoin(CommandStream& stream, const JoinArgument& argument, int num_items);

// Rows of k and v to their places.
struct StoreKvArgument {
  const float* k = nullptr;  // [rows, num_kv_heads, head_dim]
  const float* v = nullptr;
  const KvSlot* slots = nullptr;
  KvLayout kv;
  int layer = 0;
};
void LaunchStoreKv(CommandStream& stream, const StoreKvArgument& argument, int num_rows);

// The first num_tokens tokens of a block; NaN behind them where is_poisoning.
struct CopyKvArgument {
  const CopyKvTask* task = nullptr;
  KvLayout kv;
  bool is_poisoning = false;
};
void LaunchCopyKv(CommandStream& stream, const CopyKvArgument& argument);

}  // namespace kvgate::kernels::cuda
