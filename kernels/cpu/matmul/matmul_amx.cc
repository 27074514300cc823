#include "kernels/cpu/matmul/matmul_amx.h"

#include <algorithm>

#include "base/check.h"
#include "kernels/quant_parts.h"

static_assert(kvgate::kernels::cpu::matmul::kAmxUnitsAtOnce *
                  kvgate::kernels::cpu::matmul::kAmxUnitColumns ==
              kvgate::kernels::cpu::matmul::kQuantColumnBlock);

#if defined(__x86_64__) && defined(__GNUC__)

#include <immintrin.h>

// The code and headers above are compiled for every machine, because functions that this file
// instantiates from headers may serve the whole program.
#ifdef __clang__
#pragma clang attribute push(                                                            \
    __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,fma,amx-tile,amx-int8"))), \
    apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx512f,avx512bw,avx512dq,avx512vl,fma,amx-tile,amx-int8")
#endif

namespace kvgate::kernels::cpu::matmul {
namespace {

// Registers 0 and 1, or 2 and 3, hold the sums of `high` and `low`; 4 and 5 hold rows, 6 weights.
struct alignas(64) TileConfig {
  uint8_t palette = 1;
  uint8_t start_row = 0;
  uint8_t reserved[14] = {};
  uint16_t row_bytes[16] = {};
  uint8_t rows[16] = {};
};

constexpr int kAmxTileBytes = 64;  // per row of a full tile

constexpr TileConfig ConfigFor(int group_columns, int num_registers = 7) {
  TileConfig config;
  for (int sums = 0; sums < 4; ++sums) {
    config.row_bytes[sums] = kAmxOutputs * sizeof(int32_t);
    config.rows[sums] = kAmxRows;
  }
  for (int operand = 4; operand < 6; ++operand) {
    config.row_bytes[operand] = static_cast<uint16_t>(group_columns);
    config.rows[operand] = kAmxRows;
  }
  for (int weights = 6; weights < num_registers; ++weights) {
    config.row_bytes[weights] = kAmxOutputs * 4;
    config.rows[weights] = static_cast<uint8_t>(group_columns / 4);
  }
  return config;
}

// One configuration per group size. They are constants in memory because the intrinsic declares
// that it reads only eight of their bytes.
constexpr TileConfig kConfigOf32 = ConfigFor(32);
constexpr TileConfig kConfigOf16 = ConfigFor(16);

// With 512 rows, 8 panels use 640 KiB of x and 512 KiB of y, which fit the 2 MiB of L2 that every
// processor with AMX tiles has.
constexpr int64_t kPanelsAtOnce = 8;

struct Sums {
  int32_t high[kAmxRows][kAmxOutputs];
  int32_t low[kAmxRows][kAmxOutputs];
};

// The tile work of one group, in pieces that are interleaved with the vector work of another group.
template <int kGroups>
struct Group {
  const AmxRows* unit;
  const int8_t* codes;
  int offset;  // of its columns in the unit

