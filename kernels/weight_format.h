// The formats in which a model file can hold a matrix: one table, one entry for each DType of
// weights; behind them what only KV is stored in, which no file holds.
// Whoever reads, makes, converts or multiplies weights takes sizes and meanings from here. The
// values of the quantized formats below 8 bits follow from their layout in quant_parts.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "kernels/dtype.h"

namespace kvgate::kernels {

inline constexpr uint32_t kNoGgufType = 0xffffffffu;

struct WeightFormat {
  DType dtype = DType::kF32;
  std::string_view name;   // "q4_k"
  uint32_t gguf_type = 0;  // its number in a GGUF file; kNoGgufType: none
  int elements = 0;        // that share a block
  size_t bytes = 0;        // of a block
  // One block to f32, exactly as the format defines it, and back by rounding to nearest (no search
  // for better scales). Blocks may be unaligned. Where a value is NaN its whole block becomes NaN;
  // what is beyond the format's range saturates. MXFP4 knows no NaN and saturates there too.
  void (*dequantize)(const std::byte* block, float* values) = nullptr;
  void (*quantize)(const float* values, std::byte* block) = nullptr;
};

// Those of weights, in the order of DType.
std::span<const WeightFormat> WeightFormats();
// Of any DType.
const WeightFormat& WeightFormatOf(DType dtype);
// Null when no format has this number.
const WeightFormat* FindWeightFormat(uint32_t gguf_type);

// `count` consecutive elements, a multiple of the block's.
void DequantizeValues(DType dtype, const std::byte* from, int64_t count, float* to);
void QuantizeValues(DType dtype, const float* from, int64_t count, std::byte* to);

}  // namespace kvgate::kernels
