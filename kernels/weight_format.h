// The formats in which a model file can hold a matrix: a table with one entry per DType of weights,
// followed by the dtypes for KV only, which files do not contain. All code that reads, creates,
// converts or multiplies weights takes sizes and conversions from here. The values of the quantized
// formats below 8 bits follow from their layout in quant_parts.h.
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
  std::string_view name;   // such as "q4_k"
  uint32_t gguf_type = 0;  // type number in a GGUF file; kNoGgufType means none
  int elements = 0;        // per block
  size_t bytes = 0;        // per block
  // Convert one block to f32, exactly as the format defines it, and back, rounding to nearest
  // (without a search for better scales). Blocks may be unaligned. If a value is NaN, its whole
  // block becomes NaN; values beyond the format's range saturate. MXFP4 has no NaN and saturates in
  // that case too.
  void (*dequantize)(const std::byte* block, float* values) = nullptr;
  void (*quantize)(const float* values, std::byte* block) = nullptr;
};

// The weight formats, in the order of DType.
std::span<const WeightFormat> WeightFormats();
// Works for every DType.
const WeightFormat& WeightFormatOf(DType dtype);
// Returns null if no format has this number.
const WeightFormat* FindWeightFormat(uint32_t gguf_type);

// `count` is the number of consecutive elements; a multiple of the block's.
void DequantizeValues(DType dtype, const std::byte* from, int64_t count, float* to);
void QuantizeValues(DType dtype, const float* from, int64_t count, std::byte* to);

}  // namespace kvgate::kernels
