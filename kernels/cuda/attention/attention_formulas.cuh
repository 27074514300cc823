// The arithmetic of attention for 16 rows of one warp, tile by tile. Rows whose splits are computed
// by different thread blocks and rows that process them in sequence use the same functions.
//
// Per row and tile, with exponents of 2:
//   s[t] = q * k[t], q in parts, the products of one k-step after the other, then the cap
//   m' = max(m, max s), c = 2^(m - m'), p[t] = 2^(s[t] - m')
//   l = l * c + sum p, each lane its own 8 tokens, the 4 lanes of a row added at a split's end
//   o = o * c + p * v, p in parts of 16 bits, the products of 16 tokens after the other
// A split starts with m = -inf, l = 0, o = 0. Join joins the splits in order. For a token that a
// row does not see, p is set to 0. A tile of which a row sees nothing leaves its m, l and o
// unchanged. Non-finite values of V that a row does not see are replaced by zero. The sign of a
// zero in o may depend on neighbouring rows; adding +0 at the end removes the difference.
// Source: online softmax, Milakov & Gimelshein 2018; tiles in shared memory, Dao 2023.
#pragma once

#include "kernels/cuda/attention/attention_types.h"
#include "kernels/cuda/device/device.cuh"

namespace kvgate::kernels::cuda::attention {

// How the KV of a dtype is used by the matrix instructions. For quantized KV, quants are small
// integers that are exact in both formats; the scales of K are applied after the products of their
// 32 dimensions, and those of V are multiplied into p. kIsUnpacked means that the stored bytes are
// converted to 16-bit values before use. That holds for quantized KV and for E4M3, whose values are
// all f16 values.
struct HalfKv {
  static constexpr bool kIsBf16Key = false;
  static constexpr bool kIsBf16Value = false;
  static constexpr bool kIsQuantized = false;
  static constexpr bool kIsUnpacked = false;
  static constexpr int kQueryParts = 2;  // 22 bits
  static constexpr int kProbabilityParts = 2;
};
struct E4m3Kv : HalfKv {
  static constexpr bool kIsUnpacked = true;
};
struct Bf16Kv {
  static constexpr bool kIsBf16Key = true;
  static constexpr bool kIsBf16Value = true;
  static constexpr bool kIsQuantized = false;
  static constexpr bool kIsUnpacked = false;
  static constexpr int kQueryParts = 3;  // 24 bits
  static constexpr int kProbabilityParts = 2;
};
struct QuantKv {
  static constexpr bool kIsBf16Key = false;
  static constexpr bool kIsBf16Value = true;  // p times a scale needs the range of f32
  static constexpr bool kIsQuantized = true;
  static constexpr bool kIsUnpacked = true;
  static constexpr int kQueryParts = 2;
  static constexpr int kProbabilityParts = 2;
};

inline constexpr int kQuantGroup = 32;
inline constexpr float kLog2E = 1.44269504f;

// A tile of 32 tokens in shared memory, with rows of kD 16-bit values. A row takes an odd number of
// 16-byte units, so that eight consecutive rows start in different banks.
constexpr int TileRowBytes(int dims) { return (dims / 8 + 1) * 16; }

struct TileView {
  const std::byte* keys;
  const std::byte* values;
  const float* key_scales;    // [groups][32] if quantized
  const float* value_scales;  // likewise
};

// Four values of one lane: two columns each of rows g and g + 8.
struct alignas(16) LaneValues {
  float value[4];
};

KVGATE_DEVICE float NoMaximum() { return device::BitsToFloat(0xff800000u); }
KVGATE_DEVICE float LargerOf(float a, float b) { return fmaxf(a, b); }  // ignores NaN
KVGATE_DEVICE int ClampSlot(int slot) { return slot < 0 ? 0 : slot > 32 ? 32 : slot; }

// The tokens [begin, end) of a tile that are seen.
struct SeenSlots {
  int begin;
  int end;
  KVGATE_DEVICE bool has(int slot) const { return slot >= begin && slot < end; }
};

// The rows of a warp, and this lane's rows among them: g and g + 8.
struct LaneRows {
  int position[2];  // of their tokens; rows past the last one use its position
  bool is_row[2];
  int token[2];        // index in the sequence
  int head[2];         // query head
  int first_position;  // of the warp's first row; positions do not decrease
  int last_position;
  int window;

