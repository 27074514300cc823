// The memory layout of a panel of a quantized format below 8 bits. It holds the integers of the
// file in another order, so 4-bit weights stay 4-bit. It does not depend on the vector length.
//
// Columns are grouped into units of 32. A panel is a sequence of blocks of 32 or 256 columns, each
// with
//   head:    the rows' scales (f16, or one exponent byte), then their f16 mins if there are any;
//   units, each: scales of the unit's groups [group][row], one byte each, then their mins likewise
//            (Q2_K: scale and min share a byte), then the codes.
// Codes are split into planes of 4, 2 or 1 bits, low bits first. A plane of b bits has b words of
// 32 bits per row, [word][row]. A word holds 16 / b pairs of columns: pair p has its first column
// at bit p * b and its second at bit 16 + p * b. So one shift and one mask give a vector of int16
// pairs, which is the operand of a pair product.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/backend.h"
#include "kernels/cpu/matmul/packed_weight.h"
#include "kernels/quant_parts.h"

namespace kvgate::kernels::cpu::matmul {

inline constexpr int kUnitColumns = 32;
inline constexpr int kUnitPairs = kUnitColumns / 2;

struct PlaneShape {
  QuantLayout layout;

  // Low and high bits add up to 4 + 0, 4 + 1, 4 + 2, 2 + 0 or 2 + 1.
  constexpr int low_bits() const { return layout.bits >= 4 ? 4 : 2; }
  constexpr int high_bits() const { return layout.bits - low_bits(); }
  constexpr int units() const { return layout.elements / kUnitColumns; }
  constexpr int groups() const { return kUnitColumns / layout.group; }  // per unit
  constexpr bool has_min() const { return layout.min != QuantMin::kNone; }
  constexpr bool shares_scale_byte() const {
    return layout.min == QuantMin::kOfGroups && layout.group_scale_max < 16;
  }

  constexpr size_t scale_bytes() const { return layout.scale == QuantScale::kF16 ? 2 : 1; }
  constexpr size_t head_bytes() const {
    return kPanelRows * (scale_bytes() + (has_min() ? sizeof(uint16_t) : 0));
  }
  // Returns the bytes of one unit before its codes.
  constexpr size_t group_bytes() const {
    if (!layout.has_group_scales()) return 0;
    const bool apart = layout.min == QuantMin::kOfGroups && !shares_scale_byte();
    return static_cast<size_t>(kPanelRows) * groups() * (apart ? 2 : 1);
  }
  constexpr size_t unit_bytes() const {
    return group_bytes() + static_cast<size_t>(kPanelRows) * layout.bits * sizeof(uint32_t);
  }
  constexpr size_t block_bytes() const { return head_bytes() + units() * unit_bytes(); }
};

constexpr PlaneShape PlaneShapeOf(DType dtype) { return {.layout = QuantLayoutOf(dtype)}; }

// Returns the bytes of a panel with that many columns. REQUIRES: HasQuantLayout(dtype).
size_t PlanePanelBytes(DType dtype, int64_t columns);
// Fills one zeroed panel with rows [first_row, first_row + num_rows) of the view.
void PackPlanePanel(const WeightView& view, int64_t first_row, int num_rows, std::byte* panel);

}  // namespace kvgate::kernels::cpu::matmul
