#include "kernels/cpu/matmul/matmul_kernels.h"

#include "base/check.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/matmul/matmul_kernels.cc"
#include <hwy/foreach_target.h>
// These must follow foreach_target.
#include <hwy/highway.h>

#include <algorithm>

#include "kernels/cpu/machine/simd_target.h"
#include "kernels/cpu/matmul/matmul_tiles-inl.h"

HWY_BEFORE_NAMESPACE();
namespace kvgate::kernels::cpu::matmul {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;
namespace simd = machine::HWY_NAMESPACE;

using simd::kLanes;
using simd::VF;

// ---- f32, f16, bf16 -------------------------------------------------------------------------

// result[r][v] = sum over columns of x[column][r] * w[column][v]. If `expanded` is not null, the
// weights are also stored there as f32.
template <int kRows, int kVectors, typename T>
HWY_INLINE void SumColumns(const T* HWY_RESTRICT w, size_t step, const float* HWY_RESTRICT x,
                           int64_t columns, VF (&result)[kRows][kVectors], Ahead* ahead = nullptr,
                           float* HWY_RESTRICT expanded = nullptr) {
  const simd::DF df;
  VF sums[kRows][kVectors];  // a local, because `result` would live in memory
  KVGATE_UNROLL
  for (int r = 0; r < kRows; ++r) {
    KVGATE_UNROLL
    for (int v = 0; v < kVectors; ++v) sums[r][v] = hn::Zero(df);
  }
  for (int64_t column = 0; column < columns; ++column) {
    VF weights[kVectors];
    KVGATE_UNROLL
    for (int v = 0; v < kVectors; ++v) {
      weights[v] = simd::LoadAsF32(w + v * kLanes);
      if (expanded != nullptr) hn::Store(weights[v], df, expanded + v * kLanes);
    }
    if (expanded != nullptr) expanded += kVectors * kLanes;
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
    if (ahead != nullptr) ahead->Ask();
  }
  KVGATE_UNROLL
  for (int r = 0; r < kRows; ++r) {
    KVGATE_UNROLL
    for (int v = 0; v < kVectors; ++v) result[r][v] = sums[r][v];
  }
}

template <typename T>
BlockAhead::Shape FloatBlockShape(int64_t k, int64_t count, size_t num_passes) {
  return {.offset = k * kPanelRows * static_cast<int64_t>(sizeof(T)),
          .bytes = static_cast<size_t>(count * kPanelRows) * sizeof(T),
          .asks = count,
          .num_passes = num_passes};
}

// A few rows: weights are read from memory to registers once, in memory order. From four rows on,
// multiplying takes about as long as reading, so the next block is prefetched meanwhile.
template <int kRows, typename T>
void MultiplyFewRows(const MatMulPart& part) {
  constexpr int kVectors = VectorsFor(kRows);
  constexpr size_t kPasses = kVectorsPerPanel / kVectors;
  const int64_t columns = part.x->columns;
  const RowTile tile = part.tiles[0];
  for (int64_t panel = part.panel_begin; panel < part.panel_end; ++panel) {
    const T* w = reinterpret_cast<const T*>(part.weight->panel(panel));
    for (int64_t k = 0; k < columns; k += kFloatColumnBlock) {
      const int64_t count = std::min(kFloatColumnBlock, columns - k);
      const float* x = part.x->values + k * part.x->num_rows + tile.first * count;
      BlockAhead block_ahead(part, panel, FloatBlockShape<T>(k, count, kPasses));
      for (int64_t lane = 0; lane < kPanelRows; lane += kVectors * kLanes) {
        const T* from = w + k * kPanelRows + lane;
        Ahead ahead = block_ahead.NextPass();
        VF sums[kRows][kVectors];
        SumColumns<kRows, kVectors>(from, kPanelRows, x, count, sums,
                                    kRows >= kRowsAheadMin ? &ahead : nullptr);
        AddTile(sums, OutputAt(part, tile.first, panel * kPanelRows + lane, k));
      }
    }
  }
}

// Two tiles with few rows: both at once, one vector of outputs at a time, directly from memory.
template <int kFirst, int kSecond, typename T>
void MultiplyTwoTiles(const MatMulPart& part) {
  const simd::DF df;
  const int64_t columns = part.x->columns;
  const int row = part.tiles[0].first;
  for (int64_t panel = part.panel_begin; panel < part.panel_end; ++panel) {
    for (int64_t k = 0; k < columns; k += kFloatColumnBlock) {
      const int64_t count = std::min(kFloatColumnBlock, columns - k);
      BlockAhead block_ahead(part, panel, FloatBlockShape<T>(k, count, kVectorsPerPanel));
      for (int64_t lane = 0; lane < kPanelRows; lane += kLanes) {
        const T* w = reinterpret_cast<const T*>(part.weight->panel(panel)) + k * kPanelRows + lane;
        const float* x = part.x->values + k * part.x->num_rows + row * count;
        const float* x2 = x + kFirst * count;
        Ahead ahead = block_ahead.NextPass();
        VF sums[kFirst + kSecond][1];
        KVGATE_UNROLL
        for (int r = 0; r < kFirst + kSecond; ++r) sums[r][0] = hn::Zero(df);
        for (int64_t column = 0; column < count; ++column) {
          const VF weight = simd::LoadAsF32(w);
          KVGATE_UNROLL
          for (int r = 0; r < kFirst; ++r) {
            sums[r][0] = hn::MulAdd(weight, hn::Set(df, x[r]), sums[r][0]);
          }
          KVGATE_UNROLL
          for (int r = 0; r < kSecond; ++r) {
            sums[kFirst + r][0] = hn::MulAdd(weight, hn::Set(df, x2[r]), sums[kFirst + r][0]);
          }
          w += kPanelRows;
          x += kFirst;
          x2 += kSecond;
          ahead.Ask();
        }
        AddTile(sums, OutputAt(part, row, panel * kPanelRows + lane, k));
      }
    }
  }
}

// Two vectors of outputs of one panel, for one block of columns and one tile of rows.
template <typename T>
struct ManyRowsPass {
  const T* weights;  // set for the first tile only, which expands them into scratch
  float* scratch;
  const float* x;
  int64_t count;
  Ahead ahead;
  TileOutput out;
};

template <int kRows, typename T>
HWY_INLINE void MultiplyScratch(const ManyRowsPass<T>& pass) {
  VF sums[kRows][2];
  Ahead ahead = pass.ahead;
  PrefetchTile<kRows>(pass.out);
  if (pass.weights != nullptr) {
    SumColumns<kRows, 2>(pass.weights, kPanelRows, pass.x, pass.count, sums, &ahead, pass.scratch);
  } else {
    SumColumns<kRows, 2>(pass.scratch, 2 * kLanes, pass.x, pass.count, sums, &ahead);
  }
  AddTile(sums, pass.out);
}

template <typename T>
void MultiplyPass(int rows, const ManyRowsPass<T>& pass) {
  switch (rows) {
    case 1:
      return MultiplyScratch<1>(pass);
    case 2:
      return MultiplyScratch<2>(pass);
    case 3:
      return MultiplyScratch<3>(pass);
    case 4:
      return MultiplyScratch<4>(pass);
    case 5:
      return MultiplyScratch<5>(pass);
    case 6:
      return MultiplyScratch<6>(pass);
    default:
      return MultiplyScratch<kMaxTileRows>(pass);
  }
}

// Many rows: the first row tile expands a column block of two vectors of outputs to f32. The block
// stays in L1, where the other tiles use it.
template <typename T>
void MultiplyManyRows(const MatMulPart& part) {
  constexpr int64_t kStep = 2 * kLanes;
  const int64_t columns = part.x->columns;
  for (int64_t k = 0; k < columns; k += kFloatColumnBlock) {
    const int64_t count = std::min(kFloatColumnBlock, columns - k);
    const float* x = part.x->values + k * part.x->num_rows;
    for (int64_t panel = part.panel_begin; panel < part.panel_end; ++panel) {
      const T* w = reinterpret_cast<const T*>(part.weight->panel(panel)) + k * kPanelRows;
      BlockAhead block_ahead(
          part, panel, FloatBlockShape<T>(k, count, part.tiles.size() * (kPanelRows / kStep)));
      for (int64_t lane = 0; lane < kPanelRows; lane += kStep) {
        if (panel * kPanelRows + lane >= part.weight->rows()) break;
        const T* weights = w + lane;
        for (const RowTile& tile : part.tiles) {
          MultiplyPass<T>(tile.rows,
                          {.weights = weights,
                           .scratch = part.scratch,
                           .x = x + tile.first * count,
                           .count = count,
                           .ahead = block_ahead.NextPass(),
                           .out = OutputAt(part, tile.first, panel * kPanelRows + lane, k)});
          weights = nullptr;
        }
      }
    }
  }
}

// The pairs into which matmul.h splits 7 to 12 rows if a tile has at most 6.
template <typename T>
void MultiplyPair(const MatMulPart& part) {
  switch (part.tiles[0].rows * 16 + part.tiles[1].rows) {
    case 0x43:
      return MultiplyTwoTiles<4, 3, T>(part);
    case 0x44:
      return MultiplyTwoTiles<4, 4, T>(part);
    case 0x54:
      return MultiplyTwoTiles<5, 4, T>(part);
    case 0x64:
      return MultiplyTwoTiles<6, 4, T>(part);
    case 0x65:
      return MultiplyTwoTiles<6, 5, T>(part);
    case 0x66:
      return MultiplyTwoTiles<6, 6, T>(part);
    default:
      return MultiplyManyRows<T>(part);
  }
}

template <typename T>
void MultiplyFloat(const MatMulPart& part) {
  if (part.tiles.size() == 2) return MultiplyPair<T>(part);
  if (part.tiles.size() > 2) return MultiplyManyRows<T>(part);
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

// ---- table ----------------------------------------------------------------------------------

void MultiplyAny(const MatMulPart& part) {
  KVGATE_DCHECK(part.panel_begin >= 0 && part.panel_end <= part.weight->num_panels(), "panels");
  KVGATE_DCHECK(!part.tiles.empty() && part.weight->columns() == part.x->columns, "part");
  switch (part.weight->dtype()) {
    case DType::kF32:
      return MultiplyFloat<float>(part);
    case DType::kF16:
      return MultiplyFloat<simd::F16>(part);
    case DType::kBF16:
      return MultiplyFloat<simd::BF16>(part);
    default:
      KVGATE_CHECK(false, "quantized weights have kernels of their own");
  }
}

FloatMatMulKernels MakeFloatMatMulKernels() {
  return {.max_tile_rows = kMaxTileRows, .pack_rows = PackRows, .multiply = MultiplyAny};
}

}  // namespace HWY_NAMESPACE
}  // namespace kvgate::kernels::cpu::matmul
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace kvgate::kernels::cpu::matmul {

HWY_EXPORT(MakeFloatMatMulKernels);

FloatMatMulKernels FloatMatMulKernelsFor(int64_t target) {
  const machine::ScopedTarget scoped(target);
  return HWY_DYNAMIC_DISPATCH(MakeFloatMatMulKernels)();
}

}  // namespace kvgate::kernels::cpu::matmul
#endif  // HWY_ONCE
