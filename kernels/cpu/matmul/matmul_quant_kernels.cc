#include "kernels/cpu/matmul/matmul_kernels.h"

#include "base/check.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/matmul/matmul_quant_kernels.cc"
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

using simd::DF;
using simd::DI32;
using simd::kLanes;
using simd::VF;
using simd::VI32;

// ---- q8_0 -----------------------------------------------------------------------------------

// Adds the products of one pair of columns to `products`.
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
      products[r][v] = AddPairProduct(weights[v], value, products[r][v]);
    }
  }
}

// Adds the products of one 32-column block to `sums`: int32 sums times both scales.
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
  // Straight-line code avoids copies that g++ makes of loop-carried registers, 6 % of the time of a
  // product with many rows. In other cases it would only slow down compilation.
  constexpr int kStraight = (HWY_TARGET == HWY_AVX2 && kRows == kMaxTileRows) ? kPairs : 1;
  for (int begin = 0; begin < kPairs; begin += kStraight) {
    KVGATE_UNROLL
    for (int i = 0; i < kStraight; ++i) {
      AddPairProducts(block->quants[begin + i][lane], x + (begin + i) * kRows, products);
    }
  }
  const simd::F16* w_scales = reinterpret_cast<const simd::F16*>(block->scales + lane);
  KVGATE_UNROLL
  for (int v = 0; v < kVectors; ++v) {
    const VF w_scale = simd::LoadAsF32(w_scales + v * kLanes);
    KVGATE_UNROLL
    for (int r = 0; r < kRows; ++r) {
      sums[r][v] = hn::MulAdd(hn::ConvertTo(df, products[r][v]),
                              hn::Mul(w_scale, hn::Set(df, x_scales[r])), sums[r][v]);
    }
  }
}

// Multiplies one tile with one block of columns.
template <int kRows, int kVectors>
HWY_INLINE void MultiplyQuantTile(const MatMulPart& part, const PackedQuantBlock* blocks,
                                  int64_t panel, int64_t lane, int64_t k, int first_row,
                                  Ahead* ahead = nullptr, int64_t asks = 0) {
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
    if (ahead != nullptr) {
      for (int64_t i = 0; i < asks; ++i) ahead->Ask();
    }
    AddQuantBlock(blocks + index, lane, x, x_scales, sums);
    x += PackedQuantBlock::kColumns / 2 * kRows;
    x_scales += kRows;
  }
  AddTile(sums, out);
}

// Prefetches per 32-column block in one of `num_passes` passes, so that together they fetch all
// lines of a block.
int64_t AsksPerQuantBlock(size_t num_passes) {
  constexpr size_t kLines = (sizeof(PackedQuantBlock) + 63) / 64;
  return static_cast<int64_t>((kLines + num_passes - 1) / num_passes);
}

BlockAhead::Shape QuantBlockShape(int64_t k, int64_t num_blocks, size_t num_passes) {
  constexpr auto kBytes = static_cast<int64_t>(sizeof(PackedQuantBlock));
  return {.offset = k / PackedQuantBlock::kColumns * kBytes,
          .bytes = static_cast<size_t>(num_blocks * kBytes),
          .asks = num_blocks * AsksPerQuantBlock(num_passes),
          .num_passes = num_passes};
}

template <int kRows>
void MultiplyQuantFewRows(const MatMulPart& part) {
  constexpr int kVectors = VectorsFor(kRows);
  for (int64_t panel = part.panel_begin; panel < part.panel_end; ++panel) {
    const auto* blocks = reinterpret_cast<const PackedQuantBlock*>(part.weight->panel(panel));
    for (int64_t k = 0; k < part.x->columns; k += kQuantColumnBlock) {
      const int64_t num_blocks =
          std::min(kQuantColumnBlock, part.x->columns - k) / PackedQuantBlock::kColumns;
      BlockAhead block_ahead(part, panel,
                             QuantBlockShape(k, num_blocks, kVectorsPerPanel / kVectors));
      for (int64_t lane = 0; lane < kPanelRows; lane += kVectors * kLanes) {
        const int row = part.tiles[0].first;
        Ahead ahead = block_ahead.NextPass();
        MultiplyQuantTile<kRows, kVectors>(part, blocks, panel, lane, k, row,
                                           kRows >= kRowsAheadMin ? &ahead : nullptr,
                                           AsksPerQuantBlock(kVectorsPerPanel / kVectors));
      }
    }
  }
}

