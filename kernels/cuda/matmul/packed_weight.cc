#include "kernels/cuda/matmul/packed_weight.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cmath>
#include <cstring>
#include <functional>
#include <span>
#include <thread>
#include <vector>

#include "base/check.h"
#include "base/pages.h"
#include "kernels/quant_parts.h"

namespace kvgate::kernels::cuda::matmul {

using memory::DeviceMemory;

namespace {

constexpr int kHalfTile = kTileRows / 2;
constexpr int kLaneColumns = 8;  // of 32 columns, those of one lane

int64_t NumUnits(PackedKind kind, int64_t columns) {
  const int64_t unit = ShapeOf(kind).unit_columns();
  return (columns + unit - 1) / unit;
}

// ---- 16-bit weights ---------------------------------------------------------------------------

// Columns converted at a time; the compiler vectorises loops of this length.
constexpr int kConverted = 64;

float FloatOfHalf(uint16_t half) {
  const uint32_t magnitude = half & 0x7fffu;
  // This is exact for subnormals too.
  const float value = std::bit_cast<float>(magnitude << 13) * 0x1p112f;
  const uint32_t special = magnitude >= 0x7c00 ? 0x7f800000u : 0;
  return std::bit_cast<float>(std::bit_cast<uint32_t>(value) | special |
                              static_cast<uint32_t>(half & 0x8000u) << 16);
}

float FloatOfBf16(uint16_t bits) { return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16); }

// Converts values times a power of two to f16; none may be infinite or NaN. The loops have no
// branches so that they are vectorised, because an 8B model has 8 billion values.
template <bool kIsHalf>
void ScaleToHalves(const uint16_t (&from)[kConverted], float multiplier,
                   uint16_t (&to)[kConverted]) {
  uint32_t bits[kConverted];
  float values[kConverted];
  float raised[kConverted];  // at 0.5f the unit is 2^-24, as for subnormal f16
  uint32_t raised_bits[kConverted];
  for (int i = 0; i < kConverted; ++i) bits[i] = (from[i] & 0x7fffu) << (kIsHalf ? 13 : 16);
  std::memcpy(values, bits, sizeof(bits));
  for (int i = 0; i < kConverted; ++i) {
    values[i] = values[i] * (kIsHalf ? 0x1p112f : 1.0f) * multiplier;
    raised[i] = values[i] + 0.5f;
  }
  std::memcpy(bits, values, sizeof(bits));
  std::memcpy(raised_bits, raised, sizeof(bits));
  for (int i = 0; i < kConverted; ++i) {
    const uint32_t normal = (bits[i] + 0xfff + (bits[i] >> 13 & 1) - (112u << 23)) >> 13;
    const uint32_t subnormal = raised_bits[i] - 0x3f000000u;
    const uint32_t is_small = 0u - static_cast<uint32_t>(bits[i] < 113u << 23);
    to[i] =
        static_cast<uint16_t>((normal ^ ((normal ^ subnormal) & is_small)) | (from[i] & 0x8000u));
  }
}

// Returns the f32 bits of the row's largest magnitude.
template <float (*kConvert)(uint16_t)>
uint32_t RowMagnitude(const std::byte* row, int64_t columns) {
  uint16_t largest = 0;
  for (int64_t begin = 0; begin < columns; begin += kConverted) {
    uint16_t values[kConverted] = {};
    const int64_t count = std::min<int64_t>(kConverted, columns - begin);
    std::memcpy(values, row + begin * 2, static_cast<size_t>(count) * 2);
    for (int i = 0; i < kConverted; ++i) {
      largest = std::max(largest, static_cast<uint16_t>(values[i] & 0x7fff));
    }
  }
  return std::bit_cast<uint32_t>(kConvert(largest));
}

template <float (*kConvert)(uint16_t)>
void PackHalves(const WeightView& view, PackedKind kind, int64_t tile, std::byte* to,
                float* scales) {
  const int64_t first_row = tile * kTileRows;
  const auto num_rows = static_cast<int>(std::min<int64_t>(kTileRows, view.rows - first_row));
  const int64_t num_units = NumUnits(kind, view.columns);
  for (int row = 0; row < num_rows; ++row) {
    const std::byte* from = view.data + (first_row + row) * view.columns * 2;
    const uint32_t magnitude = RowMagnitude<kConvert>(from, view.columns);
    const float multiplier = std::bit_cast<float>(MultiplierBits(magnitude));
    scales[row] = std::bit_cast<float>(InverseBits(magnitude));
    for (int64_t unit = 0; unit < num_units; ++unit) {
      uint16_t values[kConverted] = {};
      const int64_t count = std::min<int64_t>(kConverted, view.columns - unit * kConverted);
      std::memcpy(values, from + unit * kConverted * 2, static_cast<size_t>(count) * 2);
      uint16_t halves[kConverted];
      if (magnitude < 0x7f800000u) {
        ScaleToHalves<kConvert == &FloatOfHalf>(values, multiplier, halves);
      } else {
        for (int i = 0; i < kConverted; ++i) halves[i] = F32ToF16(kConvert(values[i]));
      }
      if (kind == PackedKind::kPlainHalves) {
        std::memcpy(to + (row * num_units + unit) * sizeof(halves), halves, sizeof(halves));
        continue;
      }
      std::byte* record = to + unit * ShapeOf(kind).unit_bytes();
      for (int part = 0; part < 2; ++part) {  // per 32 columns: the pieces of four lanes
        std::memcpy(record + (part * 2 + row / kHalfTile) * kPieceBytes + row % kHalfTile * 64,
                    halves + part * 32, 64);
      }
    }
  }
}

// ---- codes ------------------------------------------------------------------------------------

// An unpacked row: its codes, and per group value = scale * (code - offset) + min.
struct CodeRow {
  std::vector<uint8_t> codes;
  std::vector<float> scales;
  std::vector<float> mins;
};

int OffsetOf(DType dtype) {
  return PackedKindOf(dtype) == PackedKind::kCodes8 ? 128 : QuantLayoutOf(dtype).offset;
}

void UnpackRowOfQ8(const std::byte* from, int64_t columns, CodeRow* row) {
  for (int64_t index = 0; index * QuantBlockQ8_0::kElements < columns; ++index) {
    QuantBlockQ8_0 block;
    std::memcpy(&block, from + index * static_cast<int64_t>(sizeof(block)), sizeof(block));
    row->scales[static_cast<size_t>(index)] = F16ToF32(block.scale);
    uint8_t* codes = row->codes.data() + index * QuantBlockQ8_0::kElements;
    for (int i = 0; i < QuantBlockQ8_0::kElements; ++i) {
      codes[i] = static_cast<uint8_t>(block.quants[i] + 128);
    }
  }
}

void UnpackRow(DType dtype, const std::byte* from, int64_t columns, CodeRow* row) {
  if (dtype == DType::kQ8_0) return UnpackRowOfQ8(from, columns, row);
  const QuantLayout layout = QuantLayoutOf(dtype);
  const size_t block_bytes = DTypeBytes(dtype, static_cast<size_t>(layout.elements));
  QuantParts parts;
  size_t group = 0;
  for (int64_t begin = 0; begin < columns; begin += layout.elements, from += block_bytes) {
    UnpackBlock(dtype, from, &parts);
    uint8_t* codes = row->codes.data() + begin;
    std::memcpy(codes, parts.codes.data(), static_cast<size_t>(layout.elements));
    if (layout.codebook != nullptr) {
      for (int i = 0; i < layout.elements; ++i) {
        codes[i] = static_cast<uint8_t>(layout.codebook[codes[i]] + 128);
      }
    }
    const float scale = layout.scale == QuantScale::kF16
                            ? F16ToF32(parts.scale)
                            : ExponentScale(static_cast<uint8_t>(parts.scale));
    const float min = F16ToF32(parts.min);
    for (int g = 0; g < layout.num_groups(); ++g, ++group) {
      row->scales[group] = layout.has_group_scales() ? scale * parts.group_scales[g] : scale;
      if (layout.min == QuantMin::kAdded) row->mins[group] = min;
      if (layout.min == QuantMin::kOfGroups) row->mins[group] = -(min * parts.group_mins[g]);
    }
  }
}

// Returns an upper bound, as f32 bits, of the row's values for any codes, and of its scales and
// mins.
uint32_t MagnitudeBound(const CodeRow& row, int code_max, int offset) {
  uint32_t bound = 0;
  const auto add = [&bound](float value) {
    bound = std::max(bound, std::bit_cast<uint32_t>(std::abs(value)));  // NaN is the largest
  };
  for (size_t g = 0; g < row.scales.size(); ++g) {
    add(row.scales[g]);
    add(row.mins[g]);
    add(row.scales[g] * static_cast<float>(-offset) + row.mins[g]);
    add(row.scales[g] * static_cast<float>(code_max - offset) + row.mins[g]);
  }
  return bound;
}

// Packs eight values below 2^bits, one per byte, as pairs: the first of each pair from bit 0 on,
// the second from bit 16 on.
uint32_t PairsOf(uint64_t eight, int bits) {
  const auto gather = [bits](uint64_t apart) {  // one value per 16 bits
    const int step = 16 - bits;
    return static_cast<uint32_t>(apart | apart >> step | apart >> 2 * step | apart >> 3 * step) &
           ((1u << 4 * bits) - 1);
  };
  const uint64_t mask = ((uint64_t{1} << bits) - 1) * 0x0001'0001'0001'0001u;
  return gather(eight & mask) | gather(eight >> 8 & mask) << 16;
}

void OrWord(std::byte* to, uint32_t word) {
  uint32_t old = 0;
  std::memcpy(&old, to, sizeof(old));
  word |= old;
  std::memcpy(to, &word, sizeof(word));
}

// Packs the codes of one lane in one row: the 8 columns from 8 * t on of 32.
void PackLaneCodes(int bits, uint64_t eight, int part, int half, std::byte* lane_piece) {
  if (bits == 8) {
    const auto swap = [](uint32_t word) {  // bytes in the order 0, 2, 1, 3
      return (word & 0xff0000ffu) | (word >> 8 & 0xff00u) | (word & 0xff00u) << 8;
    };
    const uint32_t words[2] = {swap(static_cast<uint32_t>(eight)),
                               swap(static_cast<uint32_t>(eight >> 32))};
    std::memcpy(lane_piece + part * kPieceBytes + half * 8, words, sizeof(words));
    return;
  }
  const uint32_t low = PairsOf(eight, 4);
  std::memcpy(lane_piece + part / 2 * kPieceBytes + part % 2 * 8 + half * 4, &low, sizeof(low));
  if (bits == 6) {
    const uint64_t upper = eight >> 4 & 0x0303'0303'0303'0303u;
    OrWord(lane_piece + 2 * kPieceBytes + part * 4, PairsOf(upper, 2) << 8 * half);
  }
}

void PackCodeRow(const CodeRow& row, const PackedShape& shape, int in_tile, float multiplier,
                 std::byte* to) {
  const int half = in_tile / kHalfTile;
  const int g = in_tile % kHalfTile;
  const int unit_columns = shape.unit_columns();
  const int groups = 32 / shape.group;
  const auto num_units = static_cast<int64_t>(row.codes.size()) / unit_columns;
  for (int64_t unit = 0; unit < num_units; ++unit) {
    std::byte* record = to + unit * shape.unit_bytes();
    std::byte* scales = record + shape.code_pieces() * kPieceBytes + g * 16 + half * 2;
    for (int part = 0; part < unit_columns / 32; ++part) {
      for (int t = 0; t < 4; ++t) {
        uint64_t eight = 0;
        std::memcpy(&eight, row.codes.data() + unit * unit_columns + part * 32 + t * kLaneColumns,
                    sizeof(eight));
        PackLaneCodes(shape.bits, eight, part, half, record + (g * 4 + t) * 16);
      }
      for (int j = 0; j < groups; ++j) {
        const auto group = static_cast<size_t>((unit * (unit_columns / 32) + part) * groups + j);
        const uint16_t scale = F32ToF16(row.scales[group] * multiplier);
        const uint16_t min = F32ToF16(row.mins[group] * multiplier);
        std::byte* place = scales + j * 128 + part * 4;
        std::memcpy(place, &scale, sizeof(scale));
        if (shape.has_mins) std::memcpy(place + shape.scale_bytes(), &min, sizeof(min));
      }
    }
  }
}

void PackCodes(const WeightView& view, PackedKind kind, int64_t tile, std::byte* to,
               float* scales) {
  const PackedShape shape = ShapeOf(kind);
  const int64_t first_row = tile * kTileRows;
  const auto num_rows = static_cast<int>(std::min<int64_t>(kTileRows, view.rows - first_row));
  const auto padded = static_cast<size_t>(NumUnits(kind, view.columns) * shape.unit_columns());
  const size_t row_bytes = DTypeBytes(view.dtype, static_cast<size_t>(view.columns));
  CodeRow row{.codes = std::vector<uint8_t>(padded),
              .scales = std::vector<float>(padded / shape.group),
              .mins = std::vector<float>(padded / shape.group)};
  for (int i = 0; i < num_rows; ++i) {
    UnpackRow(view.dtype, view.data + static_cast<size_t>(first_row + i) * row_bytes, view.columns,
              &row);
    const uint32_t bound = MagnitudeBound(row, (1 << shape.bits) - 1, OffsetOf(view.dtype));
    scales[i] = std::bit_cast<float>(InverseBits(bound));
    PackCodeRow(row, shape, i, std::bit_cast<float>(MultiplierBits(bound)), to);
  }
}

// ---- pieces -----------------------------------------------------------------------------------

constexpr size_t kPieceBytesMax = size_t{32} << 20;  // packed at a time, then copied
constexpr size_t kThreadBytes = size_t{1} << 20;     // per thread
constexpr size_t kThreadsMax = 16;

// Calls body(i) for every i below `count`, with one thread per kThreadBytes of `bytes`.
void ForEach(int64_t count, size_t bytes, const std::function<void(int64_t)>& body) {
  const size_t cores = std::max(1u, std::thread::hardware_concurrency());
  const size_t num_threads =
      std::clamp<size_t>(bytes / kThreadBytes, 1, std::min(cores, kThreadsMax));
  std::atomic<int64_t> next{0};
  const auto work = [&] {
    for (int64_t i = next++; i < count; i = next++) body(i);
  };
  std::vector<std::jthread> threads;
  for (size_t i = 1; i < num_threads; ++i) threads.emplace_back(work);
  work();
}

void DropRows(const WeightView& view, int64_t first_row, int64_t num_rows) {
  if (!view.is_file_mapping) return;
  const size_t row_bytes = DTypeBytes(view.dtype, static_cast<size_t>(view.columns));
  const int64_t here = std::min(num_rows, view.rows - first_row);
  DropPages({view.data + static_cast<size_t>(first_row) * row_bytes,
             static_cast<size_t>(here) * row_bytes});
}

size_t DataBytes(const WeightView& view, PackedKind kind) {
  if (kind == PackedKind::kFloats) {
    return static_cast<size_t>(view.rows * view.columns) * sizeof(float);
  }
  const int64_t num_tiles = (view.rows + kTileRows - 1) / kTileRows;
  return static_cast<size_t>(num_tiles) * PackedTileBytes(kind, view.columns);
}

}  // namespace

