// Moves KV tiles from device memory to shared memory: asynchronous copies a few tiles ahead, and
// unpacking of quantized codes to 16-bit integers and of E4M3 to f16.
#pragma once

#include "kernels/cuda/attention/attention_formulas.cuh"
#include "kernels/cuda/device/e4m3.cuh"

namespace kvgate::kernels::cuda::attention {

// Which parts of a tile are loaded.
enum class TileParts : uint8_t { kKeys, kKeysAndValues };

template <typename Kv, int kD>
struct TileShape {
  static constexpr int kRowBytes = TileRowBytes(kD);
  static constexpr int kPartBytes = kKvBlockTokens * kRowBytes;
  static constexpr int kTileBytes = 2 * kPartBytes;
  // Bytes before unpacking, as stored in the block; q8_0 is the largest quantized dtype.
  static constexpr int kRawBytes =
      2 * kKvBlockTokens * (Kv::kIsQuantized ? kD / kQuantGroup * 34 : kD);
  static constexpr int kStageBytes = Kv::kIsUnpacked ? kRawBytes : kTileBytes;
  static constexpr int kScaleFloats =  // for K, or for V
      Kv::kIsQuantized ? kD / kQuantGroup * kKvBlockTokens : 0;
  // One unpacked tile and its scales.
  static constexpr int kUnpackedBytes =
      Kv::kIsUnpacked ? kTileBytes + 2 * kScaleFloats * int{sizeof(float)} : 0;
};

// Copies single elements, for rows that are not whole 16-byte pieces.
template <int kD>
KVGATE_DEVICE void CopyElements(const std::byte* from, int head_dim, int num_rows, std::byte* to) {
  const auto* values = reinterpret_cast<const uint16_t*>(from);
  for (int i = static_cast<int>(threadIdx.x); i < num_rows * kD;
       i += static_cast<int>(blockDim.x)) {
    const int row = i / kD;
    const int dim = i % kD;
    reinterpret_cast<uint16_t*>(to + row * TileRowBytes(kD))[dim] =
        dim < head_dim ? values[row * head_dim + dim] : uint16_t{0};
  }
}

// Starts to copy the tile at `from`, K followed by V, to a stage. Called by all threads of the
// block.
template <typename Kv, int kD, TileParts kParts>
KVGATE_DEVICE void BeginTile(const std::byte* from, const memory::KvLayout& kv, std::byte* stage) {
  constexpr int kNumParts = kParts == TileParts::kKeys ? 1 : 2;
  const auto num_threads = static_cast<int>(blockDim.x);
  if constexpr (Kv::kIsUnpacked) {
    const int num_pieces = kNumParts * kv.part_bytes() / 16;
    for (int i = static_cast<int>(threadIdx.x); i < num_pieces; i += num_threads) {
      device::CopyAsync16(stage + i * 16, from + i * 16, true);
    }
  } else {
    if (kv.head_dim % 8 != 0) {
      CopyElements<kD>(from, kv.head_dim, kNumParts * kKvBlockTokens, stage);
      return;
    }
    constexpr int kPieces = kD / 8;
    const int num_pieces = kv.head_dim / 8;
    for (int index = static_cast<int>(threadIdx.x); index < kNumParts * kKvBlockTokens * kPieces;
         index += num_threads) {
      const int row = index / kPieces;
      const int piece = index % kPieces;
      device::CopyAsync16(stage + row * TileRowBytes(kD) + piece * 16,
                          from + row * kv.row_bytes + piece * 16, piece < num_pieces);
    }
  }
}

// Converts two quants, given as bytes plus `bias`, to 16-bit values. 1024 in f16 and 2^23 in f32
// have an integer in their low bits, so that a subtraction suffices.
template <bool kIsBf16>
KVGATE_DEVICE uint32_t QuantPair(uint32_t first, uint32_t second, uint32_t bias) {
  if constexpr (kIsBf16) {
    const float zero = device::BitsToFloat(0x4b000000u + bias);
    const float low = device::BitsToFloat(0x4b000000u | first) - zero;
    const float high = device::BitsToFloat(0x4b000000u | second) - zero;
    return device::FloatToBits(low) >> 16 |
           (device::FloatToBits(high) & 0xffff0000u);  // 8 bits, therefore exact
  } else {
    const uint32_t zero = 0x6400u + bias;
    return device::HalfSub2(first | second << 16 | 0x64006400u, zero | zero << 16);
  }
}

// Unpacks 4 bytes of quants to 4 values.
template <bool kIsBf16>
KVGATE_DEVICE void UnpackWord(uint32_t bytes, uint32_t bias, uint32_t& low, uint32_t& high) {
  low = QuantPair<kIsBf16>(bytes & 255, bytes >> 8 & 255, bias);
  high = QuantPair<kIsBf16>(bytes >> 16 & 255, bytes >> 24, bias);
}

// Unpacks 16 bytes: 16 values of q8_0, or 32 of q4_0, low halves first.
template <bool kIsBf16>
KVGATE_DEVICE void UnpackPiece(const device::Vector16& quants, bool is_byte, std::byte* to) {
  auto* pieces = reinterpret_cast<device::Vector16*>(to);
  const uint32_t flip = is_byte ? 0x80808080u : 0u;  // from signed to biased by 128
  const uint32_t bias = is_byte ? 128u : 8u;
  const uint32_t mask = is_byte ? 0xffffffffu : 0x0f0f0f0fu;
  const int num_halves = is_byte ? 1 : 2;
  KVGATE_NO_UNROLL
  for (int half = 0; half < num_halves; ++half) {
    device::Vector16 values[2];
    KVGATE_UNROLL
    for (int i = 0; i < 4; ++i) {
      const uint32_t bytes = (quants.word[i] >> (4 * half) & mask) ^ flip;
      UnpackWord<kIsBf16>(bytes, bias, values[i / 2].word[i % 2 * 2],
                          values[i / 2].word[i % 2 * 2 + 1]);
    }
    pieces[2 * half] = values[0];
    pieces[2 * half + 1] = values[1];
  }
}

// Unpacks K (or V) of a stage.
template <bool kIsBf16, int kD>
KVGATE_DEVICE void UnpackPart(const std::byte* from, const memory::KvLayout& kv, std::byte* rows,
                              float* scales) {
  const auto num_threads = static_cast<int>(blockDim.x);
  const auto thread = static_cast<int>(threadIdx.x);
  const bool is_byte = kv.dtype == DType::kQ8_0;
  const int num_pieces = kv.row_bytes / 16;  // per row
  for (int i = thread; i < kKvBlockTokens * num_pieces; i += num_threads) {
    const int row = i / num_pieces;
    const int piece = i % num_pieces;
    const device::Vector16 quants =
        *reinterpret_cast<const device::Vector16*>(from + kv.scale_bytes + i * 16);
    UnpackPiece<kIsBf16>(quants, is_byte,
                         rows + row * TileRowBytes(kD) + piece * (is_byte ? 32 : 64));
  }
  const auto* stored = reinterpret_cast<const uint16_t*>(from);
  for (int i = thread; i < kv.scale_bytes / 2; i += num_threads)
    scales[i] = device::HalfToFloat(stored[i]);
}

// Returns the first `count` of 16 bytes, followed by zeros.
KVGATE_DEVICE device::Vector16 LoadBytes(const std::byte* from, int count) {
  device::Vector16 bytes;
  KVGATE_UNROLL
  for (int i = 0; i < 4; ++i) {
    uint32_t word = 0;
    KVGATE_NO_UNROLL
    for (int j = 4 * i; j < 4 * i + 4 && j < count; ++j) {
      word |= static_cast<uint32_t>(from[j]) << (j % 4 * 8);
    }
    bytes.word[i] = word;
  }
  return bytes;
}

// Unpacks K (or V) of an E4M3 stage to f16, with zeros past head_dim.
template <int kD>
KVGATE_DEVICE void UnpackE4m3Part(const std::byte* from, int head_dim, std::byte* rows) {
  constexpr int kPieces = kD / 16;
  KVGATE_NO_UNROLL
  for (int i = static_cast<int>(threadIdx.x); i < kKvBlockTokens * kPieces;
       i += static_cast<int>(blockDim.x)) {
    const int row = i / kPieces;
    const int dim = i % kPieces * 16;
    const std::byte* at = from + row * head_dim + dim;
    device::Vector16 codes = {};
    if (head_dim % 16 != 0) {
      codes = LoadBytes(at, head_dim - dim);
    } else if (dim < head_dim) {
      codes = *reinterpret_cast<const device::Vector16*>(at);
    }
    device::Vector16 values[2];
    KVGATE_UNROLL
    for (int j = 0; j < 4; ++j) {
      device::E4m3ToHalf4(codes.word[j], values[j / 2].word[j % 2 * 2],
                          values[j / 2].word[j % 2 * 2 + 1]);
    }
    auto* to = reinterpret_cast<device::Vector16*>(rows + row * TileRowBytes(kD) + dim * 2);
    to[0] = values[0];
    to[1] = values[1];
  }
}

// The layout of shared memory for tiles that pass through kStages stages.
template <typename Kv, int kD, int kStages>
struct TileRing {
  using Shape = TileShape<Kv, kD>;
  static constexpr int kBytes = kStages * Shape::kStageBytes + Shape::kUnpackedBytes;

