// The inner loops of Attention, one table of functions per SIMD target. attention.h splits a batch
// into parts for them.
//
// Numerics, equal for every split: one KV block is one tile, at its absolute position, and a row
// visits its tiles in order from position 0 with a running maximum and sum (online softmax; Milakov
// & Gimelshein 2018). Per row and tile:
//   s[t] = sum over d of (q[d] * scale) * k[d][t], from zero, fused, in rising d; then softcap
//   m' = max(m, max s), c = exp(m - m'), p[t] = exp(s[t] - m')
//   l = l * c + sum p, the sum as one vector tree over the tile, absent tokens 0
//   o[d] = o[d] * c + p[0] * v[0][d] + ..., fused, in rising t, over the row's own tokens only
// and out = o * (1 / l). If block masses are requested, the mass of a tile is sum p * exp(m at the
// tile - m at the end) / l. Tokens past the row's position or before its window never take part:
// their slots may hold NaN. A tile of which a row sees nothing leaves the row's m, l and o
// unchanged bit for bit, so it does not matter which such tiles a part visits: it starts with the
// first tile that one of its rows sees. A sink is processed first: m = sink, l = 1.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "kernels/backend.h"

namespace kvgate::kernels::cpu {

// Maximum rows (tokens x query heads) of one part; they share each converted tile.
inline constexpr int kAttentionRowsMax = 64;

// Holds the mass of one row on one tile: the sum of its p, relative to the maximum at that time.
struct TileMass {
  float sum = 0;
  float maximum = 0;
};

// A part covers the query heads [head_begin, head_begin + num_heads_here) of one KV head, for
// consecutive tokens of one sequence that end in the same KV block.
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
  size_t block_offset = 0;   // byte offset of this layer and KV head's K inside a block
  float* scratch = nullptr;  // AttentionScratchFloats(head_dim), aligned
  // Null, or the SequenceRows::block_mass to add to; parts of other heads add to it concurrently.
  uint64_t* block_mass = nullptr;
  TileMass* tile_mass = nullptr;  // scratch if block_mass is set: [tiles][kAttentionRowsMax]
};

size_t AttentionScratchFloats(int head_dim);

struct AttentionKernels {
  void (*attend)(const AttentionPart& part);
};

AttentionKernels AttentionKernelsFor(int64_t target);

}  // namespace kvgate::kernels::cpu
