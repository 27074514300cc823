// Products of quantized weights with the AMX tile registers, for batches with enough rows. They use
// the same integers, and the same floats in the same order, as matmul_{quant,plane}_kernels.cc, so
// the results do not depend on which of the two was used:
//   x, an int16, is 256 * high + low; sum(w * x) = 256 * sum(w * high) + sum(w * low), exactly.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cpu/matmul/matmul_kernels.h"

namespace kvgate::kernels::cpu::matmul {

// Panels [panel_begin, panel_end) of one product, for rows [row_begin, row_end) of x.
struct AmxPart {
  const PackedWeight* weight = nullptr;
  const float* bias = nullptr;
  float* y = nullptr;  // row 0, column 0
  bool accumulate = false;
  int64_t panel_begin = 0;
  int64_t panel_end = 0;
  int row_begin = 0;  // a multiple of kAmxRows
  int row_end = 0;
  const AmxRows* x = nullptr;  // [tile of rows][unit]
  AmxQuantKernels quant_kernels;
  AmxPlaneKernels plane_kernels;
  std::byte* scratch = nullptr;  // kAmxScratchBytes of this thread, aligned
};

// The weights, and two buffers with a tile of `high` and one of `low` each.
inline constexpr size_t kAmxScratchBytes =
    sizeof(AmxWeights) + 2 * 2 * sizeof(int32_t) * kAmxRows * kAmxOutputs;

// Multiplies full tiles in registers `rounds` times and returns the number of operations. REQUIRES:
// HasAmx().
double RunAmxTiles(int64_t rounds);

// REQUIRES: HasAmx().
void MultiplyAmx(const AmxPart& part);

}  // namespace kvgate::kernels::cpu::matmul
