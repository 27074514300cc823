// Element types of weights and KV, and the sizes of their storage.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace kvgate::kernels {

// kernels/weight_format.h defines the meaning of each format.
enum class DType : uint8_t {
  kF32 = 0,
  kF16 = 1,
  kBF16 = 2,
  kQ8_0 = 3,
  kQ4_0 = 4,
  // The following are used for weights only.
  kQ4_1 = 5,
  kQ5_0 = 6,
  kQ5_1 = 7,
  kQ2_K = 8,
  kQ3_K = 9,
  kQ4_K = 10,
  kQ5_K = 11,
  kQ6_K = 12,
  kIQ4_NL = 13,
  kIQ4_XS = 14,
  kMXFP4 = 15,
  // Used for KV only.
  kF8E4M3 = 16,
};

// The dtypes in which KV can be stored.
inline constexpr DType kKvDTypes[] = {DType::kF32,    DType::kF16,  DType::kBF16,
                                      DType::kF8E4M3, DType::kQ8_0, DType::kQ4_0};

// Q8_0, as ggml defines it: 32 consecutive elements of a row share one f16 scale.
//   value[i] = scale * quants[i]
struct QuantBlockQ8_0 {
  static constexpr int kElements = 32;
  uint16_t scale;  // f16 bits
  int8_t quants[kElements];
};
static_assert(sizeof(QuantBlockQ8_0) == 34);

// Q4_0, as ggml defines it: the low half of quants[j] is element j, the high half element j + 16.
//   value[i] = scale * (nibble[i] - 8)
struct QuantBlockQ4_0 {
  static constexpr int kElements = 32;
  uint16_t scale;  // f16 bits, of either sign
  uint8_t quants[kElements / 2];
};
static_assert(sizeof(QuantBlockQ4_0) == 18);

// Returns the bytes of `count` consecutive elements, a multiple of DTypeElements(dtype).
size_t DTypeBytes(DType dtype, size_t count);
// Returns the elements that share one unit of storage: 256 for Q2_K to Q6_K and IQ4_XS, 32 for the
// other quantized ones, 1 for f32, f16, bf16 and fp8_e4m3.
int DTypeElements(DType dtype);
// Returns names such as "f32", "q8_0", "q4_k", "iq4_nl" and "fp8_e4m3".
std::string_view DTypeName(DType dtype);
// Returns null if no dtype has this name.
std::optional<DType> FindDType(std::string_view name);
// IsKvDType: one of kKvDTypes. IsWeightDType: a model file can hold a matrix of this dtype.
bool IsKvDType(DType dtype);
bool IsWeightDType(DType dtype);

// These conversions round to nearest even and are the same on every target.
uint16_t F32ToF16(float value);
float F16ToF32(uint16_t bits);
uint16_t F32ToBF16(float value);
float BF16ToF32(uint16_t bits);
// E4M3 of the OCP 8-bit floating point specification: 1 sign bit, 4 exponent bits with bias 7, 3
// mantissa bits, subnormals, no infinity, and one NaN per sign (all other bits set). The smallest
// value above 0 is 2^-9, the largest 448. Larger values and infinities saturate; NaN stays NaN.
uint8_t F32ToF8E4M3(float value);
float F8E4M3ToF32(uint8_t bits);

// Quantization of 32 values, rounded as ggml does; the same on every target.
//   Q8_0: d = amax / 127, quant = round(x / d), halves away from zero
//   Q4_0: d = m / -8 for the m of largest magnitude, nibble = min(15, floor(x / d + 8.5))
// d is stored as f16, after the division. Cases that ggml leaves open: a d beyond the range of f16
// becomes the largest f16 and values saturate; if d rounds to 0, all values are 0; a NaN makes all
// 32 values NaN.
void QuantizeBlock(const float* values, QuantBlockQ8_0* block);
void QuantizeBlock(const float* values, QuantBlockQ4_0* block);
// Exact, because an f16 scale (11 bits) times an 8-bit integer fits the 24 bits of an f32.
void DequantizeBlock(const QuantBlockQ8_0& block, float* values);
void DequantizeBlock(const QuantBlockQ4_0& block, float* values);

}  // namespace kvgate::kernels