PackedWeight::PackedWeight(const WeightView& view, PackedKind kind, DeviceMemory memory,
                           size_t scales_offset)
    : Weight(view),
      memory_(std::move(memory)),
      scales_offset_(scales_offset),
      kind_(kind),
      num_tiles_(static_cast<int>((view.rows + kTileRows - 1) / kTileRows)),
      num_units_(static_cast<int>(NumUnits(kind, view.columns))),
      offset_(OffsetOf(view.dtype)) {}

size_t PackedTileBytes(PackedKind kind, int64_t columns) {
  return static_cast<size_t>(NumUnits(kind, columns) * ShapeOf(kind).unit_bytes());
}

void PackTile(const WeightView& view, PackedKind kind, int64_t tile, std::byte* to, float* scales) {
  switch (view.dtype) {
    case DType::kF16:
      return PackHalves<FloatOfHalf>(view, kind, tile, to, scales);
    case DType::kBF16:
      return PackHalves<FloatOfBf16>(view, kind, tile, to, scales);
    default:
      return PackCodes(view, kind, tile, to, scales);
  }
}

void WeightPacker::CopyFloats(const WeightView& view, DeviceMemory& memory) {
  const auto rows_at_once = std::max<int64_t>(
      1, static_cast<int64_t>(kPieceBytesMax / sizeof(float)) / std::max<int64_t>(1, view.columns));
  const size_t row_bytes = static_cast<size_t>(view.columns) * sizeof(float);
  for (int64_t begin = 0; begin < view.rows; begin += rows_at_once) {
    const auto count = static_cast<size_t>(std::min(rows_at_once, view.rows - begin));
    const size_t offset = static_cast<size_t>(begin) * row_bytes;
    memory.CopyIn({view.data + offset, count * row_bytes}, offset);
    DropRows(view, begin, rows_at_once);
  }
}

