// Splits quantized blocks into integers: codes, scales of groups, scale of the block. All formats
// below 8 bits share one structure, whose parameters QuantLayout holds:
//   value[i] = s * v(code[i]) - m,  v(code) = codebook ? codebook[code] : code - offset
//   s = scale, or scale * group_scales[i / group]       (rounded to f32)
//   m = 0, -min, or min * group_mins[i / group]         (rounded to f32)
// Therefore dequantizing, quantizing and packing for a backend are written only once. The two
// products and the difference are rounded separately, as the definition of the formats requires.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "kernels/dtype.h"

namespace kvgate::kernels {

inline constexpr int kQuantElementsMax = 256;
inline constexpr int kQuantGroupsMax = 16;

enum class QuantScale : uint8_t { kF16, kExponent };  // f16 bits, or E8M0: half of 2^(e - 127)
enum class QuantMin : uint8_t { kNone, kAdded, kOfGroups };

struct QuantLayout {
  int elements = 0;  // per block
  int group = 0;     // elements that share a scale: 16 or 32
  int bits = 0;      // per code: 2 to 6
  int offset = 0;
  const int8_t* codebook = nullptr;  // [16] or null
  QuantScale scale = QuantScale::kF16;
  // Bounds of a group's scale; a group's min has the range 0..group_scale_max. 0 and 0 mean none.
  int group_scale_min = 0;
  int group_scale_max = 0;
  QuantMin min = QuantMin::kNone;

  constexpr bool has_group_scales() const { return group_scale_max != 0; }
  constexpr int num_groups() const { return elements / group; }
  // Returns the value of a code before scaling.
  constexpr int ValueOf(int code) const {
    return codebook != nullptr ? codebook[code] : code - offset;
  }
};

struct QuantParts {
  uint16_t scale = 0;  // f16 bits, or the exponent byte
  uint16_t min = 0;    // f16 bits
  std::array<int16_t, kQuantGroupsMax> group_scales{};
  std::array<uint8_t, kQuantGroupsMax> group_mins{};
  std::array<uint8_t, kQuantElementsMax> codes{};
};

// Values by code. Those of MXFP4 are twice the E2M1 numbers; its negative zero is read as zero.
inline constexpr int8_t kCodebookIq4[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                            1,    13,   25,  38,  53,  69,  89,  113};
inline constexpr int8_t kCodebookMxfp4[16] = {0, 1,  2,  3,  4,  6,  8,  12,
                                              0, -1, -2, -3, -4, -6, -8, -12};

// f32, f16, bf16 and q8_0 have no layout: theirs is all zero.
constexpr QuantLayout QuantLayoutOf(DType dtype) {
  switch (dtype) {
    case DType::kQ4_0:
      return {.elements = 32, .group = 32, .bits = 4, .offset = 8};
    case DType::kQ4_1:
      return {.elements = 32, .group = 32, .bits = 4, .min = QuantMin::kAdded};
    case DType::kQ5_0:
      return {.elements = 32, .group = 32, .bits = 5, .offset = 16};
    case DType::kQ5_1:
      return {.elements = 32, .group = 32, .bits = 5, .min = QuantMin::kAdded};
    case DType::kQ2_K:
      return {.elements = 256,
              .group = 16,
              .bits = 2,
              .group_scale_max = 15,
              .min = QuantMin::kOfGroups};
    case DType::kQ3_K:
      return {.elements = 256,
              .group = 16,
              .bits = 3,
              .offset = 4,
              .group_scale_min = -32,
              .group_scale_max = 31};
    case DType::kQ4_K:
      return {.elements = 256,
              .group = 32,
              .bits = 4,
              .group_scale_max = 63,
              .min = QuantMin::kOfGroups};
    case DType::kQ5_K:
      return {.elements = 256,
              .group = 32,
              .bits = 5,
              .group_scale_max = 63,
              .min = QuantMin::kOfGroups};
    case DType::kQ6_K:
      return {.elements = 256,
              .group = 16,
              .bits = 6,
              .offset = 32,
              .group_scale_min = -128,
              .group_scale_max = 127};
    case DType::kIQ4_NL:
      return {.elements = 32, .group = 32, .bits = 4, .codebook = kCodebookIq4};
    case DType::kIQ4_XS:
      return {.elements = 256,
              .group = 32,
              .bits = 4,
              .codebook = kCodebookIq4,
              .group_scale_min = -32,
              .group_scale_max = 31};
    case DType::kMXFP4:
      return {.elements = 32,
              .group = 32,
              .bits = 4,
              .codebook = kCodebookMxfp4,
              .scale = QuantScale::kExponent};
    default:
      return {};
  }
}
constexpr bool HasQuantLayout(DType dtype) { return QuantLayoutOf(dtype).elements != 0; }

// Unpacks one block of a format that has a layout. The bytes may be unaligned. Members that the
// format does not use, such as mins or codes past its elements, are left unchanged.
void UnpackBlock(DType dtype, const std::byte* block, QuantParts* parts);
// The reverse of UnpackBlock. REQUIRES: every part is within its format's bounds.
void PackBlock(DType dtype, const QuantParts& parts, std::byte* block);

// Returns 2^(exponent - 128); the two smallest results are subnormal.
float ExponentScale(uint8_t exponent);

}  // namespace kvgate::kernels
