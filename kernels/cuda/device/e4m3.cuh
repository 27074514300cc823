// Conversion of E4M3 values of KV to f16 and back, as kernels/dtype.h defines them. The conversion
// to f16 is exact; compute capability 8.9 has an instruction for it, other devices use bit
// operations.
#pragma once

#include "kernels/cuda/device/device.cuh"

namespace kvgate::kernels::cuda::device {

// Converts bytes 1 and 3 of `bytes` to a pair of f16. Bytes 0 and 2 must be 0.
KVGATE_DEVICE uint32_t SpreadE4m3ToHalf2(uint32_t bytes) {
  const uint32_t fields = (bytes & 0x7f007f00u) >> 1;  // f16's bias is 8 more: values / 256
  const uint32_t is_nan = ((bytes & 0x7f007f00u) + 0x01000100u) & 0x80008000u;
  constexpr uint32_t kFactor = 0x5c005c00u;  // 256; a product of a subnormal is exact too
  const uint32_t values = HalfMul2(fields | (bytes & 0x80008000u), kFactor);
  return values | (is_nan - (is_nan >> 15));
}

// Converts four values to two pairs.
KVGATE_DEVICE void E4m3ToHalf4(uint32_t bytes, uint32_t& low, uint32_t& high) {
#if !KVGATE_CUDA_EMULATED && defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 890
  asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(low) : "h"(static_cast<uint16_t>(bytes)));
  asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(high) : "h"(static_cast<uint16_t>(bytes >> 16)));
#else
  low = SpreadE4m3ToHalf2((bytes & 0xffu) << 8 | (bytes & 0xff00u) << 16);
  high = SpreadE4m3ToHalf2((bytes & 0xff0000u) >> 8 | (bytes & 0xff000000u));
#endif
}

// As F32ToF8E4M3 of kernels/dtype.h.
KVGATE_DEVICE uint8_t FloatToE4m3(float value) {
  constexpr uint32_t kLargest = 0x43e00000u;         // 448
  constexpr uint32_t kSmallestNormal = 0x3c800000u;  // 2^-6
  const uint32_t bits = FloatToBits(value);
  const uint32_t sign = bits >> 24 & 0x80u;
  uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return static_cast<uint8_t>(sign | 0x7fu);
  if (magnitude > kLargest) magnitude = kLargest;
  if (magnitude < kSmallestNormal) {
    constexpr float kShift = 16384.0f;  // 2^14 + a subnormal has its last bit at 2^-9
    return static_cast<uint8_t>(
        sign | (FloatToBits(BitsToFloat(magnitude) + kShift) - FloatToBits(kShift)));
  }
  const uint32_t rounded = magnitude + 0x7ffffu + (magnitude >> 20 & 1u);
  return static_cast<uint8_t>(sign | (rounded - (120u << 23)) >> 20);
}

}  // namespace kvgate::kernels::cuda::device
