// The layout of a weight in device memory for products: constants by which the host packs and
// kernels read. It knows no device.
//
// Rows (outputs) are split into tiles of 16, columns into units. A tile is a sequence of units, and
// a unit is a record of 16-byte pieces, one per lane of a warp, 512 bytes together. Lane 4 * g + t
// has rows g and g + 8 of the tile and, of each 32 columns, the 8 starting at 8 * t. So the columns
// of one step of a matrix instruction are not adjacent, but x has them in the same order, and both
// are read 16 bytes at a time. Of 32 columns, the first step uses columns 0..3 of each 8, the
// second 4..7.
//
//   halves (16 bits), unit of 64 columns, for each 32 of them:
//     piece of row g, 8 f16; piece of row g + 8
//   codes, unit of 128 columns:
//     4 bits: 2 pieces, each of 64 columns: words {row g, row g + 8} of 32 columns, twice. A word
//             has column 2p at bit 4p, column 2p + 1 at bit 16 + 4p: one mask makes a pair.
//     6 bits: the lower 4 bits as above, then 1 piece: a word per 32 columns, the upper two bits of
//             column 2p of row g at bit 2p, 2p + 1 at bit 16 + 2p; row g + 8 from bit 8 on.
//     8 bits: 4 pieces, each of 32 columns: words {row g: columns 0..3, 4..7; row g + 8 likewise},
//             columns 0, 2, 1, 3 in a word's bytes from the lowest.
//     then scales, f16, 16 bytes for each g (and for each group of 16 columns in the 32): pairs
//     {row g, row g + 8} for each 32 columns; then the mins, if any, in the same way.
//   value = scale * (code - offset) + min, rounded to f16 once.
// Rows and columns past the end are zeros. A row's values, scales and mins are multiplied by a
// power of two of that row; an array beside them holds the inverses.
#pragma once

#include <cstdint>

#include "kernels/dtype.h"

namespace kvgate::kernels::cuda::matmul {

inline constexpr int kTileRows = 16;
inline constexpr int kPieceBytes = 512;  // 16 per lane
inline constexpr int kSegments = 8;
// The columns of x in f16 are padded to this: a multiple of every unit.
inline constexpr int kPaddedColumns = 128;

enum class PackedKind : uint8_t {
  kFloats,       // f32, row-major, not tiled
  kHalves,       // f16 and bf16
  kPlainHalves,  // the same, row-major with rows of whole units, for cuBLASLt
  kCodes4,       // Q4_0
  kCodes4Mins,   // Q4_1, Q4_K
  kCodes4Of16,   // groups of 16 with mins: Q2_K, Q3_K
  kCodes6Mins,   // Q5_0, Q5_1, Q5_K
  kCodes6Of16,   // Q6_K
  kCodes8,       // Q8_0; also the codebook formats IQ4_NL, IQ4_XS, MXFP4, whose values fit 8 bits
};

struct PackedShape {
  int bits = 16;
  int group = 32;  // columns that share a scale
  bool has_mins = false;

  constexpr int unit_columns() const { return bits == 16 ? 64 : 128; }
  constexpr int code_pieces() const { return bits == 6 ? 3 : bits == 4 ? 2 : 4; }
  constexpr int scale_pieces() const { return bits == 16 ? 0 : has_mins ? 2 : 1; }
  constexpr int pieces() const { return code_pieces() + scale_pieces(); }
  // Returns the bytes of all scales of a unit; lanes that share a scale read the same bytes.
  constexpr int scale_bytes() const { return 2 * kTileRows * (unit_columns() / group); }
  constexpr int unit_bytes() const {
    return code_pieces() * kPieceBytes + scale_pieces() * scale_bytes();
  }
};

constexpr PackedShape ShapeOf(PackedKind kind) {
  switch (kind) {
    case PackedKind::kCodes4:
      return {.bits = 4};
    case PackedKind::kCodes4Mins:
      return {.bits = 4, .has_mins = true};
    case PackedKind::kCodes4Of16:
      return {.bits = 4, .group = 16, .has_mins = true};
    case PackedKind::kCodes6Mins:
      return {.bits = 6, .has_mins = true};
    case PackedKind::kCodes6Of16:
      return {.bits = 6, .group = 16};
    case PackedKind::kCodes8:
      return {.bits = 8};
    default:
      return {};
  }
}

constexpr PackedKind PackedKindOf(DType dtype) {
  switch (dtype) {
    case DType::kF32:
    case DType::kF8E4M3:  // not a weight dtype
      return PackedKind::kFloats;
    case DType::kF16:
    case DType::kBF16:
      return PackedKind::kHalves;
    case DType::kQ4_0:
      return PackedKind::kCodes4;
    case DType::kQ4_1:
    case DType::kQ4_K:
      return PackedKind::kCodes4Mins;
    case DType::kQ2_K:
    case DType::kQ3_K:
      return PackedKind::kCodes4Of16;
    case DType::kQ5_0:
    case DType::kQ5_1:
    case DType::kQ5_K:
      return PackedKind::kCodes6Mins;
    case DType::kQ6_K:
      return PackedKind::kCodes6Of16;
    case DType::kQ8_0:
    case DType::kIQ4_NL:
    case DType::kIQ4_XS:
    case DType::kMXFP4:
      return PackedKind::kCodes8;
  }
  return PackedKind::kFloats;
}

// Returns the first unit of a segment; kSegments gives the end of the last one. Every kernel splits
// K here, so every number of rows is summed in the same order.
constexpr int SegmentBegin(int segment, int num_units) {
  return static_cast<int>(static_cast<int64_t>(segment) * num_units / kSegments);
}

// The power of two that scales a row's largest magnitude, given as the bits of a non-negative f32,
// to [2^14, 2^15), and its inverse, as bits. A row with a NaN or an infinity is not scaled; one
// below 2^-112 is scaled as far as f32 allows.
constexpr uint32_t ScaleExponent(uint32_t magnitude_bits) {
  const uint32_t exponent = magnitude_bits >> 23;
  return exponent == 255 ? 141 : exponent < 14 ? 14 : exponent;
}
constexpr uint32_t MultiplierBits(uint32_t magnitude_bits) {
  return (268 - ScaleExponent(magnitude_bits)) << 23;
}
constexpr uint32_t InverseBits(uint32_t magnitude_bits) {
  const uint32_t exponent = ScaleExponent(magnitude_bits);
  return exponent == 14 ? 0x00400000u : (exponent - 14) << 23;
}

}  // namespace kvgate::kernels::cuda::matmul
