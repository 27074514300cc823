// The inner loops of MatMul, three tables of functions per SIMD target. matmul.h splits a product
// into parts for them.
//
// Numerics, equal for every split (the bits of y[r, n] depend on row r of x only):
//   f32, f16, bf16: y = base + p0 + p1 + ..., where p_b is the sum over the b-th 256 columns, from
//     zero, one fused multiply-add per column in rising order.
//   q8_0: x is quantized per row and 32 columns to int16 (scale max|x| / 32767, nearest even);
//     products are summed exactly in int32 over 32 columns; p_b is the sum over the b-th 512
//     columns, one fused multiply-add of (int sum, scale of w * scale of x) per 32 columns.
//   formats of codes (q4_0 ... mxfp4): x as for q8_0. Per group of 16 or 32 columns, the products
//     of x and the codes' integer values are summed exactly in int32; p_b is the sum over the b-th
//     512 columns, one fused multiply-add of (int sum, scale of the group * scale of x) per group,
//     and for formats with mins another one of (min, sum of x).
//   base = (bias or 0) + (old y, if accumulate).
#pragma once

#include <cstdint>
#include <span>

#include "kernels/cpu/matmul/amx_operands.h"
#include "kernels/cpu/matmul/packed_weight.h"

namespace kvgate::kernels::cpu::matmul {

// A register tile covers the rows [first, first + rows) of x.
struct RowTile {
  int first = 0;
  int rows = 0;
};

// x of one call, packed for the register tiles. Columns are split into blocks of kColumnBlock.
// Block b starts at element num_rows * kColumnBlock * b and holds its tiles in order; a tile is
// [column][row].
struct PackedRows {
  int num_rows = 0;
  int64_t columns = 0;
  const float* values = nullptr;   // blocks of kFloatColumnBlock
  const int32_t* pairs = nullptr;  // two int16 columns each; blocks of kQuantColumnBlock columns
  const float* scales = nullptr;   // one per 32 columns, in the order of `pairs`
  const int32_t* sums = nullptr;   // sums of the quants of 16 columns, in the order of `pairs`
};

inline constexpr int64_t kFloatColumnBlock = 256;
inline constexpr int64_t kQuantColumnBlock = 512;
// The scratch holds kFloatColumnBlock columns of a panel as f32, or two vectors of outputs of
// kQuantColumnBlock columns as int16 with their scales: 40 KiB with the longest vectors.
inline constexpr size_t kMatMulScratchFloats = 10 * 1024;
static_assert(kMatMulScratchFloats >= kFloatColumnBlock * kPanelRows);

// Panels [panel_begin, panel_end) of one product, for some row tiles.
struct MatMulPart {
  const PackedWeight* weight = nullptr;
  const float* bias = nullptr;
  float* y = nullptr;  // row 0, column 0
  bool accumulate = false;
  int64_t panel_begin = 0;
  int64_t panel_end = 0;
  const PackedRows* x = nullptr;
  std::span<const RowTile> tiles;
  float* scratch = nullptr;  // kMatMulScratchFloats of this thread, aligned
};

// For f32, f16 and bf16.
struct FloatMatMulKernels {
  // A tile has 1..6 rows, or max_tile_rows; this holds for the quantized kernels too.
  int max_tile_rows = 0;
  // Packs one tile of x [num_rows, columns] into its place in `values`.
  void (*pack_rows)(const float* x, int64_t columns, int num_rows, RowTile tile, float* values);
  void (*multiply)(const MatMulPart& part);
};

// The destination of the quantized rows of x; see PackedRows.
struct QuantizedRows {
  int32_t* pairs = nullptr;
  float* scales = nullptr;
  int32_t* sums = nullptr;
};

// For q8_0.
struct QuantMatMulKernels {
  // Quantizes one tile into its place; columns is a multiple of 32.
  void (*quantize_rows)(const float* x, int64_t columns, int num_rows, RowTile tile,
                        const QuantizedRows& to);
  void (*multiply)(const MatMulPart& part);
  AmxQuantKernels amx;
};

// For the formats that packed_planes.h packs; x is quantized as for q8_0.
struct PlaneMatMulKernels {
  void (*multiply)(const MatMulPart& part);
  AmxPlaneKernels amx;
};

FloatMatMulKernels FloatMatMulKernelsFor(int64_t target);  // matmul_kernels.cc
QuantMatMulKernels QuantMatMulKernelsFor(int64_t target);  // matmul_quant_kernels.cc
PlaneMatMulKernels PlaneMatMulKernelsFor(int64_t target);  // matmul_plane_kernels.cc

}  // namespace kvgate::kernels::cpu::matmul
