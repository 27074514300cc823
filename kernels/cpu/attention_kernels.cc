#include "kernels/cpu/attention_kernels.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/attention_kernels.cc"
#include <hwy/foreach_target.h>
// After foreach_target.
#include <algorithm>
#include <atomic>
#include <cmath>
#include <limits>
#include <numeric>

#include <hwy/highway.h>
#include <kvgate/check.h>

#include "kernels/cpu/simd-inl.h"
#include "kernels/cpu/simd_target.h"

#ifndef KVGATE_KERNELS_CPU_ATTENTION_LAYOUT_
#define KVGATE_KERNELS_CPU_ATTENTION_LAYOUT_
namespace kvgate::kernels::cpu {

// Rows that one pass over a tile serves from registers.
inline constexpr int kGroupRowsMax = 6;

// head_dim, rounded up so that a row of V or of the output is whole vectors, two at a time, on
// every target.
inline int PaddedHeadDim(int head_dim) { return (head_dim + 31) / 32 * 32; }

// The scratch of one part.
struct AttentionScratch {
  float* q;        // [group][head_dim][rows of the group], scaled
  float* k;        // [head_dim][kKvBlockTokens]
  float* v;        // [kKvBlockTokens][padded]
  float* out;      // [kAttentionRowsMax][padded]
  float* scores;   // [kGroupRowsMax][kKvBlockTokens]
  float* maximum;  // [kAttentionRowsMax]
  float* sum;      // [kAttentionRowsMax]
  TileMass* mass;  // [kAttentionRowsMax] of the tile at hand; null: not asked for
};

inline AttentionScratch CutScratch(float* scratch, int head_dim) {
  const int padded = PaddedHeadDim(head_dim);
  AttentionScratch cut{};
  cut.k = scratch;
  cut.v = cut.k + padded * kKvBlockTokens;
  cut.q = cut.v + padded * kKvBlockTokens;
  cut.out = cut.q + kAttentionRowsMax * padded;
  cut.scores = cut.out + kAttentionRowsMax * padded;
  cut.maximum = cut.scores + 8 * kKvBlockTokens;
  cut.sum = cut.maximum + kAttentionRowsMax;
  return cut;
}

}  // namespace kvgate::kernels::cpu
#endif  // KVGATE_KERNELS_CPU_ATTENTION_LAYOUT_