  std::byte* shared;

  KVGATE_DEVICE std::byte* stage(int tile) const {
    return shared + tile % kStages * Shape::kStageBytes;
  }
  // Returns tile `tile`, which has arrived, after unpacking it if necessary. Called by all threads
  // of the block.
  template <TileParts kParts>
  KVGATE_DEVICE TileView Open(int tile, const memory::KvLayout& kv) const {
    const std::byte* from = stage(tile);
    if constexpr (Kv::kIsQuantized) {
      std::byte* unpacked = shared + kStages * Shape::kStageBytes;
      auto* scales = reinterpret_cast<float*>(unpacked + Shape::kTileBytes);
      UnpackPart<Kv::kIsBf16Key, kD>(from, kv, unpacked, scales);
      if constexpr (kParts == TileParts::kKeysAndValues) {
        UnpackPart<Kv::kIsBf16Value, kD>(from + kv.part_bytes(), kv, unpacked + Shape::kPartBytes,
                                         scales + Shape::kScaleFloats);
      }
      device::SyncThreads();
      return {unpacked, unpacked + Shape::kPartBytes, scales, scales + Shape::kScaleFloats};
    } else if constexpr (Kv::kIsUnpacked) {
      std::byte* unpacked = shared + kStages * Shape::kStageBytes;
      UnpackE4m3Part<kD>(from, kv.head_dim, unpacked);
      if constexpr (kParts == TileParts::kKeysAndValues) {
        UnpackE4m3Part<kD>(from + kv.part_bytes(), kv.head_dim, unpacked + Shape::kPartBytes);
      }
      device::SyncThreads();
      return {unpacked, unpacked + Shape::kPartBytes, nullptr, nullptr};
    } else {
      return {from, from + Shape::kPartBytes, nullptr, nullptr};
    }
  }
};

// Tiles [begin, end) of a sequence's table.
struct TileRange {
  int begin;
  int end;
};

// Calls take(tile, view) for the tiles in order, with copies kStages - 1 tiles ahead, and prepare()
// while the first ones are being copied. All threads of the block call it, and all call `take`.
template <typename Kv, int kD, int kStages, TileParts kParts, typename Prepare, typename Take>
KVGATE_DEVICE void ForEachTile(const TileRing<Kv, kD, kStages>& ring, const memory::KvLayout& kv,
                               const uint32_t* table, size_t head_offset, TileRange tiles,
                               Prepare&& prepare, Take&& take) {
  const auto begin_tile = [&](int tile) {
    if (tile < tiles.end) {
      const std::byte* block = kv.base + table[tile] * kv.block_bytes;
      BeginTile<Kv, kD, kParts>(block + head_offset, kv, ring.stage(tile));
    }
    device::CopyCommit();
  };
  KVGATE_UNROLL
  for (int i = 0; i < kStages - 1; ++i) begin_tile(tiles.begin + i);
  prepare();
  KVGATE_NO_UNROLL
  for (int tile = tiles.begin; tile < tiles.end; ++tile) {
    device::CopyWait<kStages - 2>();
    device::SyncThreads();  // the tile is visible to all, and the previous one is no longer used
    begin_tile(tile + kStages - 1);
    take(tile, ring.template Open<kParts>(tile, kv));
  }
}

}  // namespace kvgate::kernels::cuda::attention
