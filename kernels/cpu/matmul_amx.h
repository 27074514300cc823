// Products of quantized weights by the tile registers of AMX: of whole tiles of rows, where a batch
// has enough of them. The same integers and the same floats in the same order as
// matmul_{quant,plane}_kernels.cc, so which of the two served a row does not show:
//   x, an int16, is 256 * high + low; sum(w * x) = 256 * sum(w * high) + sum(w * low), exactly.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "kernels/cpu/matmul_kernels.h"

namespace kvgate::kernels::cpu {

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

// The weights, and two buffers of a tile of `high` and one of `low`.
inline constexpr size_t kAmxScratchBytes =
    sizeof(AmxWeights) + 2 * 2 * sizeof(int32_t) * kAmxRows * kAmxOutputs;

// Whether the processor has int8 tiles and the system lets this process use them. Asks the system
// once; the answer holds for all threads.
bool HasAmx();
// "" where there is AMX.
std::string_view WhyNoAmx();

// Multiplies full tiles in registers `rounds` times; the number of operations. REQUIRES: HasAmx().
double RunAmxTiles(int64_t rounds);

// REQUIRES: HasAmx().
void MultiplyAmx(const AmxPart& part);

}  // namespace kvgate::kernels::cpu
