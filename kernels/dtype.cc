#include "kernels/dtype.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <iterator>

#include "base/check.h"
#include "kernels/weight_format.h"

namespace kvgate::kernels {

namespace {

constexpr uint16_t kNanF16 = 0x7e00;
constexpr float kLargestF16 = 65504.0f;

// Returns the value of largest magnitude, the first if there are several, or NaN if one is NaN.
float LargestOf(const float* values, int count) {
  float largest = 0;
  for (int i = 0; i < count; ++i) {
    if (std::isnan(values[i])) return values[i];
    if (std::abs(values[i]) > std::abs(largest)) largest = values[i];
  }
  return largest;
}

}  // namespace

int DTypeElements(DType dtype) { return WeightFormatOf(dtype).elements; }

size_t DTypeBytes(DType dtype, size_t count) {
  const WeightFormat& format = WeightFormatOf(dtype);
  const auto elements = static_cast<size_t>(format.elements);
  KVGATE_CHECK(count % elements == 0, "rows of this dtype come in whole blocks");
  return count / elements * format.bytes;
}

std::string_view DTypeName(DType dtype) { return WeightFormatOf(dtype).name; }

std::optional<DType> FindDType(std::string_view name) {
  for (const WeightFormat& format : WeightFormats()) {
    if (format.name == name) return format.dtype;
  }
  for (const DType dtype : kKvDTypes) {
    if (DTypeName(dtype) == name) return dtype;
  }
  return std::nullopt;
}

bool IsKvDType(DType dtype) {
  return std::find(std::begin(kKvDTypes), std::end(kKvDTypes), dtype) != std::end(kKvDTypes);
}

bool IsWeightDType(DType dtype) {
  return static_cast<size_t>(dtype) < WeightFormats().size();  // weight dtypes come first in DType
}

uint16_t F32ToF16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint32_t sign = (bits >> 16) & 0x8000u;
  const uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u)
    return static_cast<uint16_t>(sign | 0x7e00u | (magnitude >> 13 & 0x1ffu));
  if (magnitude >= 0x477ff000u) return static_cast<uint16_t>(sign | 0x7c00u);  // rounds to infinity
  if (magnitude < 0x38800000u) {  // subnormal in f16, or zero
    if (magnitude < 0x33000000u) return static_cast<uint16_t>(sign);
    const int shift = 126 - static_cast<int>(magnitude >> 23);  // 14..24
    const uint32_t mantissa = (magnitude & 0x7fffffu) | 0x800000u;
    const uint32_t kept = mantissa >> shift;
    const uint32_t rest = mantissa & ((1u << shift) - 1);
    const uint32_t half = 1u << (shift - 1);
    const uint32_t up = rest > half || (rest == half && (kept & 1u));
    return static_cast<uint16_t>(sign | (kept + up));
  }
  const uint32_t rounded = magnitude + 0xfffu + ((magnitude >> 13) & 1u);
  return static_cast<uint16_t>(sign | ((rounded - 0x38000000u) >> 13));
}

float F16ToF32(uint16_t bits) {
  const uint32_t sign = static_cast<uint32_t>(bits & 0x8000u) << 16;
  const uint32_t exponent = (bits >> 10) & 0x1fu;
  uint32_t mantissa = bits & 0x3ffu;
  if (exponent == 0x1fu) return std::bit_cast<float>(sign | 0x7f800000u | (mantissa << 13));
  if (exponent != 0)
    return std::bit_cast<float>(sign | ((exponent + 112) << 23) | (mantissa << 13));
  if (mantissa == 0) return std::bit_cast<float>(sign);
  const int shift = std::countl_zero(mantissa) - 21;  // brings the leading one to bit 10
  mantissa = (mantissa << shift) & 0x3ffu;
  return std::bit_cast<float>(sign | (static_cast<uint32_t>(113 - shift) << 23) | (mantissa << 13));
}

uint16_t F32ToBF16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return static_cast<uint16_t>((bits >> 16) | 0x40u);
  return static_cast<uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

float BF16ToF32(uint16_t bits) { return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16); }