void MultiplyQuantManyRows(const MatMulPart& part) {
  constexpr int64_t kStep = 2 * kLanes;
  for (int64_t k = 0; k < part.x->columns; k += kQuantColumnBlock) {
    for (int64_t panel = part.panel_begin; panel < part.panel_end; ++panel) {
      const auto* blocks = reinterpret_cast<const PackedQuantBlock*>(part.weight->panel(panel));
      const int64_t num_blocks =
          std::min(kQuantColumnBlock, part.x->columns - k) / PackedQuantBlock::kColumns;
      const size_t num_passes = part.tiles.size() * (kPanelRows / kStep);
      const int64_t asks = AsksPerQuantBlock(num_passes);
      BlockAhead block_ahead(part, panel, QuantBlockShape(k, num_blocks, num_passes));
      for (int64_t lane = 0; lane < kPanelRows; lane += kStep) {
        if (panel * kPanelRows + lane >= part.weight->rows()) break;
        for (const RowTile& tile : part.tiles) {
          const int row = tile.first;
          Ahead ahead = block_ahead.NextPass();
          switch (tile.rows) {
            case 1:
              MultiplyQuantTile<1, 2>(part, blocks, panel, lane, k, row, &ahead, asks);
              break;
            case 2:
              MultiplyQuantTile<2, 2>(part, blocks, panel, lane, k, row, &ahead, asks);
              break;
            case 3:
              MultiplyQuantTile<3, 2>(part, blocks, panel, lane, k, row, &ahead, asks);
              break;
            case 4:
              MultiplyQuantTile<4, 2>(part, blocks, panel, lane, k, row, &ahead, asks);
              break;
            case 5:
              MultiplyQuantTile<5, 2>(part, blocks, panel, lane, k, row, &ahead, asks);
              break;
            case 6:
              MultiplyQuantTile<6, 2>(part, blocks, panel, lane, k, row, &ahead, asks);
              break;
            default:
              MultiplyQuantTile<kMaxTileRows, 2>(part, blocks, panel, lane, k, row, &ahead, asks);
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

// Returns the largest magnitude of 32 values. It is compared as integers, which order NaN above all
// numbers, so that a NaN becomes the scale and shows in every product.
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

// Quantizes 32 values to int16 and returns their scale.
HWY_INLINE float QuantizeBlock(const float* x, int16_t* quants) {
  const DF df;
  const hn::Rebind<int16_t, DF> d16;
  const float magnitude = MaxMagnitude(x);
  // Below this magnitude the quotient could overflow; such values are treated as 0.
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

void QuantizeRows(const float* x, int64_t columns, int num_rows, RowTile tile,
                  const QuantizedRows& to) {
  constexpr int kColumns = PackedQuantBlock::kColumns;
  constexpr int kHalf = kColumns / 2;
  HWY_ALIGN int16_t quants[kColumns];
  for (int64_t k = 0; k < columns; k += kQuantColumnBlock) {
    const int64_t count = std::min(kQuantColumnBlock, columns - k);
    const int64_t place = k * num_rows + tile.first * count;
    for (int r = 0; r < tile.rows; ++r) {
      const float* from = x + (tile.first + r) * columns + k;
      for (int64_t index = 0; index < count / kColumns; ++index) {
        to.scales[place / kColumns + index * tile.rows + r] =
            QuantizeBlock(from + index * kColumns, quants);
        int32_t* pairs = to.pairs + place / 2 + index * kHalf * tile.rows + r;
        for (int pair = 0; pair < kHalf; ++pair) {
          std::memcpy(pairs + pair * tile.rows, quants + 2 * pair, sizeof(int32_t));
        }
        int32_t* sums = to.sums + place / kHalf + 2 * index * tile.rows + r;
        for (int half = 0; half < 2; ++half) {
          int32_t sum = 0;
          for (int i = 0; i < kHalf; ++i) sum += quants[half * kHalf + i];
          sums[half * tile.rows] = sum;
        }
      }
    }
  }
}

// ---- for AMX --------------------------------------------------------------------------------

#if HWY_ARCH_X86 && HWY_TARGET == HWY_AVX3_DL
void QuantizeAmxRows(const float* x, int64_t columns, int num_rows, AmxRows* to) {
  const D16 d16;
  const hn::Half<DI32> dh;
  const hn::Rebind<int8_t, D16> d8;
  const hn::Rebind<uint8_t, D16> du8;
  HWY_ALIGN int16_t quants[kAmxUnitColumns];
  for (int r = 0; r < num_rows; ++r) {
    for (int64_t unit = 0; unit < columns / kAmxUnitColumns; ++unit) {
      AmxRows& rows = to[unit];
      const float scale = QuantizeBlock(x + r * columns + unit * kAmxUnitColumns, quants);
      const V16 values = hn::Load(d16, quants);
      hn::StoreU(hn::DemoteTo(d8, hn::ShiftRight<8>(values)), d8, rows.high[r]);
      hn::StoreU(hn::DemoteTo(du8, hn::And(values, hn::Set(d16, 255))), du8, rows.low[r]);
      const VI32 pairs = PairProducts(values, hn::Set(d16, 1));
      const int32_t sums[2] = {hn::GetLane(hn::SumOfLanes(dh, hn::LowerHalf(dh, pairs))),
                               hn::GetLane(hn::SumOfLanes(dh, hn::UpperHalf(dh, pairs)))};
      rows.scales[r] = scale;
      rows.totals[0][r] = scale * static_cast<float>(sums[0] + sums[1]);
      for (int half = 0; half < 2; ++half) {
        rows.totals[1 + half][r] = scale * static_cast<float>(sums[half]);
      }
    }
  }
}

void ExpandAmxQuants(const std::byte* panel, int64_t first_unit, int64_t num_units, int64_t lane,
                     AmxWeights* to) {
  const simd::DU32 du;
  const hn::Rebind<uint16_t, simd::DU32> du16;
  const auto* blocks = reinterpret_cast<const PackedQuantBlock*>(panel) + first_unit;
  for (int64_t unit = 0; unit < num_units; ++unit) {
    const PackedQuantBlock& block = blocks[unit];
    for (int quad = 0; quad < kAmxUnitColumns / 4; ++quad) {
      const auto pair = [&](int index) {
        const auto* from = reinterpret_cast<const uint16_t*>(block.quants[index][lane]);
        return hn::PromoteTo(du, hn::LoadU(du16, from));
      };
      const auto four = hn::Or(pair(2 * quad), hn::ShiftLeft<16>(pair(2 * quad + 1)));
      hn::StoreU(four, du, reinterpret_cast<uint32_t*>(to->codes[unit][quad]));
    }
    hn::StoreU(simd::LoadAsF32(reinterpret_cast<const simd::F16*>(block.scales + lane)), DF(),
               to->scales[unit]);
  }
}

constexpr AmxQuantKernels kAmxQuantKernels = {.quantize_rows = QuantizeAmxRows,
                                              .expand = ExpandAmxQuants};
#else
constexpr AmxQuantKernels kAmxQuantKernels = {};
#endif

QuantMatMulKernels MakeQuantMatMulKernels() {
  return {.quantize_rows = QuantizeRows, .multiply = MultiplyQuant, .amx = kAmxQuantKernels};
}

}  // namespace HWY_NAMESPACE
}  // namespace kvgate::kernels::cpu::matmul
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace kvgate::kernels::cpu::matmul {

HWY_EXPORT(MakeQuantMatMulKernels);

QuantMatMulKernels QuantMatMulKernelsFor(int64_t target) {
  const machine::ScopedTarget scoped(target);
  return HWY_DYNAMIC_DISPATCH(MakeQuantMatMulKernels)();
}

}  // namespace kvgate::kernels::cpu::matmul
#endif  // HWY_ONCE