  KVGATE_DEVICE int window_begin(int at) const {
    return window == 0 || at < window ? 0 : at - window + 1;
  }
  KVGATE_DEVICE SeenSlots SeenAt(int at, int tile_begin) const {
    return {ClampSlot(window_begin(at) - tile_begin), ClampSlot(at + 1 - tile_begin)};
  }
};

// REQUIRES: the item contains the row `warp_row_begin`.
KVGATE_DEVICE LaneRows RowsOfLane(const AttentionArgument& argument, const AttentionItem& item,
                                  int kv_head, int warp_row_begin) {
  const int group = argument.group();
  const int num_rows = item.num_tokens * group;
  LaneRows rows;
  rows.window = argument.window;
  rows.first_position = item.first_position + warp_row_begin / group;
  const int last =
      warp_row_begin + kWarpRows < num_rows ? warp_row_begin + kWarpRows - 1 : num_rows - 1;
  rows.last_position = item.first_position + last / group;
  KVGATE_UNROLL
  for (int i = 0; i < 2; ++i) {
    const int row = warp_row_begin + device::LaneIndex() / 4 + 8 * i;
    rows.is_row[i] = row < num_rows;
    const int taken = rows.is_row[i] ? row : last;
    rows.token[i] = taken / group;
    rows.head[i] = kv_head * group + taken % group;
    rows.position[i] = item.first_position + rows.token[i];
  }
  return rows;
}

// --- 16-bit parts ------------------------------------------------------------------------------

template <bool kIsBf16>
KVGATE_DEVICE uint32_t PackPair(float low, float high) {
  if constexpr (kIsBf16) return device::FloatsToBf16x2(low, high);
  return device::FloatsToHalf2(low, high);
}

template <bool kIsBf16>
KVGATE_DEVICE float UnpackLow(uint32_t pair) {
  if constexpr (kIsBf16) return device::BitsToFloat(pair << 16);
  return device::HalfToFloat(static_cast<uint16_t>(pair));
}

template <bool kIsBf16>
KVGATE_DEVICE float UnpackHigh(uint32_t pair) {
  if constexpr (kIsBf16) return device::BitsToFloat(pair & 0xffff0000u);
  return device::HalfToFloat(static_cast<uint16_t>(pair >> 16));
}

template <bool kIsBf16>
KVGATE_DEVICE void Mma(float (&c)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
  if constexpr (kIsBf16) {
    device::MmaBf16(c, a, b);
  } else {
    device::MmaHalf(c, a, b);
  }
}

// Each part is the rest left by the parts before it, rounded to 16 bits, so the sum keeps all
// digits.
template <bool kIsBf16, int kParts>
KVGATE_DEVICE void SplitPair(float low, float high, uint32_t (&parts)[kParts]) {
  KVGATE_UNROLL
  for (int part = 0; part < kParts; ++part) {
    parts[part] = PackPair<kIsBf16>(low, high);
    low -= UnpackLow<kIsBf16>(parts[part]);
    high -= UnpackHigh<kIsBf16>(parts[part]);
  }
}

// --- queries -----------------------------------------------------------------------------------

// q of 16 rows in the layout of the matrix instruction: in registers or, if there are not enough,
// in shared memory, where each lane uses its own part.
template <typename Kv, int kD>
struct Query {
  static constexpr int kSteps = kD / 16;
  static constexpr bool kIsInShared = kD > 128;
  static constexpr int kSharedBytes =
      kIsInShared ? kSteps * Kv::kQueryParts * device::kWarpLanes * int{sizeof(device::Vector16)}
                  : 0;

