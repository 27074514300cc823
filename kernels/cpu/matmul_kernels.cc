#include "kernels/cpu/matmul_kernels.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/matmul_kernels.cc"
#include <hwy/foreach_target.h>
// After foreach_target.
#include <algorithm>

#include <hwy/cache_control.h>
#include <hwy/highway.h>
#include <kvgate/check.h>

#include "kernels/cpu/simd-inl.h"
#include "kernels/cpu/simd_target.h"

HWY_BEFORE_NAMESPACE();
namespace kvgate::kernels::cpu {
namespace HWY_NAMESPACE {

// 16 vector registers hold a tile of 6 rows and 2 vectors beside its operands, 32 hold 12 and 2.
constexpr int kMaxTileRows = (HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_NEON) ? 12 : 6;
constexpr int kVectorsPerPanel = static_cast<int>(kPanelRows / kLanes);
static_assert(kVectorsPerPanel >= 2);
// Vectors per tile of `rows` rows, when the weights come straight from memory: a whole panel for
// few rows, so that it is read as one stream. That keeps up with memory (a line of f16 per four
// cycles), and the hardware follows it better alone than with two panels at once or with prefetches
// (87 % of the read bandwidth of a core against 75 %).
constexpr int VectorsFor(int rows) { return rows <= 3 ? std::min(kVectorsPerPanel, 4) : 2; }
using D16 = hn::Repartition<int16_t, DF>;
using V16 = hn::Vec<D16>;

// ---- output ---------------------------------------------------------------------------------

// Where the sums of one tile go.
struct TileOutput {
  float* y;           // first row, first column of the tile
  int64_t stride;     // columns of y
  int64_t columns;    // columns of y from here on; fewer than the tile's in the last panel
  const float* bias;  // at the tile's first column, or null
  bool accumulate;
  bool first_block;  // of the columns of x: y is not begun yet
};

TileOutput OutputAt(const MatMulPart& part, int first_row, int64_t first_column, int64_t k) {
  const int64_t stride = part.weight->rows();
  return {.y = part.y + first_row * stride + first_column,
          .stride = stride,
          .columns = stride - first_column,
          .bias = part.bias == nullptr ? nullptr : part.bias + first_column,
          .accumulate = part.accumulate,
          .first_block = k == 0};
}

template <int kRows, int kVectors>
HWY_INLINE void AddWholeTile(const VF (&sums)[kRows][kVectors], const TileOutput& out) {
  const DF df;
  KVGATE_UNROLL
  for (int r = 0; r < kRows; ++r) {
    KVGATE_UNROLL
    for (int v = 0; v < kVectors; ++v) {
      float* y = out.y + r * out.stride + v * kLanes;
      VF base = hn::Zero(df);
      if (!out.first_block) {
        base = hn::LoadU(df, y);
      } else {
        if (out.bias != nullptr) base = hn::LoadU(df, out.bias + v * kLanes);
        if (out.accumulate) base = hn::Add(base, hn::LoadU(df, y));
      }
      hn::StoreU(hn::Add(base, sums[r][v]), df, y);
    }
  }
}

// The same additions for a tile that reaches past the last column of y.
template <int kRows, int kVectors>
HWY_NOINLINE void AddPartTile(const VF (&sums)[kRows][kVectors], const TileOutput& out) {
  HWY_ALIGN float row[kVectors * kLanes];
  for (int r = 0; r < kRows; ++r) {
    for (int v = 0; v < kVectors; ++v) hn::Store(sums[r][v], DF(), row + v * kLanes);
    float* y = out.y + r * out.stride;
    for (int64_t column = 0; column < out.columns; ++column) {
      float base = 0.0f;
      if (!out.first_block) {
        base = y[column];
      } else {
        if (out.bias != nullptr) base = out.bias[column];
        if (out.accumulate) base += y[column];
      }
      y[column] = base + row[column];
    }
  }
}

template <int kRows, int kVectors>
HWY_INLINE void AddTile(const VF (&sums)[kRows][kVectors], const TileOutput& out) {
  if (out.columns <= 0) return;
  if (out.columns >= static_cast<int64_t>(kVectors * kLanes)) {
    AddWholeTile(sums, out);
  } else {
    AddPartTile(sums, out);
  }
}

// Asks for the part of y that a tile is about to be added to.
template <int kRows>
HWY_INLINE void PrefetchTile(const TileOutput& out) {
  KVGATE_UNROLL
  for (int r = 0; r < kRows; ++r) hwy::Prefetch(out.y + r * out.stride);
}

// ---- f32, f16, bf16 -------------------------------------------------------------------------

// result[r][v] = sum over columns of x[column][r] * w[column][v].
template <int kRows, int kVectors, typename T>
HWY_INLINE void SumColumns(const T* HWY_RESTRICT w, size_t step, const float* HWY_RESTRICT x,
                           int64_t columns, VF (&result)[kRows][kVectors]) {
  const DF df;
  VF sums[kRows][kVectors];  // `result` has an address, and so would live in memory
  KVGATE_UNROLL
  for (int r = 0; r < kRows; ++r) {
    KVGATE_UNROLL
    for (int v = 0; v < kVectors; ++v) sums[r][v] = hn::Zero(df);
  }
  for (int64_t column = 0; column < columns; ++column) {
    VF weights[kVectors];
    KVGATE_UNROLL
    for (int v = 0; v < kVectors; ++v) weights[v] = LoadAsF32(w + v * kLanes);
    KVGATE_UNROLL
    for (int r = 0; r < kRows; ++r) {
      const VF value = hn::Set(df, x[r]);
      KVGATE_UNROLL
      for (int v = 0; v < kVectors; ++v) {
        sums[r][v] = hn::MulAdd(weights[v], value, sums[r][v]);
      }
    }
    w += step;
    x += kRows;
  }
  KVGATE_UNROLL
  for (int r = 0; r < kRows; ++r) {
    KVGATE_UNROLL
    for (int v = 0; v < kVectors; ++v) result[r][v] = sums[r][v];
  }
}

// A few rows: weights go from memory to registers once, in the order in which they lie there.
template <int kRows, typename T>
void MultiplyFewRows(const MatMulPart& part) {
  constexpr int kVectors = VectorsFor(kRows);
  const int64_t columns = part.x->columns;
  const RowTile tile = part.tiles[0];
  for (int64_t panel = part.panel_begin; panel < part.panel_end; ++panel) {
    const T* w = reinterpret_cast<const T*>(part.weight->panel(panel));
    for (int64_t k = 0; k < columns; k += kFloatColumnBlock) {
      const int64_t count = std::min(kFloatColumnBlock, columns - k);
      const float* x = part.x->values + k * part.x->num_rows + tile.first * count;
      for (int64_t lane = 0; lane < kPanelRows; lane += kVectors * kLanes) {
        const T* from = w + k * kPanelRows + lane;
        VF sums[kRows][kVectors];
        SumColumns<kRows, kVectors>(from, kPanelRows, x, count, sums);
        AddTile(sums, OutputAt(part, tile.first, panel * kPanelRows + lane, k));
      }
    }
  }
}

template <int kRows>
HWY_INLINE void MultiplyScratch(const float* scratch, const float* x, int64_t count,
                                const TileOutput& out) {
  VF sums[kRows][2];
  PrefetchTile<kRows>(out);
  SumColumns<kRows, 2>(scratch, 2 * kLanes, x, count, sums);
  AddTile(sums, out);
}

// Many rows: a block of columns of two vectors' worth of outputs is expanded to f32 once, stays in
// L1, and meets every row tile there.
template <typename T>
void MultiplyManyRows(const MatMulPart& part) {
  constexpr int64_t kStep = 2 * kLanes;
  const int64_t columns = part.x->columns;
  for (int64_t k = 0; k < columns; k += kFloatColumnBlock) {
    const int64_t count = std::min(kFloatColumnBlock, columns - k);
    const float* x = part.x->values + k * part.x->num_rows;
    for (int64_t panel = part.panel_begin; panel < part.panel_end; ++panel) {
      const T* w = reinterpret_cast<const T*>(part.weight->panel(panel)) + k * kPanelRows;
      for (int64_t lane = 0; lane < kPanelRows; lane += kStep) {
        if (panel * kPanelRows + lane >= part.weight->rows()) break;
        for (int64_t i = 0; i < count; ++i) {
          const T* from = w + i * kPanelRows + lane;
          hn::Store(LoadAsF32(from), DF(), part.scratch + i * kStep);
          hn::Store(LoadAsF32(from + kLanes), DF(), part.scratch + i * kStep + kLanes);
        }
        for (const RowTile& tile : part.tiles) {
          const TileOutput out = OutputAt(part, tile.first, panel * kPanelRows + lane, k);
          const float* rows = x + tile.first * count;
          switch (tile.rows) {
            case 1:
              MultiplyScratch<1>(part.scratch, rows, count, out);
              break;
            case 2:
              MultiplyScratch<2>(part.scratch, rows, count, out);
              break;
            case 3:
              MultiplyScratch<3>(part.scratch, rows, count, out);
              break;
            case 4:
              MultiplyScratch<4>(part.scratch, rows, count, out);
              break;
            case 5:
              MultiplyScratch<5>(part.scratch, rows, count, out);
              break;
            case 6:
              MultiplyScratch<6>(part.scratch, rows, count, out);
              break;
            default:
              MultiplyScratch<kMaxTileRows>(part.scratch, rows, count, out);
          }
        }
      }
    }
  }
}

template <typename T>
void MultiplyFloat(const MatMulPart& part) {
  if (part.tiles.size() > 1) return MultiplyManyRows<T>(part);
  switch (part.tiles[0].rows) {
    case 1:
      return MultiplyFewRows<1, T>(part);
    case 2:
      return MultiplyFewRows<2, T>(part);
    case 3:
      return MultiplyFewRows<3, T>(part);
    case 4:
      return MultiplyFewRows<4, T>(part);
    case 5:
      return MultiplyFewRows<5, T>(part);
    case 6:
      return MultiplyFewRows<6, T>(part);
    default:
      return MultiplyManyRows<T>(part);
  }
}

// ---- q8_0 -----------------------------------------------------------------------------------

// Lane i: a[2i] * b[2i] + a[2i+1] * b[2i+1], exact in int32 as |a| <= 128.
HWY_INLINE VI32 PairProducts(V16 a, V16 b) {
  const DI32 di;
#if HWY_ARCH_X86 && HWY_TARGET <= HWY_SSE4
  VI32 unused = hn::Zero(di);
  return hn::ReorderWidenMulAccumulate(di, a, b, hn::Zero(di), unused);  // pmaddwd
#else
  const VI32 a32 = hn::BitCast(di, a);
  const VI32 b32 = hn::BitCast(di, b);
  const VI32 high = hn::Mul(hn::ShiftRight<16>(a32), hn::ShiftRight<16>(b32));
  const VI32 low = hn::Mul(hn::ShiftRight<16>(hn::ShiftLeft<16>(a32)),
                           hn::ShiftRight<16>(hn::ShiftLeft<16>(b32)));
  return hn::Add(high, low);
#endif
}

// products[r][v] += the products of one pair of columns.
template <int kRows, int kVectors>
HWY_INLINE void AddPairProducts(const int8_t* HWY_RESTRICT quants, const int32_t* HWY_RESTRICT x,
                                VI32 (&products)[kRows][kVectors]) {
  const hn::Rebind<int8_t, D16> d8;
  V16 weights[kVectors];
  KVGATE_UNROLL
  for (int v = 0; v < kVectors; ++v) {
    weights[v] = hn::PromoteTo(D16(), hn::LoadU(d8, quants + v * 2 * kLanes));
  }
  KVGATE_UNROLL
  for (int r = 0; r < kRows; ++r) {
    const V16 value = hn::BitCast(D16(), hn::Set(DI32(), x[r]));
    KVGATE_UNROLL
    for (int v = 0; v < kVectors; ++v) {
      products[r][v] = hn::Add(products[r][v], PairProducts(weights[v], value));
      KVGATE_IN_REGISTER(products[r][v]);
    }
  }
}

// Adds the products of one 32-column block, as int32 sums times both scales, to sums.
template <int kRows, int kVectors>
HWY_INLINE void AddQuantBlock(const PackedQuantBlock* block, int64_t lane,
                              const int32_t* HWY_RESTRICT x, const float* HWY_RESTRICT x_scales,
                              VF (&sums)[kRows][kVectors]) {
  constexpr int kPairs = PackedQuantBlock::kColumns / 2;
  const DF df;
  const DI32 di;
  VI32 products[kRows][kVectors];
  KVGATE_UNROLL
  for (int r = 0; r < kRows; ++r) {
    KVGATE_UNROLL
    for (int v = 0; v < kVectors; ++v) products[r][v] = hn::Zero(di);
  }
  // Straight code saves the copies that g++ makes of loop-carried registers, 6 % of a product of
  // many rows; everywhere else it would only be slow to compile.
  constexpr int kStraight = (HWY_TARGET == HWY_AVX2 && kRows == kMaxTileRows) ? kPairs : 1;
  for (int begin = 0; begin < kPairs; begin += kStraight) {
    KVGATE_UNROLL
    for (int i = 0; i < kStraight; ++i) {
      AddPairProducts(block->quants[begin + i][lane], x + (begin + i) * kRows, products);
    }
  }
  const F16* w_scales = reinterpret_cast<const F16*>(block->scales + lane);
  KVGATE_UNROLL
  for (int v = 0; v < kVectors; ++v) {
    const VF w_scale = LoadAsF32(w_scales + v * kLanes);
    KVGATE_UNROLL
    for (int r = 0; r < kRows; ++r) {
      sums[r][v] = hn::MulAdd(hn::ConvertTo(df, products[r][v]),
                              hn::Mul(w_scale, hn::Set(df, x_scales[r])), sums[r][v]);
    }
  }
}

// One tile, one block of columns.
template <int kRows, int kVectors>
HWY_INLINE void MultiplyQuantTile(const MatMulPart& part, const PackedQuantBlock* blocks,
                                  int64_t panel, int64_t lane, int64_t k, int first_row) {
  const int64_t count = std::min(kQuantColumnBlock, part.x->columns - k);
  const int64_t num_rows = part.x->num_rows;
  const int32_t* x = part.x->pairs + (k * num_rows + first_row * count) / 2;
  const float* x_scales =
      part.x->scales + (k * num_rows + first_row * count) / PackedQuantBlock::kColumns;
  blocks += k / PackedQuantBlock::kColumns;
  VF sums[kRows][kVectors];
  KVGATE_UNROLL
  for (int r = 0; r < kRows; ++r) {
    KVGATE_UNROLL
    for (int v = 0; v < kVectors; ++v) sums[r][v] = hn::Zero(DF());
  }
  const TileOutput out = OutputAt(part, first_row, panel * kPanelRows + lane, k);
  PrefetchTile<kRows>(out);
  for (int64_t index = 0; index < count / PackedQuantBlock::kColumns; ++index) {
    AddQuantBlock(blocks + index, lane, x, x_scales, sums);
    x += PackedQuantBlock::kColumns / 2 * kRows;
    x_scales += kRows;
  }
  AddTile(sums, out);
}

template <int kRows>
void MultiplyQuantFewRows(const MatMulPart& part) {
  constexpr int kVectors = VectorsFor(kRows);
  for (int64_t panel = part.panel_begin; panel < part.panel_end; ++panel) {
    const auto* blocks = reinterpret_cast<const PackedQuantBlock*>(part.weight->panel(panel));
    for (int64_t k = 0; k < part.x->columns; k += kQuantColumnBlock) {
      for (int64_t lane = 0; lane < kPanelRows; lane += kVectors * kLanes) {
        const int row = part.tiles[0].first;
        MultiplyQuantTile<kRows, kVectors>(part, blocks, panel, lane, k, row);
      }
    }
  }
}

void MultiplyQuantManyRows(const MatMulPart& part) {
  constexpr int64_t kStep = 2 * kLanes;
  for (int64_t k = 0; k < part.x->columns; k += kQuantColumnBlock) {
    for (int64_t panel = part.panel_begin; panel < part.panel_end; ++panel) {
      const auto* blocks = reinterpret_cast<const PackedQuantBlock*>(part.weight->panel(panel));
      for (int64_t lane = 0; lane < kPanelRows; lane += kStep) {
        if (panel * kPanelRows + lane >= part.weight->rows()) break;
        for (const RowTile& tile : part.tiles) {
          const int row = tile.first;
          switch (tile.rows) {
            case 1:
              MultiplyQuantTile<1, 2>(part, blocks, panel, lane, k, row);
              break;
            case 2:
              MultiplyQuantTile<2, 2>(part, blocks, panel, lane, k, row);
              break;
            case 3:
              MultiplyQuantTile<3, 2>(part, blocks, panel, lane, k, row);
              break;
            case 4:
              MultiplyQuantTile<4, 2>(part, blocks, panel, lane, k, row);
              break;
            case 5:
              MultiplyQuantTile<5, 2>(part, blocks, panel, lane, k, row);
              break;
            case 6:
              MultiplyQuantTile<6, 2>(part, blocks, panel, lane, k, row);
              break;
            default:
              MultiplyQuantTile<kMaxTileRows, 2>(part, blocks, panel, lane, k, row);
          }
        }
      }
    }
  }
}

void MultiplyQuant(const MatMulPart& part) {
  if (part.tiles.size() > 1) return MultiplyQuantManyRows(part);
  switch (part.tiles[0].rows) {
    case 1:
      return MultiplyQuantFewRows<1>(part);
    case 2:
      return MultiplyQuantFewRows<2>(part);
    case 3:
      return MultiplyQuantFewRows<3>(part);
    case 4:
      return MultiplyQuantFewRows<4>(part);
    case 5:
      return MultiplyQuantFewRows<5>(part);
    case 6:
      return MultiplyQuantFewRows<6>(part);
    default:
      return MultiplyQuantManyRows(part);
  }
}

// ---- rows of x ------------------------------------------------------------------------------

template <int kRows>
void PackTile(const float* x, int64_t columns, int num_rows, int first, float* values) {
  for (int64_t k = 0; k < columns; k += kFloatColumnBlock) {
    const int64_t count = std::min(kFloatColumnBlock, columns - k);
    const float* from = x + first * columns + k;
    float* to = values + k * num_rows + first * count;
    for (int64_t i = 0; i < count; ++i) {
      KVGATE_UNROLL
      for (int r = 0; r < kRows; ++r) to[i * kRows + r] = from[r * columns + i];
    }
  }
}

void PackRows(const float* x, int64_t columns, int num_rows, RowTile tile, float* values) {
  switch (tile.rows) {
    case 1:
      return PackTile<1>(x, columns, num_rows, tile.first, values);
    case 2:
      return PackTile<2>(x, columns, num_rows, tile.first, values);
    case 3:
      return PackTile<3>(x, columns, num_rows, tile.first, values);
    case 4:
      return PackTile<4>(x, columns, num_rows, tile.first, values);
    case 5:
      return PackTile<5>(x, columns, num_rows, tile.first, values);
    case 6:
      return PackTile<6>(x, columns, num_rows, tile.first, values);
    default:
      return PackTile<kMaxTileRows>(x, columns, num_rows, tile.first, values);
  }
}

// The largest magnitude of 32 values. Compared as integers, where a NaN is above all, so that it
// becomes the scale and shows in every product.
HWY_INLINE float MaxMagnitude(const float* x) {
  const DI32 di;
  VI32 largest = hn::Zero(di);
  for (size_t i = 0; i < PackedQuantBlock::kColumns; i += kLanes) {
    const VI32 bits = hn::BitCast(di, hn::Abs(hn::LoadU(DF(), x + i)));
    largest = hn::Max(largest, bits);
  }
  const int32_t bits = hn::GetLane(hn::MaxOfLanes(di, largest));
  float magnitude;
  std::memcpy(&magnitude, &bits, sizeof(magnitude));
  return magnitude;
}

// 32 values to int16 and their scale.
HWY_INLINE float QuantizeBlock(const float* x, int16_t* quants) {
  const DF df;
  const hn::Rebind<int16_t, DF> d16;
  const float magnitude = MaxMagnitude(x);
  // Below this the quotient could overflow; such values are 0 beside any others.
  if (magnitude < 1e-30f) {
    std::memset(quants, 0, PackedQuantBlock::kColumns * sizeof(int16_t));
    return 0.0f;
  }
  const VF inverse = hn::Set(df, 32767.0f / magnitude);
  for (size_t i = 0; i < PackedQuantBlock::kColumns; i += kLanes) {
    const VI32 rounded = hn::NearestInt(hn::Mul(hn::LoadU(df, x + i), inverse));
    hn::StoreU(hn::DemoteTo(d16, rounded), d16, quants + i);
  }
  return magnitude / 32767.0f;
}

void QuantizeRows(const float* x, int64_t columns, int num_rows, RowTile tile, int32_t* pairs,
                  float* scales) {
  constexpr int kColumns = PackedQuantBlock::kColumns;
  HWY_ALIGN int16_t quants[kColumns];
  for (int64_t k = 0; k < columns; k += kQuantColumnBlock) {
    const int64_t count = std::min(kQuantColumnBlock, columns - k);
    int32_t* to = pairs + (k * num_rows + tile.first * count) / 2;
    float* to_scales = scales + (k * num_rows + tile.first * count) / kColumns;
    for (int r = 0; r < tile.rows; ++r) {
      const float* from = x + (tile.first + r) * columns + k;
      for (int64_t index = 0; index < count / kColumns; ++index) {
        to_scales[index * tile.rows + r] = QuantizeBlock(from + index * kColumns, quants);
        int32_t* out = to + index * (kColumns / 2) * tile.rows + r;
        for (int pair = 0; pair < kColumns / 2; ++pair) {
          std::memcpy(out + pair * tile.rows, quants + 2 * pair, sizeof(int32_t));
        }
      }
    }
  }
}

// ---- table ----------------------------------------------------------------------------------

void Multiply(const MatMulPart& part) {
  KVGATE_DCHECK(part.panel_begin >= 0 && part.panel_end <= part.weight->num_panels(), "panels");
  KVGATE_DCHECK(!part.tiles.empty() && part.weight->columns() == part.x->columns, "part");
  switch (part.weight->dtype()) {
    case DType::kF32:
      return MultiplyFloat<float>(part);
    case DType::kF16:
      return MultiplyFloat<F16>(part);
    case DType::kBF16:
      return MultiplyFloat<BF16>(part);
    case DType::kQ8_0:
      return MultiplyQuant(part);
    case DType::kQ4_0:
      break;  // no weight of it is packed
  }
}

MatMulKernels MakeMatMulKernels() {
  return {.max_tile_rows = kMaxTileRows,
          .pack_rows = PackRows,
          .quantize_rows = QuantizeRows,
          .multiply = Multiply};
}

}  // namespace HWY_NAMESPACE
}  // namespace kvgate::kernels::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace kvgate::kernels::cpu {

HWY_EXPORT(MakeMatMulKernels);

MatMulKernels MatMulKernelsFor(int64_t target) {
  const ScopedTarget scoped(target);
  return HWY_DYNAMIC_DISPATCH(MakeMatMulKernels)();
}

}  // namespace kvgate::kernels::cpu
#endif  // HWY_ONCE
