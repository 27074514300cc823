#include "kernels/cpu/attention_kernels.h"

#include "base/check.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/attention_kernels.cc"
#include <hwy/foreach_target.h>
// These must follow foreach_target.
#include <algorithm>
#include <atomic>
#include <cmath>
#include <limits>
#include <numeric>

#include <hwy/highway.h>

#include "kernels/cpu/machine/simd-inl.h"
#include "kernels/cpu/machine/simd_target.h"

#ifndef KVGATE_KERNELS_CPU_ATTENTION_LAYOUT_
#define KVGATE_KERNELS_CPU_ATTENTION_LAYOUT_
namespace kvgate::kernels::cpu {

// Maximum rows that one pass over a tile serves from registers.
inline constexpr int kGroupRowsMax = 6;

// head_dim rounded up so that, on every target, a row of V or of the output is a whole number of
// vector pairs.
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
  TileMass* mass;  // [kAttentionRowsMax], of the current tile; null if not requested
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

namespace hn = hwy::HWY_NAMESPACE;
namespace simd = machine::HWY_NAMESPACE;

using simd::DF;
using simd::kLanes;
using simd::VF;
using simd::VI32;

constexpr int kTileVectors = static_cast<int>(kKvBlockTokens / kLanes);
// This is below every score, and small enough in magnitude that differences stay finite.
constexpr float kNoMaximum = -1e38f;

template <typename T>
HWY_INLINE void ExpandRow(const T* from, int count, float* to) {
  int i = 0;
  for (; i + 2 * static_cast<int>(kLanes) <= count; i += 2 * kLanes) {
    VF low, high;
    simd::LoadPairAsF32(from + i, &low, &high);
    hn::StoreU(low, DF(), to + i);
    hn::StoreU(high, DF(), to + i + kLanes);
  }
  if (i + static_cast<int>(kLanes) <= count) {
    hn::StoreU(simd::LoadAsF32(from + i), DF(), to + i);
    i += kLanes;
  }
  if (i < count) {  // a padded copy, so that every element takes the same path
    T rest[kLanes] = {};
    HWY_ALIGN float expanded[kLanes];
    std::memcpy(rest, from + i, (count - i) * sizeof(T));
    hn::Store(simd::LoadAsF32(rest), DF(), expanded);
    std::memcpy(to + i, expanded, (count - i) * sizeof(float));
  }
}

// Converts one tile: all of K (columns are lanes), and V for the tokens that exist. V's padding was
// zeroed when the part began.
template <typename T>
void ExpandTile(const std::byte* kv, int head_dim, int num_tokens, const AttentionScratch& to) {
  const int padded = PaddedHeadDim(head_dim);
  const T* k = reinterpret_cast<const T*>(kv);
  const T* v = k + head_dim * kKvBlockTokens;
  for (int i = 0; i < head_dim * kKvBlockTokens; i += 2 * kLanes) {
    VF low, high;
    simd::LoadPairAsF32(k + i, &low, &high);
    hn::Store(low, DF(), to.k + i);
    hn::Store(high, DF(), to.k + i + kLanes);
  }
  for (int t = 0; t < num_tokens; ++t) ExpandRow(v + t * head_dim, head_dim, to.v + t * padded);
}

// Converts the scales of one group's 32 tokens to f32.
HWY_INLINE void ExpandScales(const std::byte* from, float* scales) {
  for (int t = 0; t < kKvBlockTokens; t += kLanes) {
    hn::Store(simd::LoadAsF32(reinterpret_cast<const simd::F16*>(from) + t), DF(), scales + t);
  }
}

// Stores kLanes int8 quants times the scale; exact, because the product fits an f32.
HWY_INLINE void StoreQuants(const int8_t* quants, VF scale, float* to) {
  const hn::Rebind<int8_t, DF> d8;
  const VI32 integers = hn::PromoteTo(simd::DI32(), hn::LoadU(d8, quants));
  hn::Store(hn::Mul(scale, hn::ConvertTo(DF(), integers)), DF(), to);
}

// The same for nibbles: the low halves go to `low`, the high halves to `high`.
HWY_INLINE void StoreNibbles(const uint8_t* nibbles, VF scale, float* low, float* high) {
  const hn::Rebind<uint8_t, DF> d8;
  const simd::DI32 di;
  const VI32 bytes = hn::PromoteTo(di, hn::LoadU(d8, nibbles));
  const VI32 eight = hn::Set(di, 8);
  const VI32 low_quants = hn::Sub(hn::And(bytes, hn::Set(di, 15)), eight);
  const VI32 high_quants = hn::Sub(hn::ShiftRight<4>(bytes), eight);
  hn::Store(hn::Mul(scale, hn::ConvertTo(DF(), low_quants)), DF(), low);
  hn::Store(hn::Mul(scale, hn::ConvertTo(DF(), high_quants)), DF(), high);
}

// As ExpandTile, for a quantized dtype, by groups of 32 dimensions. head_dim is a multiple of 32,
// so rows of V have no padding.
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

// The tokens of a tile that one row sees; empty if end <= begin.
struct SeenTokens {
  int begin;
  int end;
  bool all() const { return begin == 0 && end == kKvBlockTokens; }
};

// Returns the mask of the visible lanes of vector v of a tile.
HWY_INLINE hn::Mask<DF> SeenLanes(SeenTokens seen, int v) {
  const DF df;
  constexpr int kLanesOf = static_cast<int>(kLanes);
  const auto before_end = hn::FirstN(df, std::clamp(seen.end - v * kLanesOf, 0, kLanesOf));
  if (seen.begin == 0) return before_end;
  const auto unseen = hn::FirstN(df, std::clamp(seen.begin - v * kLanesOf, 0, kLanesOf));
  return hn::AndNot(unseen, before_end);
}

void SoftCapScores(float cap, int num_rows, float* scores) {
  for (int i = 0; i < num_rows * kKvBlockTokens; i += kLanes) {
    hn::Store(simd::SoftCap(cap, hn::Load(DF(), scores + i)), DF(), scores + i);
  }
}

// Turns one row's scores into weights p, 0 for tokens that it does not see. Returns c, the factor
// for the previous sums.
HWY_INLINE float SoftmaxRow(float* scores, SeenTokens seen, float* maximum, float* sum) {
  const DF df;
  VF values[kTileVectors];
  VF largest = hn::Set(df, *maximum);
  KVGATE_UNROLL
  for (int v = 0; v < kTileVectors; ++v) {
    values[v] = hn::Load(df, scores + v * kLanes);
    if (!seen.all()) {
      values[v] = hn::IfThenElse(SeenLanes(seen, v), values[v], hn::Set(df, kNoMaximum));
    }
    largest = hn::Max(largest, values[v]);
  }
  largest = hn::MaxOfLanes(df, largest);
  hn::Vec<simd::DSum> total = hn::Zero(simd::DSum());
  KVGATE_UNROLL
  for (int v = 0; v < kTileVectors; ++v) {
    VF weight = simd::Exp(hn::Sub(values[v], largest));
    if (!seen.all()) weight = hn::IfThenElseZero(SeenLanes(seen, v), weight);
    hn::Store(weight, df, scores + v * kLanes);
    total = simd::AddToSum(total, weight);
  }
  const VF scale = simd::Exp(hn::Sub(hn::Set(df, *maximum), largest));
  const VF carried = hn::Mul(hn::Set(df, *sum), scale);
  *sum = hn::GetLane(carried) + hn::GetLane(hn::SumOfLanes(simd::DSum(), total));
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

// Adds the values that each row sees. `begin` and `end` do not decrease from row to row.
template <int kRows>
void AddSeenValues(const AttentionScratch& s, int padded, const SeenTokens* seen,
                   const float* scales, float* out) {
  // If windows begin inside the tile, rows of different tokens see different parts of it.
  if (seen[kRows - 1].begin != seen[0].begin) {
    for (int r = 0; r < kRows; ++r) {
      AddValues<1>(s.scores + r * kKvBlockTokens, s.v, padded, seen[r].begin, seen[r].end,
                   scales + r, out + r * padded);
    }
    return;
  }
  AddValues<kRows>(s.scores, s.v, padded, seen[0].begin, seen[0].end, scales, out);
  // In the last tile, rows of the group may see different numbers of tokens.
  constexpr float kOne = 1.0f;
  for (int r = 1; r < kRows; ++r) {
    if (seen[r].end == seen[0].end) continue;
    AddValues<1>(s.scores + r * kKvBlockTokens, s.v, padded, seen[0].end, seen[r].end, &kOne,
                 out + r * padded);
  }
}

// Processes one tile for one group of rows.
template <int kRows>
void AttendGroup(const AttentionPart& part, const AttentionScratch& s, int first_row,
                 const SeenTokens* seen) {
  const int padded = PaddedHeadDim(part.head_dim);
  float scales[kRows];
  ScoreTile<kRows>(s.q + first_row * part.head_dim, s.k, part.head_dim, s.scores);
  if (part.shape.softcap > 0) SoftCapScores(part.shape.softcap, kRows, s.scores);
  for (int r = 0; r < kRows; ++r) {
    scales[r] = SoftmaxRow(s.scores + r * kKvBlockTokens, seen[r], s.maximum + first_row + r,
                           s.sum + first_row + r);
  }
  if (s.mass != nullptr) {
    for (int r = 0; r < kRows; ++r) {
      const float* weights = s.scores + r * kKvBlockTokens;
      s.mass[first_row + r] = {.sum = std::accumulate(weights, weights + seen[r].end, 0.0f),
                               .maximum = s.maximum[first_row + r]};
    }
  }
  AddSeenValues<kRows>(s, padded, seen, scales, s.out + first_row * padded);
}

void AttendGroupOf(int rows, const AttentionPart& part, const AttentionScratch& s, int first_row,
                   const SeenTokens* seen) {
  switch (rows) {
    case 1:
      return AttendGroup<1>(part, s, first_row, seen);
    case 2:
      return AttendGroup<2>(part, s, first_row, seen);
    case 3:
      return AttendGroup<3>(part, s, first_row, seen);
    case 4:
      return AttendGroup<4>(part, s, first_row, seen);
    case 5:
      return AttendGroup<5>(part, s, first_row, seen);
    default:
      return AttendGroup<kGroupRowsMax>(part, s, first_row, seen);
  }
}

// Returns the first row of a group if num_rows rows are split into num_groups as evenly as
// possible.
int GroupBegin(int group, int num_groups, int num_rows) { return group * num_rows / num_groups; }

const float* RowOfQ(const AttentionPart& part, int row) {
  return part.q + static_cast<ptrdiff_t>(row / part.num_heads_here) * part.row_stride +
         (part.head_begin + row % part.num_heads_here) * part.head_dim;
}

// Scales and transposes q by groups, and initialises the running state with the sinks, if any.
void BeginRows(const AttentionPart& part, int num_rows, int num_groups, const AttentionScratch& s) {
  const int padded = PaddedHeadDim(part.head_dim);
  for (int group = 0; group < num_groups; ++group) {
    const int begin = GroupBegin(group, num_groups, num_rows);
    const int rows = GroupBegin(group + 1, num_groups, num_rows) - begin;
    for (int r = 0; r < rows; ++r) {
      const float* from = RowOfQ(part, begin + r);
      float* to = s.q + begin * part.head_dim + r;
      for (int d = 0; d < part.head_dim; ++d) to[d * rows] = from[d] * part.shape.scale;
    }
  }
  std::fill_n(s.out, num_rows * padded, 0.0f);
  for (int row = 0; row < num_rows; ++row) {
    const float* sinks = part.shape.sinks;
    s.maximum[row] =
        sinks == nullptr ? kNoMaximum : sinks[part.head_begin + row % part.num_heads_here];
    s.sum[row] = sinks == nullptr ? 0.0f : 1.0f;
  }
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

// Adds the mass of all rows on each tile of [first_tile, last_tile]. Atomic, because other threads
// add to the same blocks.
void AddBlockMass(const AttentionPart& part, int num_rows, int first_tile, int last_tile,
                  const AttentionScratch& s) {
  for (int tile = first_tile; tile <= last_tile; ++tile) {
    const TileMass* mass = part.tile_mass + static_cast<ptrdiff_t>(tile) * kAttentionRowsMax;
    uint64_t units = 0;
    for (int row = 0; row < num_rows; ++row) {
      const double share = mass[row].sum / static_cast<double>(s.sum[row]) *
                           std::exp(static_cast<double>(mass[row].maximum) - s.maximum[row]);
      // The comparison is false for NaN.
      if (share >= 0) units += static_cast<uint64_t>(share * kAttentionMassOne + 0.5);
    }
    std::atomic_ref(part.block_mass[tile]).fetch_add(units, std::memory_order_relaxed);
  }
}

// Returns the first position visible to the row at `position`.
int WindowBegin(const AttentionPart& part, int position) {
  return part.shape.window == 0 ? 0 : std::max(0, position - part.shape.window + 1);
}

// Returns the part of the tile starting at tile_begin that is visible to the row at `position`.
SeenTokens SeenOfTile(const AttentionPart& part, int position, int tile_begin) {
  return {.begin = std::clamp(WindowBegin(part, position) - tile_begin, 0, kKvBlockTokens),
          .end = std::min(position - tile_begin + 1, kKvBlockTokens)};
}

void ExpandTileOf(DType dtype, const std::byte* kv, int head_dim, int num_tokens,
                  const AttentionScratch& s) {
  switch (dtype) {
    case DType::kF32:
      return ExpandTile<float>(kv, head_dim, num_tokens, s);
    case DType::kBF16:
      return ExpandTile<simd::BF16>(kv, head_dim, num_tokens, s);
    case DType::kF16:
      return ExpandTile<simd::F16>(kv, head_dim, num_tokens, s);
    case DType::kF8E4M3:
      return ExpandTile<simd::F8E4M3>(kv, head_dim, num_tokens, s);
    case DType::kQ8_0:
      return ExpandQuantTile<QuantBlockQ8_0>(kv, head_dim, num_tokens, s);
    case DType::kQ4_0:
      return ExpandQuantTile<QuantBlockQ4_0>(kv, head_dim, num_tokens, s);
    default:
      KVGATE_DCHECK(false, "not a KV dtype");
  }
}

void Attend(const AttentionPart& part) {
  AttentionScratch s = CutScratch(part.scratch, part.head_dim);
  const int num_rows = part.num_tokens * part.num_heads_here;
  const int num_groups = (num_rows + kGroupRowsMax - 1) / kGroupRowsMax;
  const int last_position = part.first_position + part.num_tokens - 1;
  const int first_tile = WindowBegin(part, part.first_position) / kKvBlockTokens;
  const int last_tile = last_position / kKvBlockTokens;
  KVGATE_DCHECK(num_rows <= kAttentionRowsMax, "rows of an attention part");
  KVGATE_DCHECK(part.first_position / kKvBlockTokens == last_tile, "rows end in one KV block");
  BeginRows(part, num_rows, num_groups, s);
  for (int tile = first_tile; tile <= last_tile; ++tile) {
    const std::byte* kv = part.arena->block(part.block_table[tile]) + part.block_offset;
    const int tile_begin = tile * kKvBlockTokens;
    if (part.block_mass != nullptr) {
      s.mass = part.tile_mass + static_cast<ptrdiff_t>(tile) * kAttentionRowsMax;
    }
    ExpandTileOf(part.dtype, kv, part.head_dim,
                 std::min(last_position - tile_begin + 1, kKvBlockTokens), s);
    for (int group = 0; group < num_groups; ++group) {
      const int begin = GroupBegin(group, num_groups, num_rows);
      const int rows = GroupBegin(group + 1, num_groups, num_rows) - begin;
      SeenTokens seen[kGroupRowsMax];
      for (int r = 0; r < rows; ++r) {
        const int position = part.first_position + (begin + r) / part.num_heads_here;
        seen[r] = SeenOfTile(part, position, tile_begin);
      }
      AttendGroupOf(rows, part, s, begin, seen);
    }
  }
  EndRows(part, num_rows, s);
  if (part.block_mass != nullptr) AddBlockMass(part, num_rows, first_tile, last_tile, s);
}

AttentionKernels MakeAttentionKernels() { return {.attend = Attend}; }

}  // namespace HWY_NAMESPACE
}  // namespace kvgate::kernels::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace kvgate::kernels::cpu {

HWY_EXPORT(MakeAttentionKernels);

AttentionKernels AttentionKernelsFor(int64_t target) {
  const machine::ScopedTarget scoped(target);
  return HWY_DYNAMIC_DISPATCH(MakeAttentionKernels)();
}

size_t AttentionScratchFloats(int head_dim) {
  const size_t padded = static_cast<size_t>(PaddedHeadDim(head_dim));
  return 2 * padded * kKvBlockTokens + 2 * padded * kAttentionRowsMax + 8 * kKvBlockTokens +
         2 * kAttentionRowsMax;
}

}  // namespace kvgate::kernels::cpu
#endif  // HWY_ONCE