  uint32_t parts[kIsInShared ? 1 : kSteps][Kv::kQueryParts][4];
  device::Vector16* shared;  // [kSteps][kQueryParts][32]
  float unit[2];             // factor for the scores of rows g, g + 8: a power of two

  KVGATE_DEVICE void Put(int step, int part, const uint32_t (&values)[4]) {
    if constexpr (kIsInShared) {
      device::Vector16& to =
          shared[(step * Kv::kQueryParts + part) * device::kWarpLanes + device::LaneIndex()];
      for (int i = 0; i < 4; ++i) to.word[i] = values[i];
    } else {
      for (int i = 0; i < 4; ++i) parts[step][part][i] = values[i];
    }
  }
  KVGATE_DEVICE void Get(int step, int part, uint32_t (&values)[4]) const {
    if constexpr (kIsInShared) {
      const device::Vector16 from =
          shared[(step * Kv::kQueryParts + part) * device::kWarpLanes + device::LaneIndex()];
      for (int i = 0; i < 4; ++i) values[i] = from.word[i];
    } else {
      for (int i = 0; i < 4; ++i) values[i] = parts[step][part][i];
    }
  }
};

// Returns element `dim` of a row of q times the factor; zero past the head.
KVGATE_DEVICE float QueryAt(const AttentionArgument& argument, const float* row, int dim) {
  return dim < argument.kv.head_dim ? row[dim] * argument.q_factor : 0.0f;
}

// Returns the power of two, as an f32 exponent field, that scales `largest` to [2^10, 2^11). In
// that range the second f16 part keeps its digits, and a product with the largest K is far below
// the f32 limit. The inverse is a normal number too.
KVGATE_DEVICE uint32_t UnitExponent(float largest) {
  const int exponent = static_cast<int>(device::FloatToBits(largest) >> 23 & 255);
  if (exponent == 255) return 127;  // a row that is not finite stays so
  const int up = 264 - exponent;
  return static_cast<uint32_t>(up > 252 ? 252 : up);
}

template <typename Kv, int kD>
KVGATE_DEVICE void LoadQuery(const AttentionArgument& argument, const AttentionItem& item,
                             const LaneRows& rows, Query<Kv, kD>& query) {
  const float* row[2];
  float up[2];
  const int column = device::LaneIndex() % 4 * 2;
  KVGATE_UNROLL
  for (int i = 0; i < 2; ++i) {
    row[i] =
        argument.q + (static_cast<ptrdiff_t>(item.first_row + rows.token[i]) * argument.num_heads +
                      rows.head[i]) *
                         argument.kv.head_dim;
    float largest = 0;
    for (int dim = column; dim < kD; dim += 8) {
      const float low = QueryAt(argument, row[i], dim);
      const float high = QueryAt(argument, row[i], dim + 1);
      largest = LargerOf(largest, LargerOf(fabsf(low), fabsf(high)));
    }
    largest = LargerOf(largest, device::ShuffleXor(largest, 1));
    largest = LargerOf(largest, device::ShuffleXor(largest, 2));
    const uint32_t exponent = UnitExponent(largest);
    up[i] = device::BitsToFloat(exponent << 23);
    query.unit[i] = device::BitsToFloat((254 - exponent) << 23);
  }
  KVGATE_UNROLL
  for (int step = 0; step < kD / 16; ++step) {
    uint32_t split[4][Kv::kQueryParts];
    KVGATE_UNROLL
    for (int i = 0; i < 4; ++i) {
      const int dim = step * 16 + i / 2 * 8 + column;
      SplitPair<Kv::kIsBf16Key>(QueryAt(argument, row[i % 2], dim) * up[i % 2],
                                QueryAt(argument, row[i % 2], dim + 1) * up[i % 2], split[i]);
    }
    KVGATE_UNROLL
    for (int part = 0; part < Kv::kQueryParts; ++part) {
      const uint32_t values[4] = {split[0][part], split[1][part], split[2][part], split[3][part]};
      query.Put(step, part, values);
    }
  }
}

// --- scores ------------------------------------------------------------------------------------

// Adds q * k for the 16 dimensions of one step and all 32 tokens to `sums`.
template <typename Kv, int kD>
KVGATE_DEVICE void AddScores(const Query<Kv, kD>& query, const std::byte* keys, int step,
                             float (&sums)[4][4]) {
  const int lane = device::LaneIndex();
  const std::byte* at =
      keys + (lane / 16 * 8 + lane % 8) * TileRowBytes(kD) + (2 * step + lane / 8 % 2) * 16;
  uint32_t pairs[2][4];
  device::LoadMatrices4(pairs[0], at);
  device::LoadMatrices4(pairs[1], at + 16 * TileRowBytes(kD));
  KVGATE_UNROLL
  for (int part = 0; part < Kv::kQueryParts; ++part) {
    uint32_t a[4];
    query.Get(step, part, a);
    KVGATE_UNROLL
    for (int tokens = 0; tokens < 4; ++tokens) {
      const uint32_t b[2] = {pairs[tokens / 2][tokens % 2 * 2],
                             pairs[tokens / 2][tokens % 2 * 2 + 1]};
      Mma<Kv::kIsBf16Key>(sums[tokens], a, b);
    }
  }
}

// Computes tanh to about 1e-7, with the same operations on the device and in the emulator.
KVGATE_DEVICE float Tanh(float x) {
  const float power = device::Exp2(-2.0f * kLog2E * fabsf(x));
  const float y = (1.0f - power) / (1.0f + power);
  return x < 0 ? -y : y;
}

// Computes the scores of one tile; multiplied by `unit` they are exponents of 2.
template <typename Kv, int kD>
KVGATE_DEVICE void ScoreTile(const Query<Kv, kD>& query, const TileView& tile, int head_dim,
                             float cap_log2, float (&scores)[4][4], float (&unit)[2]) {
  KVGATE_UNROLL
  for (int i = 0; i < 16; ++i) scores[i / 4][i % 4] = 0.0f;
  if constexpr (Kv::kIsQuantized) {
    KVGATE_UNROLL
    for (int group = 0; group < kD / kQuantGroup; ++group) {
      if (group * kQuantGroup >= head_dim) continue;
      float sums[4][4] = {};
      AddScores<Kv, kD>(query, tile.keys, 2 * group, sums);
      AddScores<Kv, kD>(query, tile.keys, 2 * group + 1, sums);
      const float* scales = tile.key_scales + group * 32 + device::LaneIndex() % 4 * 2;
      KVGATE_UNROLL
      for (int i = 0; i < 16; ++i) {
        scores[i / 4][i % 4] =
            device::Fma(sums[i / 4][i % 4], scales[i / 4 * 8 + i % 2], scores[i / 4][i % 4]);
      }
    }
  } else {
    KVGATE_UNROLL
    for (int step = 0; step < kD / 16; ++step) {
      AddScores<Kv, kD>(query, tile.keys, step, scores);
    }
  }
  unit[0] = query.unit[0];
  unit[1] = query.unit[1];
  if (cap_log2 == 0) return;
  KVGATE_UNROLL
  for (int i = 0; i < 16; ++i) {
    float& score = scores[i / 4][i % 4];
    score = cap_log2 * Tanh(score * query.unit[i % 4 / 2]);
  }
  unit[0] = unit[1] = 1.0f;
}

// --- softmax -----------------------------------------------------------------------------------

// The running state of a split for a lane's two rows.
template <int kD>
struct SplitState {
  float maximum[2];
  float sum[2];  // over this lane's columns
  float values[kD / 8][4];

