// The inner loops of Attention, one table of functions per SIMD target. attention.h cuts a batch
// into parts for them.
//
// Numerics, equal for every way of cutting: one KV block is one tile, at its absolute position, and
// a row walks its tiles in order from position 0 with a running maximum and sum (online softmax;
// Milakov & Gimelshein 2018). Per row and tile:
//   s[t] = sum over d of (q[d] * scale) * k[d][t], from zero, fused, in rising d; then softcap
//   m' = max(m, max s), c = exp(m - m'), p[t] = exp(s[t] - m')
//   l = l * c + sum p, the sum as one vector tree over the tile, absent tokens 0
//   o[d] = o[d] * c + p[0] * v[0][d] + ..., fused, in rising t, over the row's own tokens only
// and out = o * (1 / l). Where the mass of blocks is asked for, that of a tile is
// sum p * exp(m at the tile - m at the end) / l. A token past the row's position, or before its
// window, never takes part: its slot may hold NaN. A tile of which a row sees nothing leaves the
// row's m, l and o bit for bit as they were, so it does not matter which of them a part walks: it
// begins with the first that one of its rows sees. A sink is seen first: m = sink, l = 1.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "kernels/backend.h"

namespace kvgate::kernels::cpu {

// Rows (tokens x query heads) of one part at most; they share each converted tile.
inline constexpr int kAttentionRowsMax = 64;

// What one row put on one tile: the sum of its p, relative to the maximum it had then.
struct TileMass {
  float sum = 0;
  float maximum = 0;
};

// The query heads [head_begin, head_begin + num_heads_here) of one KV head, for consecutive tokens
// of one sequence that end in the same KV block.
struct AttentionPart {
  const float* q = nullptr;  // the first token's row: [num_heads, head_dim]
  float* out = nullptr;
  int row_stride = 0;  // floats from one token's row to the next
  int head_dim = 0;
  int head_begin = 0;
  int num_heads_here = 0;
  int num_tokens = 0;  // num_tokens * num_heads_here <= kAttentionRowsMax
  int first_position = 0;
  AttentionShape shape;
  DType dtype = DType::kF16;
  std::span<const BlockId> block_table;
  const KvArena* arena = nullptr;
  size_t block_offset = 0;   // of this layer and KV head's K inside a block, in bytes
  float* scratch = nullptr;  // AttentionScratchFloats(head_dim), aligned
  // Null, or where SequenceRows::block_mass is; then what parts of other heads add is added too.
  uint64_t* block_mass = nullptr;
  TileMass* tile_mass = nullptr;  // scratch then: [tiles][kAttentionRowsMax]
};

size_t AttentionScratchFloats(int head_dim);

struct AttentionKernels {
  void (*attend)(const AttentionPart& part);
};

AttentionKernels AttentionKernelsFor(int64_t target);

}  // namespace kvgate::kernels::cpu