  const int8_t* high() const { return &unit->high[0][offset]; }
  const uint8_t* low() const { return &unit->low[0][offset]; }
};

template <int kGroups>
[[gnu::always_inline]] inline Group<kGroups> GroupAt(const AmxRows* x, const AmxWeights& w,
                                                     int64_t g) {
  constexpr int kColumns = kAmxUnitColumns / kGroups;
  return {.unit = x + g / kGroups,
          .codes = &w.codes[0][0][0][0] + g * kColumns * kAmxOutputs,
          .offset = static_cast<int>(g % kGroups) * kColumns};
}

template <int kSet, int kGroups>
[[gnu::always_inline]] inline void MultiplyHigh(const Group<kGroups>& group) {
  _tile_loadd(6, group.codes, 64);
  _tile_loadd(4, group.high(), kAmxUnitColumns);
  if constexpr (kSet == 0) {
    _tile_zero(0);
    _tile_dpbssd(0, 4, 6);
  } else {
    _tile_zero(2);
    _tile_dpbssd(2, 4, 6);
  }
}

template <int kSet, int kGroups>
[[gnu::always_inline]] inline void MultiplyLow(const Group<kGroups>& group) {
  _tile_loadd(5, group.low(), kAmxUnitColumns);
  if constexpr (kSet == 0) {
    _tile_zero(1);
    _tile_dpbusd(1, 5, 6);
  } else {
    _tile_zero(3);
    _tile_dpbusd(3, 5, 6);
  }
}

template <int kSet>
[[gnu::always_inline]] inline void StoreHigh(Sums* to) {
  if constexpr (kSet == 0) {
    _tile_stored(0, to->high, 64);
  } else {
    _tile_stored(2, to->high, 64);
  }
}

template <int kSet>
[[gnu::always_inline]] inline void StoreLow(Sums* to) {
  if constexpr (kSet == 0) {
    _tile_stored(1, to->low, 64);
  } else {
    _tile_stored(3, to->low, 64);
  }
}

// One tile of rows times 16 outputs, over up to 512 columns.
struct Pass {
  const AmxRows* x;
  const AmxRows* next_x;  // of the next pass with these weights; x if there is none
  const AmxWeights* weights;
  int64_t num_groups;
  Sums* sums;         // two buffers
  const char* ahead;  // address of the weights to prefetch, lines_ahead lines per two groups
  int64_t lines_ahead;
};

// Does the vector work of group g, whose sums are in buffer kSet, while the tiles of group g + 2
// are multiplied and those of group g + 1 stored. A tile's sums are ready about 50 cycles after its
// product starts, and tile instructions are executed in order, so storing them at once would delay
// the next product. After the last group, the first groups of the next pass follow.
template <int kSet, int kGroups, bool kHasMin>
[[gnu::always_inline]] inline void AddGroupSums(const Pass& pass, int64_t g,
                                                __m512 (&totals)[kAmxRows]) {
  constexpr int kNext = 1 - kSet;
  const bool is_here = g + 2 < pass.num_groups;
  const Group<kGroups> group =
      GroupAt<kGroups>(is_here ? pass.x : pass.next_x, *pass.weights, is_here ? g + 2 : kSet);
  const Sums& sums = pass.sums[kSet];
  const AmxRows& unit = pass.x[g / kGroups];
  const float* min_totals = unit.totals[kGroups == 1 ? 0 : 1 + g % kGroups];
  const __m512 scale = _mm512_load_ps(pass.weights->scales[g]);
  const __m512 min = kHasMin ? _mm512_load_ps(pass.weights->mins[g]) : _mm512_setzero_ps();
  MultiplyHigh<kSet>(group);
#pragma GCC unroll 16
  for (int r = 0; r < kAmxRows; ++r) {
    if (r == 2) MultiplyLow<kSet>(group);
    if (r == 4) StoreHigh<kNext>(&pass.sums[kNext]);
    if (r == 10) StoreLow<kNext>(&pass.sums[kNext]);
    const __m512i high = _mm512_slli_epi32(_mm512_load_si512(sums.high[r]), 8);
    const __m512i products = _mm512_add_epi32(high, _mm512_load_si512(sums.low[r]));
    const __m512 factor = _mm512_mul_ps(scale, _mm512_set1_ps(unit.scales[r]));
    totals[r] = _mm512_fmadd_ps(_mm512_cvtepi32_ps(products), factor, totals[r]);
    if constexpr (kHasMin) {
      totals[r] = _mm512_fmadd_ps(min, _mm512_set1_ps(min_totals[r]), totals[r]);
    }
  }
}

// The destination of a tile's totals; as TileOutput of matmul_tiles-inl.h.
struct Output {
  float* y;
  int64_t stride;
  __mmask16 columns;
  int rows;
  const float* bias;
  bool accumulate;
  bool first_block;
};

[[gnu::always_inline]] inline void AddToOutput(const __m512 (&totals)[kAmxRows],
                                               const Output& out) {
  __m512 bias = _mm512_setzero_ps();
  if (out.first_block && out.bias != nullptr) bias = _mm512_maskz_loadu_ps(out.columns, out.bias);
  const bool adds = !out.first_block || out.accumulate;
#pragma GCC unroll 16
  for (int r = 0; r < kAmxRows; ++r) {
    if (r >= out.rows) break;
    float* y = out.y + r * out.stride;
    __m512 base = bias;
    if (adds) {
      const __m512 old = _mm512_maskz_loadu_ps(out.columns, y);
      base = out.first_block ? _mm512_add_ps(bias, old) : old;
    }
    _mm512_mask_storeu_ps(y, out.columns, _mm512_add_ps(base, totals[r]));
  }
}

// Establishes the state in which a pass starts: its first two groups are multiplied, and the sums
// of the first are stored.
template <int kGroups>
void BeginPass(const AmxRows* x, const AmxWeights& weights, int64_t num_groups, Sums* sums) {
  const Group<kGroups> first = GroupAt<kGroups>(x, weights, 0);
  const Group<kGroups> second = GroupAt<kGroups>(x, weights, std::min<int64_t>(1, num_groups - 1));
  MultiplyHigh<0>(first);
  MultiplyLow<0>(first);
  MultiplyHigh<1>(second);
  MultiplyLow<1>(second);
  StoreHigh<0>(sums);
  StoreLow<0>(sums);
}

template <int kGroups, bool kHasMin>
[[gnu::always_inline]] inline void MultiplyTile(const Pass& pass, const Output& out) {
  __m512 totals[kAmxRows];
#pragma GCC unroll 16
  for (int r = 0; r < kAmxRows; ++r) totals[r] = _mm512_setzero_ps();
  for (int r = 0; r < out.rows; ++r) __builtin_prefetch(out.y + r * out.stride, 1, 3);
  const char* ahead = pass.ahead;
  int64_t g = 0;
  for (; g + 2 <= pass.num_groups; g += 2) {
    for (int64_t line = 0; line < pass.lines_ahead; ++line, ahead += 64) {
      __builtin_prefetch(ahead, 0, 2);
    }
    AddGroupSums<0, kGroups, kHasMin>(pass, g, totals);
    AddGroupSums<1, kGroups, kHasMin>(pass, g + 1, totals);
  }
  if (g < pass.num_groups) AddGroupSums<0, kGroups, kHasMin>(pass, g, totals);
  AddToOutput(totals, out);
}

void Expand(const AmxPart& part, int64_t panel, int64_t first_unit, int64_t num_units, int64_t lane,
            AmxWeights* to) {
  const std::byte* from = part.weight->panel(panel);
  if (part.weight->dtype() == DType::kQ8_0) {
    part.quant_kernels.expand(from, first_unit, num_units, lane, to);
  } else {
    part.plane_kernels.expand(part.weight->dtype(), from, first_unit, num_units, lane, to);
  }
}

// Columns [k, k + count) of a panel.
struct Block {
  int64_t panel;
  int64_t k;
  int64_t count;
};

// Prefetches the weights of the next panel for a block's columns in small steps while the current
// panel is multiplied.
struct Ahead {
  const char* from = nullptr;
  const char* end = nullptr;
  int64_t lines = 0;  // per two groups