void WeightPacker::PackPieces(const WeightView& view, DeviceMemory& memory, PackedKind kind) {
  const size_t tile_bytes = PackedTileBytes(kind, view.columns);
  const int64_t num_tiles = (view.rows + kTileRows - 1) / kTileRows;
  const auto tiles_at_once = static_cast<int64_t>(std::max<size_t>(1, piece_.size() / tile_bytes));
  std::vector<float> scales(static_cast<size_t>(num_tiles) * kTileRows);
  for (int64_t begin = 0; begin < num_tiles; begin += tiles_at_once) {
    const int64_t count = std::min(tiles_at_once, num_tiles - begin);
    const size_t bytes = static_cast<size_t>(count) * tile_bytes;
    ForEach(count, bytes, [&](int64_t i) {
      std::byte* tile = piece_.data() + static_cast<size_t>(i) * tile_bytes;
      std::memset(tile, 0, tile_bytes);
      PackTile(view, kind, begin + i, tile, scales.data() + (begin + i) * kTileRows);
    });
    memory.CopyIn({piece_.data(), bytes}, static_cast<size_t>(begin) * tile_bytes);
    DropRows(view, begin * kTileRows, count * kTileRows);
  }
  memory.CopyIn(std::as_bytes(std::span(scales)), DataBytes(view, kind));
}