  KVGATE_DEVICE void Begin() {
    maximum[0] = maximum[1] = NoMaximum();
    sum[0] = sum[1] = 0.0f;
    KVGATE_UNROLL
    for (int i = 0; i < kD / 8; ++i) {
      KVGATE_UNROLL
      for (int j = 0; j < 4; ++j) values[i][j] = 0.0f;
    }
  }
  // Adds the sums of the four lanes of a row, which then cover all columns.
  KVGATE_DEVICE void AddSums() {
    KVGATE_UNROLL
    for (int i = 0; i < 2; ++i) {
      sum[i] += device::ShuffleXor(sum[i], 1);
      sum[i] += device::ShuffleXor(sum[i], 2);
    }
  }
};

// Turns the scores of rows i = 0, 1 into weights and adds them to maximum and sum. `carried`
// receives the factor for the previous values.
template <bool kIsMasked>
KVGATE_DEVICE void WeighTile(float (&scores)[4][4], const float (&unit)[2],
                             const SeenSlots (&seen)[2], float (&maximum)[2], float (&sum)[2],
                             float (&carried)[2]) {
  const int column = device::LaneIndex() % 4 * 2;
  KVGATE_UNROLL
  for (int i = 0; i < 2; ++i) {
    float largest = NoMaximum();
    KVGATE_UNROLL
    for (int j = 0; j < 8; ++j) {
      const float score = scores[j / 2][2 * i + j % 2];
      const bool is_seen = !kIsMasked || seen[i].has(j / 2 * 8 + column + j % 2);
      largest = LargerOf(largest, is_seen ? score : NoMaximum());
    }
    largest = LargerOf(largest, device::ShuffleXor(largest, 1));
    largest = LargerOf(largest, device::ShuffleXor(largest, 2));
    const float risen = LargerOf(maximum[i], largest * unit[i]);
    const bool sees = !kIsMasked || seen[i].begin < seen[i].end;
    carried[i] = sees ? device::Exp2(maximum[i] - risen) : 1.0f;
    maximum[i] = risen;
    float pairs[4];
    KVGATE_UNROLL
    for (int j = 0; j < 8; ++j) {
      float& weight = scores[j / 2][2 * i + j % 2];
      weight = device::Exp2(device::Fma(weight, unit[i], -risen));
      if (kIsMasked && !seen[i].has(j / 2 * 8 + column + j % 2)) weight = 0.0f;
      if (j % 2 == 1) pairs[j / 2] = scores[j / 2][2 * i] + weight;
    }
    sum[i] = device::Fma(sum[i], carried[i], (pairs[0] + pairs[1]) + (pairs[2] + pairs[3]));
  }
}

// --- values ------------------------------------------------------------------------------------

// Makes the operand of the matrix instruction from the weights: [16 tokens each][part][register].
// If quantized, they are first multiplied with V's scales, which count as zero outside of `seen`.
template <typename Kv, bool kIsMasked>
KVGATE_DEVICE void MakeProbabilities(const float (&weights)[4][4], const float* scales,
                                     const SeenSlots& seen,
                                     uint32_t (&a)[2][Kv::kProbabilityParts][4]) {
  KVGATE_UNROLL
  for (int i = 0; i < 8; ++i) {  // 8 tokens, row g or g + 8
    const int tokens = i / 2;
    float low = weights[tokens][i % 2 * 2];
    float high = weights[tokens][i % 2 * 2 + 1];
    if constexpr (Kv::kIsQuantized) {
      const int slot = tokens * 8 + device::LaneIndex() % 4 * 2;
      low *= kIsMasked && !seen.has(slot) ? 0.0f : scales[slot];
      high *= kIsMasked && !seen.has(slot + 1) ? 0.0f : scales[slot + 1];
    }
    uint32_t parts[Kv::kProbabilityParts];
    SplitPair<Kv::kIsBf16Value>(low, high, parts);
    KVGATE_UNROLL
    for (int part = 0; part < Kv::kProbabilityParts; ++part) {
      a[tokens / 2][part][tokens % 2 * 2 + i % 2] = parts[part];
    }
  }
}

// values += weights * v. If masked, only for the rows selected by `takes`, with V zero outside of
// `seen`, and after multiplying the values with `carried`.
template <typename Kv, int kD, bool kIsMasked>
KVGATE_DEVICE void AddValues(const float (&weights)[4][4], const TileView& tile, int head_dim,
                             const SeenSlots& seen, const bool (&takes)[2],
                             const float (&carried)[2], float (&values)[kD / 8][4]) {
  const int lane = device::LaneIndex();
  uint32_t a[2][Kv::kProbabilityParts][4];
  uint32_t there[4];  // masks for V's pairs of tokens
  if constexpr (!Kv::kIsQuantized) MakeProbabilities<Kv, kIsMasked>(weights, nullptr, seen, a);
  if constexpr (kIsMasked) {
    KVGATE_UNROLL
    for (int i = 0; i < 4; ++i) {
      const int slot = i * 8 + lane % 4 * 2;
      there[i] = (seen.has(slot) ? 0xffffu : 0u) | (seen.has(slot + 1) ? 0xffff0000u : 0u);
    }
  }
  const std::byte* at = tile.values + lane * TileRowBytes(kD);
  KVGATE_UNROLL
  for (int dims = 0; dims < kD / 8; ++dims) {
    if constexpr (Kv::kIsQuantized) {
      if (dims * 8 >= head_dim) continue;
      if (dims % 4 == 0) {
        MakeProbabilities<Kv, kIsMasked>(weights, tile.value_scales + dims / 4 * 32, seen, a);
      }
    }
    uint32_t pairs[4];
    device::LoadMatrices4Transposed(pairs, at + dims * 16);
    float sums[4];
    KVGATE_UNROLL
    for (int i = 0; i < 4; ++i) {
      if constexpr (kIsMasked) pairs[i] &= there[i];
      sums[i] = kIsMasked ? values[dims][i] * carried[i / 2] : values[dims][i];
    }
    KVGATE_UNROLL
    for (int tokens = 0; tokens < 2; ++tokens) {
      const uint32_t b[2] = {pairs[2 * tokens], pairs[2 * tokens + 1]};
      KVGATE_UNROLL
      for (int part = 0; part < Kv::kProbabilityParts; ++part) {
        Mma<Kv::kIsBf16Value>(sums, a[tokens][part], b);
      }
    }
    KVGATE_UNROLL
    for (int i = 0; i < 4; ++i) {
      if (!kIsMasked || takes[i / 2]) values[dims][i] = sums[i];
    }
  }
}

// Returns true if V of a token that is in `some` but not in `all` contains a non-finite value.
template <typename Kv, int kD>
KVGATE_DEVICE bool HasNonFinite(const TileView& tile, int head_dim, const SeenSlots& some,
                                const SeenSlots& all) {
  const int slot = device::LaneIndex();
  bool found = false;
  if (some.has(slot) && !all.has(slot)) {
    if constexpr (Kv::kIsQuantized) {
      for (int group = 0; group * kQuantGroup < head_dim; ++group) {
        const uint32_t bits = device::FloatToBits(tile.value_scales[group * 32 + slot]);
        found |= (bits & 0x7f800000u) == 0x7f800000u;
      }
    } else {
      constexpr uint32_t kExponent = Kv::kIsBf16Value ? 0x7f80u : 0x7c00u;
      const auto* row =
          reinterpret_cast<const device::Vector16*>(tile.values + slot * TileRowBytes(kD));
      for (int i = 0; i < kD / 8; ++i) {
        const device::Vector16 eight = row[i];
        for (int j = 0; j < 4; ++j) {
          found |= (eight.word[j] & kExponent) == kExponent;
          found |= (eight.word[j] >> 16 & kExponent) == kExponent;
        }
      }
    }
  }
  return device::Ballot(found) != 0;
}

// Adds the tile that starts at position tile_begin to the split. Called by all lanes of the warp.
template <typename Kv, int kD>
KVGATE_DEVICE void AttendTile(const AttentionArgument& argument, const Query<Kv, kD>& query,
                              const LaneRows& rows, const TileView& tile, int tile_begin,
                              SplitState<kD>& state) {
  const SeenSlots first = rows.SeenAt(rows.first_position, tile_begin);
  const SeenSlots last = rows.SeenAt(rows.last_position, tile_begin);
  const SeenSlots some{first.begin, last.end};
  const SeenSlots all{last.begin, first.end};
  if (some.begin >= some.end) return;
  const int head_dim = argument.kv.head_dim;
  float scores[4][4];
  float unit[2];
  ScoreTile<Kv, kD>(query, tile, head_dim, argument.cap_log2, scores, unit);
  SeenSlots seen[2] = {rows.SeenAt(rows.position[0], tile_begin),
                       rows.SeenAt(rows.position[1], tile_begin)};
  float carried[2];
  if (all.begin == 0 && all.end == kKvBlockTokens) {
    WeighTile<false>(scores, unit, seen, state.maximum, state.sum, carried);
    if (device::Ballot(carried[0] != 1.0f || carried[1] != 1.0f) != 0) {
      KVGATE_UNROLL
      for (int dims = 0; dims < kD / 8; ++dims) {
        KVGATE_UNROLL
        for (int i = 0; i < 4; ++i) state.values[dims][i] *= carried[i / 2];
      }
    }
    constexpr bool kTakes[2] = {true, true};
    AddValues<Kv, kD, false>(scores, tile, head_dim, some, kTakes, carried, state.values);
    return;
  }
  WeighTile<true>(scores, unit, seen, state.maximum, state.sum, carried);
  const bool sees[2] = {seen[0].begin < seen[0].end, seen[1].begin < seen[1].end};
  // If V of a token that only some rows see is not finite, each token's rows are processed
  // separately, because it would make the other rows NaN.
  const bool is_exact = HasNonFinite<Kv, kD>(tile, head_dim, some, all);
  const int last_pass = is_exact ? rows.last_position : rows.first_position;
  KVGATE_NO_UNROLL
  for (int position = rows.first_position; position <= last_pass; ++position) {
    const bool takes[2] = {sees[0] && (!is_exact || rows.position[0] == position),
                           sees[1] && (!is_exact || rows.position[1] == position)};
    AddValues<Kv, kD, true>(scores, tile, head_dim,
                            is_exact ? rows.SeenAt(position, tile_begin) : some, takes, carried,
                            state.values);
  }
}

// --- splits ------------------------------------------------------------------------------------

// The softmax over the splits joined so far; it starts with the sink, if there is one.
struct Total {
  float maximum;
  float sum;

