// What the tile registers of AMX multiply: rows of x and weights, laid out for them. Which kernels
// make them is part of the tables of matmul_kernels.h; matmul_amx.h multiplies them.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/dtype.h"

namespace kvgate::kernels::cpu {

inline constexpr int kAmxRows = 16;     // of x, in a tile
inline constexpr int kAmxOutputs = 16;  // of a weight, in a tile
inline constexpr int kAmxUnitColumns = 32;
inline constexpr int kAmxUnitsAtOnce = 16;

// 32 columns of 16 rows of x. An int16 of it is 256 * high + low.
struct AmxRows {
  int8_t high[kAmxRows][kAmxUnitColumns];
  uint8_t low[kAmxRows][kAmxUnitColumns];
  float scales[kAmxRows];
  // Scale times the sum of the int16: of all columns, and of either half.
  float totals[3][kAmxRows];
};
static_assert(sizeof(AmxRows) % 64 == 0);

// Up to 512 columns of 16 outputs: codes in the order that a tile wants, four columns side by side;
// scales and mins of one group of 32 or 16 columns after the other.
struct AmxWeights {
  int8_t codes[kAmxUnitsAtOnce][kAmxUnitColumns / 4][kAmxOutputs][4];
  float scales[kAmxUnitsAtOnce * 2][kAmxOutputs];
  float mins[kAmxUnitsAtOnce * 2][kAmxOutputs];
};

// Null where the SIMD target has no 512-bit vectors and VNNI: AMX comes with both.
struct AmxQuantKernels {
  // Quantizes up to 16 rows of x [.., columns] into units [columns / 32], as for every other kernel
  // of quantized weights.
  void (*quantize_rows)(const float* x, int64_t columns, int num_rows, AmxRows* to) = nullptr;
  // Outputs [lane, lane + 16) of a q8_0 panel, for num_units units from first_unit on.
  void (*expand)(const std::byte* panel, int64_t first_unit, int64_t num_units, int64_t lane,
                 AmxWeights* to) = nullptr;
};
struct AmxPlaneKernels {
  // The same of a format of codes.
  void (*expand)(DType dtype, const std::byte* panel, int64_t first_unit, int64_t num_units,
                 int64_t lane, AmxWeights* to) = nullptr;
};

}  // namespace kvgate::kernels::cpu
