// Operands of the AMX tile registers: rows of x and weights in the layout that tiles need. The
// tables of matmul_kernels.h contain the kernels that fill them; matmul_amx.h multiplies them.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/dtype.h"

namespace kvgate::kernels::cpu::matmul {

inline constexpr int kAmxRows = 16;     // rows of x per tile
inline constexpr int kAmxOutputs = 16;  // outputs of a weight per tile
inline constexpr int kAmxUnitColumns = 32;
inline constexpr int kAmxUnitsAtOnce = 16;

// 32 columns of 16 rows of x, as int16 values 256 * high + low.
struct AmxRows {
  int8_t high[kAmxRows][kAmxUnitColumns];
  uint8_t low[kAmxRows][kAmxUnitColumns];
  float scales[kAmxRows];
  // Scale times the sum of the int16 values: over all 32 columns, and over each half.
  float totals[3][kAmxRows];
};
static_assert(sizeof(AmxRows) % 64 == 0);

// Up to 512 columns of 16 outputs: codes in the order of a tile, with four columns side by side,
// then scales and mins of successive groups of 32 or 16 columns.
struct AmxWeights {
  int8_t codes[kAmxUnitsAtOnce][kAmxUnitColumns / 4][kAmxOutputs][4];
  float scales[kAmxUnitsAtOnce * 2][kAmxOutputs];
  float mins[kAmxUnitsAtOnce * 2][kAmxOutputs];
};

// The functions are null if the SIMD target lacks 512-bit vectors and VNNI, which all AMX machines
// have.
struct AmxQuantKernels {
  // Quantizes up to 16 rows of x [.., columns] into units [columns / 32], to the same integers as
  // the vector kernels of quantized weights.
  void (*quantize_rows)(const float* x, int64_t columns, int num_rows, AmxRows* to) = nullptr;
  // Expands outputs [lane, lane + 16) of a q8_0 panel, num_units units from first_unit on.
  void (*expand)(const std::byte* panel, int64_t first_unit, int64_t num_units, int64_t lane,
                 AmxWeights* to) = nullptr;
};
struct AmxPlaneKernels {
  // The same for a format of codes.
  void (*expand)(DType dtype, const std::byte* panel, int64_t first_unit, int64_t num_units,
                 int64_t lane, AmxWeights* to) = nullptr;
};

}  // namespace kvgate::kernels::cpu::matmul