Result<std::unique_ptr<PackedWeight>> WeightPacker::Pack(const WeightView& view, PackedKind kind) {
  const std::string purpose =
      fmt::format("weight [{}, {}] {}", view.rows, view.columns, DTypeName(view.dtype));
  const size_t data_bytes = DataBytes(view, kind);
  const size_t num_scales =
      kind == PackedKind::kFloats
          ? 0
          : static_cast<size_t>((view.rows + kTileRows - 1) / kTileRows) * kTileRows;
  KVGATE_TRY(DeviceMemory memory,
             DeviceMemory::Allocate(data_bytes + num_scales * sizeof(float), purpose));
  if (kind == PackedKind::kFloats) {
    CopyFloats(view, memory);
  } else {
    const size_t tile_bytes = PackedTileBytes(kind, view.columns);
    const size_t wanted = std::max(tile_bytes, std::min(data_bytes, kPieceBytesMax));
    if (piece_.size() < wanted) {
      piece_ = memory::PinnedMemory();
      KVGATE_TRY(piece_, memory::PinnedMemory::Allocate(wanted, purpose));
    }
    PackPieces(view, memory, kind);
  }
  return std::unique_ptr<PackedWeight>(new PackedWeight(view, kind, std::move(memory), data_bytes));
}

}  // namespace kvgate::kernels::cuda::matmul
