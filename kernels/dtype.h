// Element types of weights and KV, and the sizes of their storage.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace kvgate::kernels {

enum class DType : uint8_t { kF32 = 0, kF16 = 1, kBF16 = 2, kQ8_0 = 3 };

// Q8_0, as ggml defines it: 32 consecutive elements of a row share one f16 scale.
//   value[i] = scale * quants[i]
struct QuantBlockQ8_0 {
  static constexpr int kElements = 32;
  uint16_t scale;  // f16 bits
  int8_t quants[kElements];
};
static_assert(sizeof(QuantBlockQ8_0) == 34);

// Bytes of `count` consecutive elements; count must be a multiple of DTypeElements(dtype).
size_t DTypeBytes(DType dtype, size_t count);
// Elements that share one unit of storage: 32 for Q8_0, else 1.
int DTypeElements(DType dtype);
// "f32", "f16", "bf16", "q8_0"
std::string_view DTypeName(DType dtype);

// Round-to-nearest-even conversions, the same on every target.
uint16_t F32ToF16(float value);
float F16ToF32(uint16_t bits);
uint16_t F32ToBF16(float value);
float BF16ToF32(uint16_t bits);

}  // namespace kvgate::kernels