  static KVGATE_DEVICE Total Begin(const float* sinks, int head) {
    if (sinks == nullptr) return {NoMaximum(), 0.0f};
    return {sinks[head] * kLog2E, 1.0f};
  }
};

// Factors for values = values * old + (a split's values) * added.
struct JoinFactors {
  float old;
  float added;
};

// Returns the factors for joining a split when the total's maximum becomes `risen`. A split of
// which the row sees nothing has sum 0.
KVGATE_DEVICE JoinFactors FactorsOf(float old_maximum, float risen, float maximum, float sum) {
  if (sum == 0.0f) return {1.0f, 0.0f};
  return {device::Exp2(old_maximum - risen), device::Exp2(maximum - risen)};
}

KVGATE_DEVICE float Joined(float total, float split, const JoinFactors& factors) {
  return device::Fma(total, factors.old, split * factors.added);
}

KVGATE_DEVICE JoinFactors Join(Total& total, float maximum, float sum) {
  const float risen = sum == 0.0f ? total.maximum : LargerOf(total.maximum, maximum);
  const JoinFactors factors = FactorsOf(total.maximum, risen, maximum, sum);
  total.maximum = risen;
  total.sum = Joined(total.sum, sum, factors);
  return factors;
}

KVGATE_DEVICE float Finished(float value, float inverse) { return value * inverse + 0.0f; }

}  // namespace kvgate::kernels::cuda::attention