HWY_BEFORE_NAMESPACE();
namespace kvgate::kernels::cpu {
namespace HWY_NAMESPACE {

constexpr int kTileVectors = static_cast<int>(kKvBlockTokens / kLanes);
// Below every score, and far enough from the end that differences stay finite.
constexpr float kNoMaximum = -1e38f;

template <typename T>
HWY_INLINE void ExpandRow(const T* from, int count, float* to) {
  int i = 0;
  for (; i + static_cast<int>(kLanes) <= count; i += kLanes) {
    hn::StoreU(LoadAsF32(from + i), DF(), to + i);
  }
  if (i < count) {  // a padded copy, so that every element takes the same path
    T rest[kLanes] = {};
    HWY_ALIGN float expanded[kLanes];
    std::memcpy(rest, from + i, (count - i) * sizeof(T));
    hn::Store(LoadAsF32(rest), DF(), expanded);
    std::memcpy(to + i, expanded, (count - i) * sizeof(float));
  }
}

// Converts one tile: K whole (columns are lanes), V for the tokens that are there. V's padding was
// zeroed when the part began.
template <typename T>
void ExpandTile(const std::byte* kv, int head_dim, int num_tokens, const AttentionScratch& to) {
  const int padded = PaddedHeadDim(head_dim);
  const T* k = reinterpret_cast<const T*>(kv);
  const T* v = k + head_dim * kKvBlockTokens;
  for (int i = 0; i < head_dim * kKvBlockTokens; i += kLanes) {
    hn::Store(LoadAsF32(k + i), DF(), to.k + i);
  }
  for (int t = 0; t < num_tokens; ++t) ExpandRow(v + t * head_dim, head_dim, to.v + t * padded);
}

// The scales of the 32 tokens of one group, as f32.
HWY_INLINE void ExpandScales(const std::byte* from, float* scales) {
  for (int t = 0; t < kKvBlockTokens; t += kLanes) {
    hn::Store(LoadAsF32(reinterpret_cast<const F16*>(from) + t), DF(), scales + t);
  }
}

// kLanes int8 quants times scale; exact, as the product fits an f32.
HWY_INLINE void StoreQuants(const int8_t* quants, VF scale, float* to) {
  const hn::Rebind<int8_t, DF> d8;
  const VI32 integers = hn::PromoteTo(DI32(), hn::LoadU(d8, quants));
  hn::Store(hn::Mul(scale, hn::ConvertTo(DF(), integers)), DF(), to);
}

// The same of nibbles: the low halves go to `low`, the high halves to `high`.
HWY_INLINE void StoreNibbles(const uint8_t* nibbles, VF scale, float* low, float* high) {
  const hn::Rebind<uint8_t, DF> d8;
  const DI32 di;
  const VI32 bytes = hn::PromoteTo(di, hn::LoadU(d8, nibbles));
  const VI32 eight = hn::Set(di, 8);
  const VI32 low_quants = hn::Sub(hn::And(bytes, hn::Set(di, 15)), eight);
  const VI32 high_quants = hn::Sub(hn::ShiftRight<4>(bytes), eight);
  hn::Store(hn::Mul(scale, hn::ConvertTo(DF(), low_quants)), DF(), low);
  hn::Store(hn::Mul(scale, hn::ConvertTo(DF(), high_quants)), DF(), high);
}

// As ExpandTile, of a quantized dtype: one group of 32 dimensions after the other. head_dim is a
// multiple of 32, so rows of V have no padding.
template <typename QuantBlock>
void ExpandQuantTile(const std::byte* kv, int head_dim, int num_tokens,
                     const AttentionScratch& to) {
  constexpr int kTokens = kKvBlockTokens;
  constexpr int kQuantBytes = sizeof(QuantBlock::quants);
  constexpr bool kIsByte = kQuantBytes == QuantBlock::kElements;
  constexpr size_t kGroupBytes = sizeof(QuantBlock) * kTokens;
  HWY_ALIGN float scales[kTokens];
  for (int d0 = 0; d0 < head_dim; d0 += QuantBlock::kElements, kv += kGroupBytes) {
    ExpandScales(kv, scales);
    const auto* quants = reinterpret_cast<const uint8_t*>(kv) + kTokens * sizeof(uint16_t);
    for (int t = 0; t < kTokens; t += kLanes) {
      const VF scale = hn::Load(DF(), scales + t);
      float* keys = to.k + d0 * kTokens + t;
      for (int i = 0; i < kQuantBytes; ++i) {
        const uint8_t* from = quants + i * kTokens + t;
        if constexpr (kIsByte) {
          StoreQuants(reinterpret_cast<const int8_t*>(from), scale, keys + i * kTokens);
        } else {
          StoreNibbles(from, scale, keys + i * kTokens, keys + (i + kQuantBytes) * kTokens);
        }
      }
    }
  }
  for (int d0 = 0; d0 < head_dim; d0 += QuantBlock::kElements, kv += kGroupBytes) {
    ExpandScales(kv, scales);
    const auto* quants = reinterpret_cast<const uint8_t*>(kv) + kTokens * sizeof(uint16_t);
    for (int t = 0; t < num_tokens; ++t) {
      const VF scale = hn::Set(DF(), scales[t]);
      const uint8_t* from = quants + t * kQuantBytes;
      float* values = to.v + t * head_dim + d0;
      for (int i = 0; i < kQuantBytes; i += kLanes) {
        if constexpr (kIsByte) {
          StoreQuants(reinterpret_cast<const int8_t*>(from) + i, scale, values + i);
        } else {
          StoreNibbles(from + i, scale, values + i, values + kQuantBytes + i);
        }
      }
    }
  }
}

// scores[r][t] = sum over d of q[d][r] * k[d][t].
template <int kRows>
void ScoreTile(const float* HWY_RESTRICT q, const float* HWY_RESTRICT k, int head_dim,
               float* HWY_RESTRICT scores) {
  const DF df;
  for (int v0 = 0; v0 < kTileVectors; v0 += 2) {
    const float* keys = k + v0 * kLanes;
    VF sums[kRows][2];
    KVGATE_UNROLL
    for (int r = 0; r < kRows; ++r) sums[r][0] = sums[r][1] = hn::Zero(df);
    for (int d = 0; d < head_dim; ++d) {
      const VF k0 = hn::Load(df, keys + d * kKvBlockTokens);
      const VF k1 = hn::Load(df, keys + d * kKvBlockTokens + kLanes);
      KVGATE_UNROLL
      for (int r = 0; r < kRows; ++r) {
        const VF value = hn::Set(df, q[d * kRows + r]);
        sums[r][0] = hn::MulAdd(k0, value, sums[r][0]);
        sums[r][1] = hn::MulAdd(k1, value, sums[r][1]);
      }
    }
    KVGATE_UNROLL
    for (int r = 0; r < kRows; ++r) {
      float* to = scores + r * kKvBlockTokens + v0 * kLanes;
      hn::Store(sums[r][0], df, to);
      hn::Store(sums[r][1], df, to + kLanes);
    }
  }
}

// Turns one row's scores into weights p, and returns c, by which what came before is scaled.
HWY_INLINE float SoftmaxRow(float* scores, int num_tokens, float* maximum, float* sum) {
  const DF df;
  VF values[kTileVectors];
  VF largest = hn::Set(df, *maximum);
  KVGATE_UNROLL
  for (int v = 0; v < kTileVectors; ++v) {
    values[v] = hn::Load(df, scores + v * kLanes);
    if (num_tokens < kKvBlockTokens) {
      const int here =
          std::clamp(num_tokens - v * static_cast<int>(kLanes), 0, static_cast<int>(kLanes));
      values[v] = hn::IfThenElse(hn::FirstN(df, here), values[v], hn::Set(df, kNoMaximum));
    }
    largest = hn::Max(largest, values[v]);
  }
  largest = hn::MaxOfLanes(df, largest);
  VF total = hn::Zero(df);
  KVGATE_UNROLL
  for (int v = 0; v < kTileVectors; ++v) {
    VF weight = Exp(hn::Sub(values[v], largest));
    if (num_tokens < kKvBlockTokens) {
      const int here =
          std::clamp(num_tokens - v * static_cast<int>(kLanes), 0, static_cast<int>(kLanes));
      weight = hn::IfThenElseZero(hn::FirstN(df, here), weight);
    }
    hn::Store(weight, df, scores + v * kLanes);
    total = hn::Add(total, weight);
  }
  const VF scale = Exp(hn::Sub(hn::Set(df, *maximum), largest));
  const VF carried = hn::Mul(hn::Set(df, *sum), scale);
  *sum = hn::GetLane(hn::Add(carried, hn::SumOfLanes(df, total)));
  *maximum = hn::GetLane(largest);
  return hn::GetLane(scale);
}

// out[r][d] = out[r][d] * scales[r] + sum over t in [t_begin, t_end) of p[r][t] * v[t][d].
template <int kRows>
void AddValues(const float* HWY_RESTRICT p, const float* HWY_RESTRICT v, int padded, int t_begin,
               int t_end, const float* scales, float* HWY_RESTRICT out) {
  const DF df;
  for (int d = 0; d < padded; d += 2 * static_cast<int>(kLanes)) {
    VF sums[kRows][2];
    KVGATE_UNROLL
    for (int r = 0; r < kRows; ++r) {
      const VF scale = hn::Set(df, scales[r]);
      sums[r][0] = hn::Mul(hn::Load(df, out + r * padded + d), scale);
      sums[r][1] = hn::Mul(hn::Load(df, out + r * padded + d + kLanes), scale);
    }
    for (int t = t_begin; t < t_end; ++t) {
      const VF v0 = hn::Load(df, v + t * padded + d);
      const VF v1 = hn::Load(df, v + t * padded + d + kLanes);
      KVGATE_UNROLL
      for (int r = 0; r < kRows; ++r) {
        const VF weight = hn::Set(df, p[r * kKvBlockTokens + t]);
        sums[r][0] = hn::MulAdd(weight, v0, sums[r][0]);
        sums[r][1] = hn::MulAdd(weight, v1, sums[r][1]);
      }
    }
    KVGATE_UNROLL
    for (int r = 0; r < kRows; ++r) {
      hn::Store(sums[r][0], df, out + r * padded + d);
      hn::Store(sums[r][1], df, out + r * padded + d + kLanes);
    }
  }
}

// One tile for one group of rows. counts[r]: tokens of the tile that row r sees, at least 1,
// rising.
template <int kRows>
void AttendGroup(const AttentionScratch& s, const float* q, int head_dim, int first_row,
                 const int* counts) {
  const int padded = PaddedHeadDim(head_dim);
  float* out = s.out + first_row * padded;
  float scales[kRows];
  ScoreTile<kRows>(q, s.k, head_dim, s.scores);
  for (int r = 0; r < kRows; ++r) {
    scales[r] = SoftmaxRow(s.scores + r * kKvBlockTokens, counts[r], s.maximum + first_row + r,
                           s.sum + first_row + r);
  }
  if (s.mass != nullptr) {
    for (int r = 0; r < kRows; ++r) {
      const float* weights = s.scores + r * kKvBlockTokens;
      s.mass[first_row + r] = {.sum = std::accumulate(weights, weights + counts[r], 0.0f),
                               .maximum = s.maximum[first_row + r]};
    }
  }
  AddValues<kRows>(s.scores, s.v, padded, 0, counts[0], scales, out);
  // In a row's last tile the group's rows may see different numbers of tokens.
  constexpr float kOne = 1.0f;
  for (int r = 1; r < kRows; ++r) {
    if (counts[r] == counts[0]) continue;
    AddValues<1>(s.scores + r * kKvBlockTokens, s.v, padded, counts[0], counts[r], &kOne,
                 out + r * padded);
  }
}

void AttendGroupOf(int rows, const AttentionScratch& s, const float* q, int head_dim, int first_row,
                   const int* counts) {
  switch (rows) {
    case 1:
      return AttendGroup<1>(s, q, head_dim, first_row, counts);
    case 2:
      return AttendGroup<2>(s, q, head_dim, first_row, counts);
    case 3:
      return AttendGroup<3>(s, q, head_dim, first_row, counts);
    case 4:
      return AttendGroup<4>(s, q, head_dim, first_row, counts);
    case 5:
      return AttendGroup<5>(s, q, head_dim, first_row, counts);
    default:
      return AttendGroup<kGroupRowsMax>(s, q, head_dim, first_row, counts);
  }
}

// The first row of a group, where num_rows rows are cut into num_groups as evenly as possible.
int GroupBegin(int group, int num_groups, int num_rows) { return group * num_rows / num_groups; }

const float* RowOfQ(const AttentionPart& part, int row) {
  return part.q + static_cast<ptrdiff_t>(row / part.num_heads_here) * part.row_stride +
         (part.head_begin + row % part.num_heads_here) * part.head_dim;
}

// Scales and transposes q group by group, and sets the running state to "nothing seen".
void BeginRows(const AttentionPart& part, int num_rows, int num_groups, const AttentionScratch& s) {
  const int padded = PaddedHeadDim(part.head_dim);
  for (int group = 0; group < num_groups; ++group) {
    const int begin = GroupBegin(group, num_groups, num_rows);
    const int rows = GroupBegin(group + 1, num_groups, num_rows) - begin;
    for (int r = 0; r < rows; ++r) {
      const float* from = RowOfQ(part, begin + r);
      float* to = s.q + begin * part.head_dim + r;
      for (int d = 0; d < part.head_dim; ++d) to[d * rows] = from[d] * part.scale;
    }
  }
  std::fill_n(s.out, num_rows * padded, 0.0f);
  std::fill_n(s.maximum, num_rows, kNoMaximum);
  std::fill_n(s.sum, num_rows, 0.0f);
  if (padded != part.head_dim) std::fill_n(s.v, kKvBlockTokens * padded, 0.0f);
}

void EndRows(const AttentionPart& part, int num_rows, const AttentionScratch& s) {
  const int padded = PaddedHeadDim(part.head_dim);
  for (int row = 0; row < num_rows; ++row) {
    const float inverse = 1.0f / s.sum[row];
    const float* from = s.out + row * padded;
    float* to = part.out + (RowOfQ(part, row) - part.q);
    for (int d = 0; d < part.head_dim; ++d) to[d] = from[d] * inverse;
  }
}

// Adds what all rows put on each tile. Other threads add to the same blocks.
void AddBlockMass(const AttentionPart& part, int num_rows, int num_tiles,
                  const AttentionScratch& s) {
  for (int tile = 0; tile < num_tiles; ++tile) {
    const TileMass* mass = part.tile_mass + static_cast<ptrdiff_t>(tile) * kAttentionRowsMax;
    uint64_t units = 0;
    for (int row = 0; row < num_rows; ++row) {
      const double share = mass[row].sum / static_cast<double>(s.sum[row]) *
                           std::exp(static_cast<double>(mass[row].maximum) - s.maximum[row]);
      if (share >= 0) units += static_cast<uint64_t>(share * kAttentionMassOne + 0.5);  // not NaN
    }
    std::atomic_ref(part.block_mass[tile]).fetch_add(units, std::memory_order_relaxed);
  }
}

void Attend(const AttentionPart& part) {
  AttentionScratch s = CutScratch(part.scratch, part.head_dim);
  const int num_rows = part.num_tokens * part.num_heads_here;
  const int num_groups = (num_rows + kGroupRowsMax - 1) / kGroupRowsMax;
  const int last_position = part.first_position + part.num_tokens - 1;
  const int last_tile = last_position / kKvBlockTokens;
  KVGATE_DCHECK(num_rows <= kAttentionRowsMax, "rows of an attention part");
  KVGATE_DCHECK(part.first_position / kKvBlockTokens == last_tile, "rows end in one KV block");
  BeginRows(part, num_rows, num_groups, s);
  for (int tile = 0; tile <= last_tile; ++tile) {
    const std::byte* kv = part.arena->block(part.block_table[tile]) + part.block_offset;
    const bool last = tile == last_tile;
    if (part.block_mass != nullptr) {
      s.mass = part.tile_mass + static_cast<ptrdiff_t>(tile) * kAttentionRowsMax;
    }
    const int num_tokens = last ? last_position % kKvBlockTokens + 1 : kKvBlockTokens;
    switch (part.dtype) {
      case DType::kF32:
        ExpandTile<float>(kv, part.head_dim, num_tokens, s);
        break;
      case DType::kBF16:
        ExpandTile<BF16>(kv, part.head_dim, num_tokens, s);
        break;
      case DType::kF16:
        ExpandTile<F16>(kv, part.head_dim, num_tokens, s);
        break;
      case DType::kQ8_0:
        ExpandQuantTile<QuantBlockQ8_0>(kv, part.head_dim, num_tokens, s);
        break;
      case DType::kQ4_0:
        ExpandQuantTile<QuantBlockQ4_0>(kv, part.head_dim, num_tokens, s);
        break;
      default:
        KVGATE_DCHECK(false, "not a KV dtype");
    }
    for (int group = 0; group < num_groups; ++group) {
      const int begin = GroupBegin(group, num_groups, num_rows);
      const int rows = GroupBegin(group + 1, num_groups, num_rows) - begin;
      int counts[kGroupRowsMax];
      for (int r = 0; r < rows; ++r) {
        const int position = part.first_position + (begin + r) / part.num_heads_here;
        counts[r] = last ? position % kKvBlockTokens + 1 : kKvBlockTokens;
      }
      AttendGroupOf(rows, s, s.q + begin * part.head_dim, part.head_dim, begin, counts);
    }
  }
  EndRows(part, num_rows, s);
  if (part.block_mass != nullptr) AddBlockMass(part, num_rows, last_tile + 1, s);
}

AttentionKernels MakeAttentionKernels() { return {.attend = Attend}; }

}  // namespace HWY_NAMESPACE
}  // namespace kvgate::kernels::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace kvgate::kernels::cpu {

HWY_EXPORT(MakeAttentionKernels);

AttentionKernels AttentionKernelsFor(int64_t target) {
  const ScopedTarget scoped(target);
  return HWY_DYNAMIC_DISPATCH(MakeAttentionKernels)();
}

size_t AttentionScratchFloats(int head_dim) {
  const size_t padded = static_cast<size_t>(PaddedHeadDim(head_dim));
  return 2 * padded * kKvBlockTokens + 2 * padded * kAttentionRowsMax + 8 * kKvBlockTokens +
         2 * kAttentionRowsMax;
}

}  // namespace kvgate::kernels::cpu
#endif  // HWY_ONCE