uint8_t F32ToF8E4M3(float value) {
  constexpr uint32_t kLargest = 0x43e00000u;         // 448
  constexpr uint32_t kSmallestNormal = 0x3c800000u;  // 2^-6
  constexpr uint32_t kBias = 120u << 23;             // difference of f32 and E4M3 exponent bias
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint32_t sign = (bits >> 24) & 0x80u;
  uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return static_cast<uint8_t>(sign | 0x7fu);
  magnitude = std::min(magnitude, kLargest);
  if (magnitude < kSmallestNormal) {
    // Near 2^14 the last bit of an f32 is 2^-9, the unit of E4M3's subnormals, so the addition
    // rounds.
    constexpr float kShift = 16384.0f;
    const float sum = std::bit_cast<float>(magnitude) + kShift;
    return static_cast<uint8_t>(sign |
                                (std::bit_cast<uint32_t>(sum) - std::bit_cast<uint32_t>(kShift)));
  }
  const uint32_t rounded = magnitude + 0x7ffffu + ((magnitude >> 20) & 1u);
  return static_cast<uint8_t>(sign | ((rounded - kBias) >> 20));
}

float F8E4M3ToF32(uint8_t bits) {
  const uint32_t sign = static_cast<uint32_t>(bits & 0x80u) << 24;
  const uint32_t magnitude = bits & 0x7fu;
  if (magnitude == 0x7fu) return std::bit_cast<float>(sign | 0x7fc00000u);
  if (magnitude < 8) {
    const float value = static_cast<float>(magnitude) * 0x1p-9f;
    return std::bit_cast<float>(sign | std::bit_cast<uint32_t>(value));
  }
  return std::bit_cast<float>(sign | ((magnitude << 20) + (120u << 23)));
}

void QuantizeBlock(const float* values, QuantBlockQ8_0* block) {
  constexpr int kLargestQuant = 127;
  *block = {};
  const float largest = LargestOf(values, QuantBlockQ8_0::kElements);
  if (std::isnan(largest)) {
    block->scale = kNanF16;
    return;
  }
  const float d = std::min(std::abs(largest) / kLargestQuant, kLargestF16);
  block->scale = F32ToF16(d);
  if (block->scale == 0) return;
  const float inverse = 1.0f / d;
  for (int i = 0; i < QuantBlockQ8_0::kElements; ++i) {
    const float scaled = std::clamp<float>(values[i] * inverse, -kLargestQuant, kLargestQuant);
    block->quants[i] = static_cast<int8_t>(std::round(scaled));
  }
}

void QuantizeBlock(const float* values, QuantBlockQ4_0* block) {
  constexpr int kHalf = QuantBlockQ4_0::kElements / 2;
  std::fill_n(block->quants, kHalf, uint8_t{0x88});  // 0x8 encodes the value zero
  block->scale = 0;
  const float largest = LargestOf(values, QuantBlockQ4_0::kElements);
  if (std::isnan(largest)) {
    block->scale = kNanF16;
    return;
  }
  const float d = std::clamp(largest / -8.0f, -kLargestF16, kLargestF16);
  const uint16_t scale = F32ToF16(d);
  if ((scale & 0x7fffu) == 0) return;
  block->scale = scale;
  const float inverse = 1.0f / d;
  const auto nibble = [&](float value) {
    return static_cast<unsigned>(std::clamp(value * inverse + 8.5f, 0.0f, 15.0f));
  };
  for (int i = 0; i < kHalf; ++i) {
    block->quants[i] = static_cast<uint8_t>(nibble(values[i]) | nibble(values[i + kHalf]) << 4);
  }
}

void DequantizeBlock(const QuantBlockQ8_0& block, float* values) {
  const float scale = F16ToF32(block.scale);
  for (const int8_t quant : block.quants) *values++ = scale * static_cast<float>(quant);
}

void DequantizeBlock(const QuantBlockQ4_0& block, float* values) {
  constexpr int kHalf = QuantBlockQ4_0::kElements / 2;
  const float scale = F16ToF32(block.scale);
  for (int i = 0; i < kHalf; ++i) {
    values[i] = scale * static_cast<float>((block.quants[i] & 15) - 8);
    values[i + kHalf] = scale * static_cast<float>((block.quants[i] >> 4) - 8);
  }
}

}  // namespace kvgate::kernels