  // Returns the address from which a pass of num_groups groups prefetches.
  const char* Next(int64_t num_groups) {
    const char* here = from;
    from += num_groups / 2 * lines * 64;
    if (from >= end) lines = 0;
    return here;
  }
};

Ahead AheadOf(const AmxPart& part, const Block& block, int64_t num_passes, int64_t num_groups) {
  if (block.panel + 1 >= part.panel_end) return {};
  const auto panel_bytes = static_cast<int64_t>(part.weight->panel_bytes());
  const int64_t bytes = panel_bytes * block.count / part.weight->columns();
  const int64_t asks = num_passes * std::max<int64_t>(1, num_groups / 2);
  const auto* from = reinterpret_cast<const char*>(part.weight->panel(block.panel + 1)) +
                     panel_bytes * block.k / part.weight->columns();
  return {.from = from, .end = from + bytes, .lines = (bytes / 64 + asks) / asks};
}

// Multiplies one block with all tiles of rows, 16 outputs at a time.
template <int kGroups, bool kHasMin>
void MultiplyBlock(const AmxPart& part, const Block& block) {
  auto* weights = reinterpret_cast<AmxWeights*>(part.scratch);
  auto* sums = reinterpret_cast<Sums*>(part.scratch + sizeof(AmxWeights));
  const int64_t num_units = part.weight->columns() / kAmxUnitColumns;
  const int64_t first_unit = block.k / kAmxUnitColumns;
  const int64_t units_here = block.count / kAmxUnitColumns;
  const int64_t num_groups = units_here * kGroups;
  const int64_t stride = part.weight->rows();
  const int64_t tile_begin = part.row_begin / kAmxRows;
  const int64_t tile_end = (part.row_end + kAmxRows - 1) / kAmxRows;
  constexpr int kLanesPerPanel = kPanelRows / kAmxOutputs;
  Ahead ahead = AheadOf(part, block, kLanesPerPanel * (tile_end - tile_begin), num_groups);
  for (int64_t lane = 0; lane < kPanelRows; lane += kAmxOutputs) {
    const int64_t column = block.panel * kPanelRows + lane;
    if (column >= stride) break;
    const int64_t left = std::min<int64_t>(stride - column, kAmxOutputs);
    Expand(part, block.panel, first_unit, units_here, lane, weights);
    const AmxRows* x = part.x + tile_begin * num_units + first_unit;
    // With an odd number of groups, the sums of the next pass would be in the wrong buffers.
    const bool chains = num_groups % 2 == 0;
    for (int64_t tile = tile_begin; tile < tile_end; ++tile, x += num_units) {
      if (!chains || tile == tile_begin) BeginPass<kGroups>(x, *weights, num_groups, sums);
      const int64_t row = tile * kAmxRows;
      const int64_t lines = ahead.lines;
      MultiplyTile<kGroups, kHasMin>(
          {.x = x,
           .next_x = chains && tile + 1 < tile_end ? x + num_units : x,
           .weights = weights,
           .num_groups = num_groups,
           .sums = sums,
           .ahead = ahead.Next(num_groups),
           .lines_ahead = lines},
          {.y = part.y + row * stride + column,
           .stride = stride,
           .columns = static_cast<__mmask16>((1u << left) - 1),
           .rows = static_cast<int>(std::min<int64_t>(part.row_end - row, kAmxRows)),
           .bias = part.bias == nullptr ? nullptr : part.bias + column,
           .accumulate = part.accumulate,
           .first_block = block.k == 0});
    }
  }
}

template <int kGroups, bool kHasMin>
void MultiplyPart(const AmxPart& part) {
  if constexpr (kGroups == 1) {
    _tile_loadconfig(&kConfigOf32);
  } else {
    _tile_loadconfig(&kConfigOf16);
  }
  const int64_t columns = part.weight->columns();
  // A column block of x stays in L2 for several panels, and so does the corresponding part of y for
  // all column blocks.
  for (int64_t begin = part.panel_begin; begin < part.panel_end; begin += kPanelsAtOnce) {
    const int64_t end = std::min(begin + kPanelsAtOnce, part.panel_end);
    for (int64_t k = 0; k < columns; k += kQuantColumnBlock) {
      const int64_t count = std::min(kQuantColumnBlock, columns - k);
      for (int64_t panel = begin; panel < end; ++panel) {
        MultiplyBlock<kGroups, kHasMin>(part, {.panel = panel, .k = k, .count = count});
      }
    }
  }
  _tile_release();
}

// Four products at a time share two tiles of rows and two of weights, as for plain int8 matrices.
double RunTiles(int64_t rounds) {
  static constexpr TileConfig kFull = ConfigFor(kAmxTileBytes, 8);
  _tile_loadconfig(&kFull);
  _tile_zero(0);
  _tile_zero(1);
  _tile_zero(2);
  _tile_zero(3);
  _tile_zero(4);
  _tile_zero(5);
  _tile_zero(6);
  _tile_zero(7);
  for (int64_t round = 0; round < rounds; ++round) {
    _tile_dpbssd(0, 4, 6);
    _tile_dpbssd(1, 4, 7);
    _tile_dpbssd(2, 5, 6);
    _tile_dpbssd(3, 5, 7);
  }
  _tile_release();
  return static_cast<double>(rounds) * 4 * 2 * kAmxRows * kAmxOutputs * kAmxTileBytes;
}

}  // namespace
}  // namespace kvgate::kernels::cpu::matmul

#ifdef __clang__
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif

namespace kvgate::kernels::cpu::matmul {

double RunAmxTiles(int64_t rounds) { return RunTiles(rounds); }

void MultiplyAmx(const AmxPart& part) {
  const DType dtype = part.weight->dtype();
  if (dtype == DType::kQ8_0) return MultiplyPart<1, false>(part);
  const QuantLayout layout = QuantLayoutOf(dtype);
  const bool has_min = layout.min != QuantMin::kNone;
  if (layout.group == kAmxUnitColumns) {
    return has_min ? MultiplyPart<1, true>(part) : MultiplyPart<1, false>(part);
  }
  return has_min ? MultiplyPart<2, true>(part) : MultiplyPart<2, false>(part);
}

}  // namespace kvgate::kernels::cpu::matmul

#else

namespace kvgate::kernels::cpu::matmul {

double RunAmxTiles(int64_t) { return 0; }
void MultiplyAmx(const AmxPart&) { KVGATE_CHECK(false, "no AMX on this architecture"); }

}  // namespace kvgate::kernels::cpu::matmul

#endif
