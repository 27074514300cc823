// Products with the formats of packed_planes.h. For one row of x, the codes are decoded into
// registers; for more rows, a block of columns is first expanded to int16 in L1. Both sum the same
// integers and add the same floats in the same order, so the result does not depend on which was
// used.
#include "base/check.h"
#include "kernels/cpu/matmul/matmul_kernels.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/matmul/matmul_plane_kernels.cc"
#include <hwy/foreach_target.h>
// These must follow foreach_target.
#include <hwy/highway.h>

#include <algorithm>

#include "kernels/cpu/machine/simd_target.h"
#include "kernels/cpu/matmul/matmul_tiles-inl.h"
#include "kernels/cpu/matmul/packed_planes.h"

HWY_BEFORE_NAMESPACE();
namespace kvgate::kernels::cpu::matmul {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;
namespace simd = machine::HWY_NAMESPACE;

using simd::DF;
using simd::DI32;
using simd::DU32;
using simd::kLanes;
using simd::VF;
using simd::VI32;

using VU32 = hn::Vec<DU32>;
using D8 = hn::Repartition<uint8_t, DF>;

template <DType kDType>
struct PlaneFormat {
  static constexpr PlaneShape kShape = PlaneShapeOf(kDType);
  static constexpr QuantLayout kLayout = kShape.layout;
  static constexpr int kLowBits = kShape.low_bits();
  static constexpr int kHighBits = kShape.high_bits();
  static constexpr int kGroups = kShape.groups();
  static constexpr int kGroupPairs = kUnitPairs / kGroups;
  static constexpr int64_t kUnits = kShape.units();
};

// ---- codes ----------------------------------------------------------------------------------

// Extracts pair kPair of a word of kBits-bit codes, shifted to bit kAt of each int16.
template <int kBits, int kPair, int kAt>
HWY_INLINE VU32 PairBits(VU32 word) {
  constexpr int kShift = kPair * kBits - kAt;
  if constexpr (kShift > 0) word = hn::ShiftRight<kShift>(word);
  if constexpr (kShift < 0) word = hn::ShiftLeft<-kShift>(word);
  constexpr uint32_t kMask = (1u << kBits) - 1;
  return hn::And(word, hn::Set(DU32(), kMask * 0x00010001u << kAt));
}

template <int kBits, int kPair, int kAt>
HWY_INLINE VU32 PlaneBits(const uint32_t* HWY_RESTRICT plane) {
  constexpr int kPairsPerWord = kUnitPairs / kBits;
  constexpr int kWord = kPair / kPairsPerWord;
  return PairBits<kBits, kPair % kPairsPerWord, kAt>(hn::LoadU(DU32(), plane + kWord * kPanelRows));
}

// Returns the codes of pair kPair for one vector of rows as int16, or the values if there is a
// codebook. `codes` is the unit's first plane at the vector's first row.
template <typename Format, int kPair>
HWY_INLINE V16 PairCodes(const uint32_t* HWY_RESTRICT codes) {
  if constexpr (Format::kLayout.codebook != nullptr) {
    // The table lookup is done in the upper byte of each int16, so that one shift extends the sign.
    const VU32 index = PlaneBits<4, kPair, 8>(codes);
    const auto* from = reinterpret_cast<const uint8_t*>(Format::kLayout.codebook);
    const auto table = hn::LoadDup128(D8(), from);
    const auto bytes = hn::TableLookupBytes(table, hn::BitCast(D8(), index));
    return hn::ShiftRight<8>(hn::BitCast(D16(), bytes));
  } else {
    VU32 bits = PlaneBits<Format::kLowBits, kPair, 0>(codes);
    if constexpr (Format::kHighBits != 0) {
      const uint32_t* high = codes + Format::kLowBits * kPanelRows;
      bits = hn::Or(bits, PlaneBits<Format::kHighBits, kPair, Format::kLowBits>(high));
    }
    return hn::BitCast(D16(), bits);
  }
}

// ---- scales ---------------------------------------------------------------------------------

template <typename Format>
HWY_INLINE VF HeadScale(const std::byte* head, int64_t lane) {
  if constexpr (Format::kLayout.scale == QuantScale::kF16) {
    return simd::LoadAsF32(reinterpret_cast<const simd::F16*>(head) + lane);
  } else {
    const DI32 di;
    const hn::Rebind<uint8_t, DI32> d8;
    const VI32 e = hn::PromoteTo(di, hn::LoadU(d8, reinterpret_cast<const uint8_t*>(head) + lane));
    const VI32 normal = hn::ShiftLeft<23>(hn::Sub(e, hn::Set(di, 1)));
    const VI32 subnormal = hn::ShiftLeft<21>(hn::Add(e, hn::Set(di, 1)));
    const auto is_small = hn::Lt(e, hn::Set(di, 2));
    return hn::BitCast(DF(), hn::IfThenElse(is_small, subnormal, normal));
  }
}

template <typename Format>
HWY_INLINE VF HeadMin(const std::byte* head, int64_t lane) {
  const std::byte* mins = head + kPanelRows * Format::kShape.scale_bytes();
  return simd::LoadAsF32(reinterpret_cast<const simd::F16*>(mins) + lane);
}

// The scale of a group, and its min with the sign with which it is added.
struct GroupScales {
  VF scale;
  VF min;
};

template <typename Format>
HWY_INLINE GroupScales LoadScales(const std::byte* head, const std::byte* unit, int group,
                                  int64_t lane) {
  const DF df;
  const DI32 di;
  GroupScales scales{.scale = HeadScale<Format>(head, lane), .min = hn::Zero(df)};
  const auto* own = reinterpret_cast<const int8_t*>(unit) + group * kPanelRows + lane;
  if constexpr (Format::kShape.shares_scale_byte()) {
    const hn::Rebind<uint8_t, DI32> d8;
    const VI32 both = hn::PromoteTo(di, hn::LoadU(d8, reinterpret_cast<const uint8_t*>(own)));
    const VI32 scale = hn::And(both, hn::Set(di, 15));
    scales.min =
        hn::Mul(HeadMin<Format>(head, lane), hn::ConvertTo(df, hn::Neg(hn::ShiftRight<4>(both))));
    scales.scale = hn::Mul(scales.scale, hn::ConvertTo(df, scale));
  } else if constexpr (Format::kLayout.has_group_scales()) {
    const hn::Rebind<int8_t, DI32> d8;
    const VI32 scale = hn::PromoteTo(di, hn::LoadU(d8, own));
    scales.scale = hn::Mul(scales.scale, hn::ConvertTo(df, scale));
    if constexpr (Format::kLayout.min == QuantMin::kOfGroups) {
      const VI32 min = hn::PromoteTo(di, hn::LoadU(d8, own + Format::kGroups * kPanelRows));
      scales.min = hn::Mul(HeadMin<Format>(head, lane), hn::ConvertTo(df, hn::Neg(min)));
    }
  } else if constexpr (Format::kLayout.min == QuantMin::kAdded) {
    scales.min = HeadMin<Format>(head, lane);
  }
  return scales;
}

// ---- one unit -------------------------------------------------------------------------------

// The location of 32 columns of a panel.
struct Unit {
  const std::byte* head;
  const std::byte* scales;
  const uint32_t* codes;
};

template <typename Format>
HWY_INLINE Unit UnitAt(const std::byte* panel, int64_t index) {
  constexpr PlaneShape kShape = Format::kShape;
  const std::byte* head =
      panel + static_cast<size_t>(index / Format::kUnits) * kShape.block_bytes();
  const std::byte* scales = head + kShape.head_bytes() +
                            static_cast<size_t>(index % Format::kUnits) * kShape.unit_bytes();
  return {.head = head,
          .scales = scales,
          .codes = reinterpret_cast<const uint32_t*>(scales + kShape.group_bytes())};
}

// The quants of x for one unit and all rows: pairs, scales, and the sums of the unit's halves.
struct UnitRows {
  const int32_t* pairs;
  const float* scales;
  const int32_t* sums;
};

// Returns the sum of one row's quants in a group of 32 or 16 columns.
template <int kGroups, int kRows>
HWY_INLINE int32_t GroupSum(const UnitRows& x, int group, int r) {
  return kGroups == 2 ? x.sums[group * kRows + r] : x.sums[r] + x.sums[kRows + r];
}

// Adds the products of one group, given their exact int32 sums, and then the group's min.
template <int kGroups, int kRows, bool kHasMin>
HWY_INLINE void AddGroup(VI32 products, VF scale, VF min, const UnitRows& x, int group, int r,
                         VF& sum) {
  const DF df;
  const VF x_scale = hn::Set(df, x.scales[r]);
  sum = hn::MulAdd(hn::ConvertTo(df, products), hn::Mul(scale, x_scale), sum);
  if constexpr (kHasMin) {
    const float total = x.scales[r] * static_cast<float>(GroupSum<kGroups, kRows>(x, group, r));
    sum = hn::MulAdd(min, hn::Set(df, total), sum);
  }
}

// ---- one row ---------------------------------------------------------------------------------

template <typename Format, int kPair, int kEnd, int kRows, int kVectors>
HWY_INLINE void AddPairs(const uint32_t* HWY_RESTRICT codes, const int32_t* HWY_RESTRICT x,
                         VI32 (&products)[kRows][kVectors]) {
  if constexpr (kPair < kEnd) {
    KVGATE_UNROLL
    for (int v = 0; v < kVectors; ++v) {
      const V16 weights = PairCodes<Format, kPair>(codes + v * kLanes);
      KVGATE_UNROLL
      for (int r = 0; r < kRows; ++r) {
        const V16 value = hn::BitCast(D16(), hn::Set(DI32(), x[kPair * kRows + r]));
        products[r][v] = AddPairProduct(weights, value, products[r][v]);
      }
    }
    AddPairs<Format, kPair + 1, kEnd>(codes, x, products);
  }
}

template <typename Format, int kGroup, int kRows, int kVectors>
HWY_INLINE void AddUnitGroups(const Unit& unit, int64_t lane, const UnitRows& x,
                              VF (&sums)[kRows][kVectors]) {
  if constexpr (kGroup < Format::kGroups) {
    // The codes' offset is subtracted once per group.
    VI32 products[kRows][kVectors];
    KVGATE_UNROLL
    for (int r = 0; r < kRows; ++r) {
      const int32_t start =
          -Format::kLayout.offset * GroupSum<Format::kGroups, kRows>(x, kGroup, r);
      KVGATE_UNROLL
      for (int v = 0; v < kVectors; ++v) products[r][v] = hn::Set(DI32(), start);
    }
    constexpr int kBegin = kGroup * Format::kGroupPairs;
    AddPairs<Format, kBegin, kBegin + Format::kGroupPairs>(unit.codes + lane, x.pairs, products);
    KVGATE_UNROLL
    for (int v = 0; v < kVectors; ++v) {
      const auto scales = LoadScales<Format>(unit.head, unit.scales, kGroup, lane + v * kLanes);
      KVGATE_UNROLL
      for (int r = 0; r < kRows; ++r) {
        AddGroup<Format::kGroups, kRows, Format::kShape.has_min()>(
            products[r][v], scales.scale, scales.min, x, kGroup, r, sums[r][v]);
      }
    }
    AddUnitGroups<Format, kGroup + 1>(unit, lane, x, sums);
  }
}

// Returns the rows of one tile from column k on.
HWY_INLINE UnitRows RowsAt(const MatMulPart& part, int first_row, int64_t k, int64_t count) {
  const int64_t place = k * part.x->num_rows + first_row * count;
  return {.pairs = part.x->pairs + place / 2,
          .scales = part.x->scales + place / kUnitColumns,
          .sums = part.x->sums + place / kUnitPairs};
}

template <int kRows>
HWY_INLINE void NextUnit(UnitRows& x) {
  x.pairs += kUnitPairs * kRows;
  x.scales += kRows;
  x.sums += 2 * kRows;
}

template <typename Format, int kRows>
void MultiplyFewRows(const MatMulPart& part) {
  constexpr int kVectors = std::min(kVectorsPerPanel, 4);
  for (int64_t panel = part.panel_begin; panel < part.panel_end; ++panel) {
    const std::byte* from = part.weight->panel(panel);
    for (int64_t k = 0; k < part.x->columns; k += kQuantColumnBlock) {
      const int64_t count = std::min(kQuantColumnBlock, part.x->columns - k);
      for (int64_t lane = 0; lane < kPanelRows; lane += kVectors * kLanes) {
        UnitRows x = RowsAt(part, part.tiles[0].first, k, count);
        VF sums[kRows][kVectors];
        KVGATE_UNROLL
        for (int r = 0; r < kRows; ++r) {
          KVGATE_UNROLL
          for (int v = 0; v < kVectors; ++v) sums[r][v] = hn::Zero(DF());
        }
        for (int64_t i = 0; i < count / kUnitColumns; ++i) {
          const Unit unit = UnitAt<Format>(from, k / kUnitColumns + i);
          AddUnitGroups<Format, 0>(unit, lane, x, sums);
          NextUnit<kRows>(x);
        }
        AddTile(sums, OutputAt(part, part.tiles[0].first, panel * kPanelRows + lane, k));
      }
    }
  }
}

// ---- many rows ------------------------------------------------------------------------------

// Two vectors of outputs and up to 512 columns, in a thread's scratch memory.
constexpr int64_t kStep = 2 * kLanes;
constexpr int64_t kUnitsAtOnce = kQuantColumnBlock / kUnitColumns;
struct Expanded {
  int16_t codes[kUnitsAtOnce][kUnitPairs][kStep][2];
  float scales[kUnitsAtOnce][2][kStep];  // per group
  float mins[kUnitsAtOnce][2][kStep];
};
static_assert(sizeof(Expanded) <= kMatMulScratchFloats * sizeof(float));

template <typename Format, int kPair>
HWY_INLINE void ExpandPairs(const uint32_t* HWY_RESTRICT codes,
                            int16_t (&to)[kUnitPairs][kStep][2]) {
  if constexpr (kPair < kUnitPairs) {
    const D16 d16;
    for (int v = 0; v < 2; ++v) {
      const V16 pair = PairCodes<Format, kPair>(codes + v * kLanes);
      const V16 offset = hn::Set(d16, static_cast<int16_t>(Format::kLayout.offset));
      hn::Store(hn::Sub(pair, offset), d16, &to[kPair][v * kLanes][0]);
    }
    ExpandPairs<Format, kPair + 1>(codes, to);
  }
}

template <typename Format>
void Expand(const std::byte* panel, int64_t first_unit, int64_t num_units, int64_t lane,
            Expanded& to) {
  for (int64_t i = 0; i < num_units; ++i) {
    const Unit unit = UnitAt<Format>(panel, first_unit + i);
    ExpandPairs<Format, 0>(unit.codes + lane, to.codes[i]);
    for (int group = 0; group < Format::kGroups; ++group) {
      for (int v = 0; v < 2; ++v) {
        const int64_t at = v * static_cast<int64_t>(kLanes);
        const auto scales = LoadScales<Format>(unit.head, unit.scales, group, lane + at);
        hn::Store(scales.scale, DF(), &to.scales[i][group][at]);
        hn::Store(scales.min, DF(), &to.mins[i][group][at]);
      }
    }
  }
}

// One tile of rows and one expanded block.
struct TilePass {
  const Expanded* weights;
  int64_t num_units;
  UnitRows x;
  Ahead ahead;
  int64_t asks;  // prefetches per unit
  TileOutput out;
};

template <int kRows, int kGroups, bool kHasMin>
HWY_INLINE void MultiplyGroup(const Expanded& weights, int64_t unit, int group, const UnitRows& x,
                              VF (&sums)[kRows][2]) {
  constexpr int kPairs = kUnitPairs / kGroups;
  const D16 d16;
  const DF df;
  VI32 products[kRows][2];
  KVGATE_UNROLL
  for (int r = 0; r < kRows; ++r) products[r][0] = products[r][1] = hn::Zero(DI32());
  // Straight-line code for the most frequent tile, as in matmul_quant_kernels.cc.
  constexpr int kStraight = (HWY_TARGET == HWY_AVX2 && kRows == kMaxTileRows) ? kPairs : 1;
  for (int begin = 0; begin < kPairs; begin += kStraight) {
    KVGATE_UNROLL
    for (int i = 0; i < kStraight; ++i) {
      const int pair = group * kPairs + begin + i;
      const V16 first = hn::Load(d16, &weights.codes[unit][pair][0][0]);
      const V16 second = hn::Load(d16, &weights.codes[unit][pair][kLanes][0]);
      KVGATE_UNROLL
      for (int r = 0; r < kRows; ++r) {
        const V16 value = hn::BitCast(d16, hn::Set(DI32(), x.pairs[pair * kRows + r]));
        products[r][0] = AddPairProduct(first, value, products[r][0]);
        products[r][1] = AddPairProduct(second, value, products[r][1]);
      }
    }
  }
  KVGATE_UNROLL
  for (int v = 0; v < 2; ++v) {
    const VF scale = hn::Load(df, &weights.scales[unit][group][v * kLanes]);
    const VF min = kHasMin ? hn::Load(df, &weights.mins[unit][group][v * kLanes]) : hn::Zero(df);
    KVGATE_UNROLL
    for (int r = 0; r < kRows; ++r) {
      AddGroup<kGroups, kRows, kHasMin>(products[r][v], scale, min, x, group, r, sums[r][v]);
    }
  }
}

template <int kRows, int kGroups, bool kHasMin>
void MultiplyTile(const TilePass& pass) {
  VF sums[kRows][2];
  KVGATE_UNROLL
  for (int r = 0; r < kRows; ++r) sums[r][0] = sums[r][1] = hn::Zero(DF());
  PrefetchTile<kRows>(pass.out);
  UnitRows x = pass.x;
  Ahead ahead = pass.ahead;
  for (int64_t unit = 0; unit < pass.num_units; ++unit) {
    for (int64_t i = 0; i < pass.asks; ++i) ahead.Ask();
    for (int group = 0; group < kGroups; ++group) {
      MultiplyGroup<kRows, kGroups, kHasMin>(*pass.weights, unit, group, x, sums);
    }
    NextUnit<kRows>(x);
  }
  AddTile(sums, pass.out);
}

template <int kGroups, bool kHasMin>
void MultiplyTileOf(int rows, const TilePass& pass) {
  switch (rows) {
    case 1:
      return MultiplyTile<1, kGroups, kHasMin>(pass);
    case 2:
      return MultiplyTile<2, kGroups, kHasMin>(pass);
    case 3:
      return MultiplyTile<3, kGroups, kHasMin>(pass);
    case 4:
      return MultiplyTile<4, kGroups, kHasMin>(pass);
    case 5:
      return MultiplyTile<5, kGroups, kHasMin>(pass);
    case 6:
      return MultiplyTile<6, kGroups, kHasMin>(pass);
    default:
      return MultiplyTile<kMaxTileRows, kGroups, kHasMin>(pass);
  }
}

template <typename Format>
void MultiplyManyRows(const MatMulPart& part) {
  auto& expanded = *reinterpret_cast<Expanded*>(part.scratch);
  constexpr size_t kLineBytes = 64;
  const size_t num_passes = part.tiles.size() * (kPanelRows / kStep);
  const int64_t asks = static_cast<int64_t>(
      (Format::kShape.block_bytes() / Format::kUnits / kLineBytes + num_passes) / num_passes);
  for (int64_t k = 0; k < part.x->columns; k += kQuantColumnBlock) {
    const int64_t count = std::min(kQuantColumnBlock, part.x->columns - k);
    const int64_t num_units = count / kUnitColumns;
    const auto offset = static_cast<int64_t>(PlanePanelBytes(part.weight->dtype(), k));
    const size_t bytes = PlanePanelBytes(part.weight->dtype(), count);
    for (int64_t panel = part.panel_begin; panel < part.panel_end; ++panel) {
      BlockAhead block_ahead(
          part, panel,
          {.offset = offset, .bytes = bytes, .asks = num_units * asks, .num_passes = num_passes});
      for (int64_t lane = 0; lane < kPanelRows; lane += kStep) {
        if (panel * kPanelRows + lane >= part.weight->rows()) break;
        Expand<Format>(part.weight->panel(panel), k / kUnitColumns, num_units, lane, expanded);
        for (const RowTile& tile : part.tiles) {
          MultiplyTileOf<Format::kGroups, Format::kShape.has_min()>(
              tile.rows, {.weights = &expanded,
                          .num_units = num_units,
                          .x = RowsAt(part, tile.first, k, count),
                          .ahead = block_ahead.NextPass(),
                          .asks = asks,
                          .out = OutputAt(part, tile.first, panel * kPanelRows + lane, k)});
        }
      }
    }
  }
}

// ---- for AMX --------------------------------------------------------------------------------

#if HWY_ARCH_X86 && HWY_TARGET == HWY_AVX3_DL

// Returns the low bytes of four int16, in their order.
HWY_INLINE VU32 LowBytes(V16 first, V16 second) {
  const DU32 du;
  const auto together = [&](V16 pair) {
    const VU32 bytes = hn::And(hn::BitCast(du, pair), hn::Set(du, 0x00ff00ffu));
    return hn::Or(bytes, hn::ShiftRight<8>(bytes));
  };
  const VU32 low = hn::And(together(first), hn::Set(du, 0xffffu));
  return hn::Or(low, hn::ShiftLeft<16>(together(second)));
}

template <typename Format, int kQuad>
HWY_INLINE void ExpandAmxQuads(const uint32_t* HWY_RESTRICT codes,
                               int8_t (&to)[kAmxUnitColumns / 4][kAmxOutputs][4]) {
  if constexpr (kQuad < kAmxUnitColumns / 4) {
    const V16 offset = hn::Set(D16(), static_cast<int16_t>(Format::kLayout.offset));
    const V16 first = hn::Sub(PairCodes<Format, 2 * kQuad>(codes), offset);
    const V16 second = hn::Sub(PairCodes<Format, 2 * kQuad + 1>(codes), offset);
    hn::StoreU(LowBytes(first, second), DU32(), reinterpret_cast<uint32_t*>(to[kQuad]));
    ExpandAmxQuads<Format, kQuad + 1>(codes, to);
  }
}

template <DType kDType>
void ExpandAmxFormat(const std::byte* panel, int64_t first_unit, int64_t num_units, int64_t lane,
                     AmxWeights* to) {
  using Format = PlaneFormat<kDType>;
  for (int64_t i = 0; i < num_units; ++i) {
    const Unit unit = UnitAt<Format>(panel, first_unit + i);
    ExpandAmxQuads<Format, 0>(unit.codes + lane, to->codes[i]);
    for (int group = 0; group < Format::kGroups; ++group) {
      const auto scales = LoadScales<Format>(unit.head, unit.scales, group, lane);
      hn::StoreU(scales.scale, DF(), to->scales[i * Format::kGroups + group]);
      hn::StoreU(scales.min, DF(), to->mins[i * Format::kGroups + group]);
    }
  }
}
#endif

// ---- table ----------------------------------------------------------------------------------

template <DType kDType>
void MultiplyFormat(const MatMulPart& part) {
  using Format = PlaneFormat<kDType>;
  // With short or emulated vectors the straight-line code would take minutes to compile.
  if constexpr (HWY_ARCH_X86 && HWY_TARGET < HWY_SSE4) {
    if (part.tiles.size() == 1 && part.tiles[0].rows == 1) return MultiplyFewRows<Format, 1>(part);
  }
  MultiplyManyRows<Format>(part);
}

void MultiplyPlanes(const MatMulPart& part) {
  switch (part.weight->dtype()) {
    case DType::kQ4_0:
      return MultiplyFormat<DType::kQ4_0>(part);
    case DType::kQ4_1:
      return MultiplyFormat<DType::kQ4_1>(part);
    case DType::kQ5_0:
      return MultiplyFormat<DType::kQ5_0>(part);
    case DType::kQ5_1:
      return MultiplyFormat<DType::kQ5_1>(part);
    case DType::kQ2_K:
      return MultiplyFormat<DType::kQ2_K>(part);
    case DType::kQ3_K:
      return MultiplyFormat<DType::kQ3_K>(part);
    case DType::kQ4_K:
      return MultiplyFormat<DType::kQ4_K>(part);
    case DType::kQ5_K:
      return MultiplyFormat<DType::kQ5_K>(part);
    case DType::kQ6_K:
      return MultiplyFormat<DType::kQ6_K>(part);
    case DType::kIQ4_NL:
      return MultiplyFormat<DType::kIQ4_NL>(part);
    case DType::kIQ4_XS:
      return MultiplyFormat<DType::kIQ4_XS>(part);
    case DType::kMXFP4:
      return MultiplyFormat<DType::kMXFP4>(part);
    default:
      KVGATE_CHECK(false, "a dtype with kernels of its own");
  }
}

#if HWY_ARCH_X86 && HWY_TARGET == HWY_AVX3_DL
void ExpandAmxPlanes(DType dtype, const std::byte* panel, int64_t first_unit, int64_t num_units,
                     int64_t lane, AmxWeights* to) {
  switch (dtype) {
    case DType::kQ4_0:
      return ExpandAmxFormat<DType::kQ4_0>(panel, first_unit, num_units, lane, to);
    case DType::kQ4_1:
      return ExpandAmxFormat<DType::kQ4_1>(panel, first_unit, num_units, lane, to);
    case DType::kQ5_0:
      return ExpandAmxFormat<DType::kQ5_0>(panel, first_unit, num_units, lane, to);
    case DType::kQ5_1:
      return ExpandAmxFormat<DType::kQ5_1>(panel, first_unit, num_units, lane, to);
    case DType::kQ2_K:
      return ExpandAmxFormat<DType::kQ2_K>(panel, first_unit, num_units, lane, to);
    case DType::kQ3_K:
      return ExpandAmxFormat<DType::kQ3_K>(panel, first_unit, num_units, lane, to);
    case DType::kQ4_K:
      return ExpandAmxFormat<DType::kQ4_K>(panel, first_unit, num_units, lane, to);
    case DType::kQ5_K:
      return ExpandAmxFormat<DType::kQ5_K>(panel, first_unit, num_units, lane, to);
    case DType::kQ6_K:
      return ExpandAmxFormat<DType::kQ6_K>(panel, first_unit, num_units, lane, to);
    case DType::kIQ4_NL:
      return ExpandAmxFormat<DType::kIQ4_NL>(panel, first_unit, num_units, lane, to);
    case DType::kIQ4_XS:
      return ExpandAmxFormat<DType::kIQ4_XS>(panel, first_unit, num_units, lane, to);
    case DType::kMXFP4:
      return ExpandAmxFormat<DType::kMXFP4>(panel, first_unit, num_units, lane, to);
    default:
      KVGATE_CHECK(false, "a dtype with kernels of its own");
  }
}

constexpr AmxPlaneKernels kAmxPlaneKernels = {.expand = ExpandAmxPlanes};
#else
constexpr AmxPlaneKernels kAmxPlaneKernels = {};
#endif

PlaneMatMulKernels MakePlaneMatMulKernels() {
  return {.multiply = MultiplyPlanes, .amx = kAmxPlaneKernels};
}

}  // namespace HWY_NAMESPACE
}  // namespace kvgate::kernels::cpu::matmul
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace kvgate::kernels::cpu::matmul {

HWY_EXPORT(MakePlaneMatMulKernels);

PlaneMatMulKernels PlaneMatMulKernelsFor(int64_t target) {
  const machine::ScopedTarget scoped(target);
  return HWY_DYNAMIC_DISPATCH(MakePlaneMatMulKernels)();
}

}  // namespace kvgate::kernels::cpu::matmul
#endif  // HWY_ONCE
