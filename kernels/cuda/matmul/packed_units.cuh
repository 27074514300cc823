// Reads the units of packed_layout.h and makes the fragments of a matrix instruction from them; and
// converts x to f16 rows, each multiplied by its own power of two.
#pragma once

#include "kernels/cuda/device/device.cuh"
#include "kernels/cuda/matmul/packed_layout.h"

namespace kvgate::kernels::cuda::matmul {

struct alignas(8) Vector8 {
  uint32_t word[2];
};

template <PackedKind kKind>
struct PackedUnits {
  static constexpr PackedShape kShape = ShapeOf(kKind);
  static constexpr int kPieces = kShape.pieces();
  static constexpr int kParts = kShape.unit_columns() / 32;

  // Returns the byte offset of this lane's piece `piece` in a unit.
  static KVGATE_DEVICE int OffsetInUnit(int piece, int lane) {
    if (piece < kShape.code_pieces()) return piece * kPieceBytes + lane * 16;
    const int of_group = kShape.group == 16 ? lane % 4 / 2 * 128 : 0;
    return kShape.code_pieces() * kPieceBytes +
           (piece - kShape.code_pieces()) * kShape.scale_bytes() + of_group + lane / 4 * 16;
  }
  // Returns the byte offset in a tile.
  static KVGATE_DEVICE int64_t OffsetInTile(int num_units, int unit, int piece, int lane) {
    if constexpr (kKind == PackedKind::kPlainHalves) {
      const int64_t row_bytes = int64_t{num_units} * kShape.unit_columns() * 2;
      return (lane / 4 + piece % 2 * 8) * row_bytes + unit * kShape.unit_columns() * 2 +
             piece / 2 * 64 + lane % 4 * 16;
    } else {
      return int64_t{unit} * kShape.unit_bytes() + OffsetInUnit(piece, lane);
    }
  }
  static constexpr int64_t TileBytes(int num_units) {
    return int64_t{num_units} * kShape.unit_bytes();
  }

  // A lane's share of 32 columns: 8 columns of rows g and g + 8.
  struct Part {
    uint32_t codes[kShape.bits == 16 ? 8 : kShape.bits / 2];  // for 6 bits: 2 and the upper bits
    uint32_t scales;
    uint32_t mins;
  };
  static KVGATE_DEVICE Part PartOf(const device::Vector16 (&pieces)[kPieces], int part) {
    Part made{};
    if constexpr (kShape.bits >= 8) {
      KVGATE_UNROLL
      for (int i = 0; i < kShape.bits / 2; ++i) {
        made.codes[i] = pieces[part * (kShape.bits / 8) + i / 4].word[i % 4];
      }
    } else {
      made.codes[0] = pieces[part / 2].word[part % 2 * 2];
      made.codes[1] = pieces[part / 2].word[part % 2 * 2 + 1];
      if constexpr (kShape.bits == 6) made.codes[2] = pieces[2].word[part];
    }
    if constexpr (kShape.bits < 16) made.scales = pieces[kShape.code_pieces()].word[part];
    if constexpr (kShape.has_mins) made.mins = pieces[kPieces - 1].word[part];
    return made;
  }
  // The same from a unit in shared memory; reads only what it needs, without bank conflicts.
  static KVGATE_DEVICE Part LoadPart(const std::byte* unit, int part, int lane) {
    Part made{};
    if constexpr (kShape.bits >= 8) {
      KVGATE_UNROLL
      for (int i = 0; i < kShape.bits / 8; ++i) {
        const device::Vector16 piece = *reinterpret_cast<const device::Vector16*>(
            unit + OffsetInUnit(part * (kShape.bits / 8) + i, lane));
        KVGATE_UNROLL
        for (int word = 0; word < 4; ++word) made.codes[4 * i + word] = piece.word[word];
      }
    } else {
      const Vector8 piece =
          *reinterpret_cast<const Vector8*>(unit + OffsetInUnit(part / 2, lane) + part % 2 * 8);
      made.codes[0] = piece.word[0];
      made.codes[1] = piece.word[1];
      if constexpr (kShape.bits == 6) made.codes[2] = LoadWord(unit, 2, part, lane);
    }
    if constexpr (kShape.bits < 16) {
      made.scales = LoadWord(unit, kShape.code_pieces(), part, lane);
    }
    if constexpr (kShape.has_mins) made.mins = LoadWord(unit, kPieces - 1, part, lane);
    return made;
  }

  // Makes the fragments of 32 columns, two steps. offset_pair: 1024 + a code's offset, as f16,
  // twice.
  static KVGATE_DEVICE void MakeFragments(const Part& part, uint32_t offset_pair,
                                          uint32_t (&a)[2][4]) {
    if constexpr (kShape.bits == 16) {
      KVGATE_UNROLL
      for (int i = 0; i < 8; ++i) {  // step, then pair, then row, the order in a fragment
        a[i / 4][i % 4] = part.codes[i % 2 * 4 + i / 4 * 2 + i % 4 / 2];
      }
    } else {
      KVGATE_UNROLL
      for (int half = 0; half < 2; ++half) {
        const uint32_t scale = BothHalves(part.scales, half);
        const uint32_t min = BothHalves(part.mins, half);
        KVGATE_UNROLL
        for (int pair = 0; pair < 4; ++pair) {
          const uint32_t code = device::HalfSub2(CodePair(part, half, pair), offset_pair);
          a[pair / 2][pair % 2 * 2 + half] =
              kShape.has_mins ? device::HalfFma2(code, scale, min) : device::HalfMul2(code, scale);
        }
      }
    }
  }

 private:
  static KVGATE_DEVICE uint32_t LoadWord(const std::byte* unit, int piece, int word, int lane) {
    return *reinterpret_cast<const uint32_t*>(unit + OffsetInUnit(piece, lane) + word * 4);
  }
  static KVGATE_DEVICE uint32_t BothHalves(uint32_t pair, int half) {
    return half == 0 ? (pair & 0xffffu) | pair << 16 : pair >> 16 | (pair & 0xffff0000u);
  }
  // Returns 1024 + code as f16 for two adjacent columns: the code is the low part of the mantissa.
  static KVGATE_DEVICE uint32_t CodePair(const Part& part, int half, int pair) {
    constexpr uint32_t kOf1024 = 0x64006400u;
    if constexpr (kShape.bits == 8) {
      return (part.codes[half * 2 + pair / 2] >> 8 * (pair % 2) & 0x00ff00ffu) | kOf1024;
    } else {
      uint32_t code = (part.codes[half] >> 4 * pair & 0x000f000fu) | kOf1024;
      if constexpr (kShape.bits == 6) {
        const int at = half * 8 + pair * 2;
        const uint32_t upper = part.codes[2];
        code |= (at >= 4 ? upper >> (at - 4) : upper << (4 - at)) & 0x00300030u;
      }
      return code;
    }
  }
};

// Returns the position of 16-byte chunk `chunk` of an f16 row in shared memory. Adjacent rows use
// opposite halves of 128 bytes, so that the 8 rows x 4 chunks of a fragment have no bank conflict.
KVGATE_DEVICE int SwizzledChunk(int row, int chunk) { return chunk ^ ((row & 1) * 4); }

// Returns the bits of the largest magnitude among `columns` values; NaN counts as the largest.
// Called by a whole block of 8 warps. `maxima` is 8 words of shared memory, used by this call only.
KVGATE_DEVICE uint32_t BlockMagnitude(const float* row, int columns, uint32_t* maxima) {
  constexpr int kThreads = 8 * device::kWarpLanes;
  constexpr int kAtOnce = 8;  // loads in flight
  uint32_t largest = 0;
  for (int begin = static_cast<int>(threadIdx.x); begin < columns; begin += kAtOnce * kThreads) {
    uint32_t bits[kAtOnce];
    KVGATE_UNROLL
    for (int i = 0; i < kAtOnce; ++i) {
      const int k = begin + i * kThreads;
      bits[i] = k < columns ? device::FloatToBits(row[k]) & 0x7fffffffu : 0;
    }
    KVGATE_UNROLL
    for (int i = 0; i < kAtOnce; ++i) largest = bits[i] > largest ? bits[i] : largest;
  }
  for (int mask = device::kWarpLanes / 2; mask > 0; mask /= 2) {
    const uint32_t other = device::ShuffleXor(largest, mask);
    largest = other > largest ? other : largest;
  }
  if (device::LaneIndex() == 0) maxima[device::WarpIndex()] = largest;
  device::SyncThreads();
  for (int warp = 0; warp < 8; ++warp) largest = maxima[warp] > largest ? maxima[warp] : largest;
  return largest;
}

// Returns columns 2 * pair and 2 * pair + 1 of a row as f16; zeros past the end.
KVGATE_DEVICE uint32_t ScaledPair(const float* row, int columns, int pair, float multiplier) {
  const int k = 2 * pair;
  return device::FloatsToHalf2(k < columns ? row[k] * multiplier : 0.0f,
                               k + 1 < columns ? row[k + 1] * multiplier : 0.0f);
}

}  // namespace kvgate::kernels::cuda::matmul
