// Products of many rows: tiles of 128 outputs x 32, 64 or 128 rows of x, by tensor cores.
//
// A block of 8 warps brings units of its weights and the same columns of x to shared memory,
// several stages ahead. 4 warps share the outputs (two tiles of 16 each), 2 the rows; a warp
// unpacks its tiles' units in registers. At the end of a segment its sums are added to the total
// and start from zero: two sets of accumulators, half of the registers each for 128 rows. Where
// there are fewer blocks than multiprocessors, blocks share a product's segments instead, and write
// their sums.
#include <algorithm>

#include <kvgate/check.h>

#include "kernels/cuda/matmul_kernels.h"
#include "kernels/cuda/packed_units.cuh"
#include "kernels/cuda/product.cuh"

namespace kvgate::kernels::cuda {
namespace {

constexpr int kOutputWarps = 4;
constexpr int kRowWarps = 2;
constexpr int kThreads = kOutputWarps * kRowWarps * kWarpLanes;
constexpr int kWarpTiles = 2;
constexpr int kBlockTiles = kOutputWarps * kWarpTiles;
static_assert(kBlockTiles * kTileRows == kBlockOutputs);
// Blocks are counted through groups of so many outputs' blocks, their rows first: blocks that run
// together then share weights and x in the L2 cache.
constexpr int kGroupBlocks = 8;

struct ManyRowsArgument {
  HalfRows x;
  ProductTable table;
  int num_row_blocks;
  int num_splits;  // gridDim.y
};

// kRowTiles: of 8 rows, a warp's.
template <PackedKind kKind, int kRowTiles>
struct ManyRows {
  using Units = PackedUnits<kKind>;
  static constexpr int kRows = kRowWarps * kRowTiles * 8;
  static constexpr int kUnitBytes = Units::kShape.unit_bytes();
  static constexpr int kWeightBytes = kBlockTiles * kUnitBytes;
  static constexpr int kRowBytes = Units::kShape.unit_columns() * 2;
  static constexpr int kStageBytes = kWeightBytes + kRows * kRowBytes;
  // Of a multiprocessor's 227 KiB: a block takes all for 128 rows, half for fewer.
  static constexpr int kBlocks = kRowTiles == 8 ? 1 : 2;
  static constexpr int kStagesMost = (kBlocks == 1 ? 200 : 108) * 1024 / kStageBytes;
  static constexpr int kStages = kStagesMost > 6 ? 6 : kStagesMost;
  static_assert(kStages >= 3);

  using Sums = float[kWarpTiles][kRowTiles][4];

  // Where this block works.
  struct Place {
    const std::byte* weight;  // of its first tile
    int num_units;
    int num_tiles;  // of the product from the first on, at most kBlockTiles
    int first_tile;
    int first_row;
  };

  static KVGATE_DEVICE Place PlaceOf(const ManyRowsArgument& argument, const Product& product,
                                     int block) {
    const int num_output_blocks = (product.num_tiles + kBlockTiles - 1) / kBlockTiles;
    const int group = block / (kGroupBlocks * argument.num_row_blocks);
    const int in_group = block - group * kGroupBlocks * argument.num_row_blocks;
    const int left = num_output_blocks - group * kGroupBlocks;
    const int width = left < kGroupBlocks ? left : kGroupBlocks;
    const int first_tile = (group * kGroupBlocks + in_group % width) * kBlockTiles;
    const int tiles = product.num_tiles - first_tile;
    return {.weight = product.weight + first_tile * Units::TileBytes(product.num_units),
            .num_units = product.num_units,
            .num_tiles = tiles < kBlockTiles ? tiles : kBlockTiles,
            .first_tile = first_tile,
            .first_row = in_group / width * kRows};
  }

  // Asks for a unit; zeros in place of rows and outputs that are not there.
  static KVGATE_DEVICE void CopyUnit(const HalfRows& x, const Place& place, int unit,
                                     std::byte* stage) {
    constexpr int kTilePieces = kUnitBytes / 16;
    KVGATE_UNROLL
    for (int begin = 0; begin < kWeightBytes / 16; begin += kThreads) {
      const int i = begin + static_cast<int>(threadIdx.x);
      if (kWeightBytes / 16 % kThreads != 0 && i >= kWeightBytes / 16) break;
      const int tile = i / kTilePieces;
      const bool is_there = tile < place.num_tiles;
      const std::byte* from = place.weight;
      if (is_there) {
        from += tile * Units::TileBytes(place.num_units) + int64_t{unit} * kUnitBytes +
                i % kTilePieces * 16;
      }
      CopyAsync16(stage + i * 16, from, is_there);
    }
    constexpr int kChunks = kRowBytes / 16;
    const auto* values = reinterpret_cast<const std::byte*>(x.values);
    KVGATE_UNROLL
    for (int begin = 0; begin < kRows * kChunks; begin += kThreads) {
      const int i = begin + static_cast<int>(threadIdx.x);
      const int row = i / kChunks;
      const bool is_there = place.first_row + row < x.num_rows;
      const std::byte* from = values;
      if (is_there) {
        from += int64_t{place.first_row + row} * x.padded_columns * 2 + unit * kRowBytes +
                i % kChunks * 16;
      }
      CopyAsync16(stage + kWeightBytes + row * kRowBytes + SwizzledChunk(row, i % kChunks) * 16,
                  from, is_there);
    }
  }
  static_assert(kRows * kRowBytes / 16 % kThreads == 0);

  static KVGATE_DEVICE void MultiplyUnit(const std::byte* stage, uint32_t offset_pair, Sums& sums) {
    const int lane = LaneIndex();
    const std::byte* weight = stage + WarpIndex() / kRowWarps * kWarpTiles * kUnitBytes;
    const std::byte* x = stage + kWeightBytes;
    Vector16 pieces[kWarpTiles][Units::kPieces];
    KVGATE_UNROLL
    for (int tile = 0; tile < kWarpTiles; ++tile) {
      KVGATE_UNROLL
      for (int i = 0; i < Units::kPieces; ++i) {
        pieces[tile][i] = *reinterpret_cast<const Vector16*>(weight + tile * kUnitBytes +
                                                             Units::OffsetInUnit(i, lane));
      }
    }
    KVGATE_UNROLL
    for (int part = 0; part < Units::kParts; ++part) {
      uint32_t a[kWarpTiles][2][4];
      KVGATE_UNROLL
      for (int tile = 0; tile < kWarpTiles; ++tile) {
        Units::MakeFragments(pieces[tile], part, offset_pair, a[tile]);
      }
      KVGATE_UNROLL
      for (int i = 0; i < kRowTiles; ++i) {
        const int row = (WarpIndex() % kRowWarps * kRowTiles + i) * 8 + lane / 4;
        const Vector16 b = *reinterpret_cast<const Vector16*>(
            x + row * kRowBytes + SwizzledChunk(row, part * 4 + lane % 4) * 16);
        KVGATE_UNROLL
        for (int step = 0; step < 2; ++step) {
          KVGATE_UNROLL
          for (int tile = 0; tile < kWarpTiles; ++tile) {
            MmaHalf(sums[tile][i], a[tile][step], {b.word[2 * step], b.word[2 * step + 1]});
          }
        }
      }
    }
  }

  // visit(row, output in the block, index of the sum) for each of a lane's sums that is there.
  template <typename Visit>
  static KVGATE_DEVICE void ForEachSum(const Place& place, int num_rows, Visit visit) {
    const int lane = LaneIndex();
    KVGATE_UNROLL
    for (int tile = 0; tile < kWarpTiles; ++tile) {
      KVGATE_UNROLL
      for (int i = 0; i < kRowTiles; ++i) {
        KVGATE_UNROLL
        for (int part = 0; part < 4; ++part) {
          const int row = place.first_row + (WarpIndex() % kRowWarps * kRowTiles + i) * 8 +
                          lane % 4 * 2 + part % 2;
          const int output =
              (place.first_tile + WarpIndex() / kRowWarps * kWarpTiles + tile) * kTileRows +
              lane / 4 + part / 2 * 8;
          if (row < num_rows) visit(row, output, tile, i, part);
        }
      }
    }
  }

  // Adds a segment's sums to the total, or writes them where others have the other segments.
  static KVGATE_DEVICE void EndSegment(const ManyRowsArgument& argument, const Product& product,
                                       const Place& place, int segment, Sums& sums, Sums& total) {
    if (argument.num_splits > 1) {
      const int64_t width = int64_t{product.num_tiles} * kTileRows;
      float* parts = product.parts + segment * width * argument.x.num_rows;
      ForEachSum(place, argument.x.num_rows, [&](int row, int output, int tile, int i, int part) {
        if (output < width) parts[row * width + output] = sums[tile][i][part];
      });
    }
    KVGATE_UNROLL
    for (int tile = 0; tile < kWarpTiles; ++tile) {
      KVGATE_UNROLL
      for (int i = 0; i < kRowTiles; ++i) {
        KVGATE_UNROLL
        for (int part = 0; part < 4; ++part) {
          total[tile][i][part] += sums[tile][i][part];
          sums[tile][i][part] = 0;
        }
      }
    }
  }
};

template <PackedKind kKind, int kRowTiles>
KVGATE_KERNEL void KVGATE_LAUNCH_BOUNDS(kThreads, (ManyRows<kKind, kRowTiles>::kBlocks))
    ManyRowsKernel(ManyRowsArgument argument) {
  using Many = ManyRows<kKind, kRowTiles>;
  constexpr int kStages = Many::kStages;
  const int block = static_cast<int>(blockIdx.x);
  const Product& product = ProductOfBlock(argument.table, block);
  const typename Many::Place place = Many::PlaceOf(argument, product, block - product.first_block);
  const int num_segments = kSegments / argument.num_splits;
  int segment = static_cast<int>(blockIdx.y) * num_segments;
  const int last_segment = segment + num_segments - 1;
  const int begin = SegmentBegin(segment, place.num_units);
  const int end = SegmentBegin(last_segment + 1, place.num_units);
  std::byte* stages = SharedMemory();
  for (int i = 0; i < kStages - 1; ++i) {
    if (begin + i < end)
      Many::CopyUnit(argument.x, place, begin + i, stages + i * Many::kStageBytes);
    CopyCommit();
  }
  const bool has_outputs = WarpIndex() / kRowWarps * kWarpTiles < place.num_tiles;
  typename Many::Sums sums = {};
  typename Many::Sums total = {};
  int stage = 0;
  for (int unit = begin; unit < end; ++unit) {
    while (unit >= SegmentBegin(segment + 1, place.num_units)) {
      Many::EndSegment(argument, product, place, segment++, sums, total);
    }
    CopyWait<kStages - 2>();
    SyncThreads();  // the unit has landed for all; nobody reads the stage that is filled next
    if (unit + kStages - 1 < end) {
      const int filled = stage == 0 ? kStages - 1 : stage - 1;
      Many::CopyUnit(argument.x, place, unit + kStages - 1, stages + filled * Many::kStageBytes);
    }
    CopyCommit();
    if (has_outputs) {
      Many::MultiplyUnit(stages + stage * Many::kStageBytes, product.offset_pair, sums);
    }
    stage = stage + 1 == kStages ? 0 : stage + 1;
  }
  while (segment <= last_segment) {
    Many::EndSegment(argument, product, place, segment++, sums, total);
  }
  if (argument.num_splits > 1) return;
  Many::ForEachSum(place, argument.x.num_rows, [&](int row, int output, int tile, int i, int part) {
    if (output >= product.rows) return;
    FinishOutput(product, row, output, total[tile][i][part], argument.x.scales[row]);
  });
}

struct ManyRowsLaunch {
  void (*kernel)(ManyRowsArgument);
  size_t shared_bytes;
};

template <PackedKind kKind, int kRowTiles>
constexpr ManyRowsLaunch LaunchOf() {
  using Many = ManyRows<kKind, kRowTiles>;
  return {.kernel = &ManyRowsKernel<kKind, kRowTiles>,
          .shared_bytes = size_t{Many::kStages} * Many::kStageBytes};
}

template <PackedKind kKind>
ManyRowsLaunch LaunchFor(int rows_of_block) {
  if (rows_of_block == 128) return LaunchOf<kKind, 8>();
  return rows_of_block == 64 ? LaunchOf<kKind, 4>() : LaunchOf<kKind, 2>();
}

ManyRowsLaunch LaunchFor(PackedKind kind, int rows_of_block) {
  switch (kind) {
    case PackedKind::kHalves:
      return LaunchFor<PackedKind::kHalves>(rows_of_block);
    case PackedKind::kCodes4:
      return LaunchFor<PackedKind::kCodes4>(rows_of_block);
    case PackedKind::kCodes4Mins:
      return LaunchFor<PackedKind::kCodes4Mins>(rows_of_block);
    case PackedKind::kCodes4Of16:
      return LaunchFor<PackedKind::kCodes4Of16>(rows_of_block);
    case PackedKind::kCodes6Mins:
      return LaunchFor<PackedKind::kCodes6Mins>(rows_of_block);
    case PackedKind::kCodes6Of16:
      return LaunchFor<PackedKind::kCodes6Of16>(rows_of_block);
    case PackedKind::kCodes8:
      return LaunchFor<PackedKind::kCodes8>(rows_of_block);
    case PackedKind::kFloats:
    case PackedKind::kPlainHalves:
      break;
  }
  KVGATE_CHECK(false, "a kind whose tiles lie in fragments' order");
}

}  // namespace

int RowsOfBlock(int num_rows) { return num_rows <= 32 ? 32 : num_rows <= 64 ? 64 : 128; }

void LaunchManyRows(PackedKind kind, const HalfRows& x, std::span<const Product> products,
                    int num_splits, CommandStream& stream) {
  const int rows_of_block = RowsOfBlock(x.num_rows);
  const ManyRowsLaunch launch = LaunchFor(kind, rows_of_block);
  ManyRowsArgument argument{};
  argument.x = x;
  argument.num_row_blocks = (x.num_rows + rows_of_block - 1) / rows_of_block;
  argument.num_splits = num_splits;
  while (!products.empty()) {
    const size_t count = std::min<size_t>(products.size(), kProductsMax);
    argument.table = {};
    int num_blocks = 0;
    for (size_t i = 0; i < count; ++i) {
      argument.table.products[i] = products[i];
      argument.table.products[i].first_block = num_blocks;
      num_blocks +=
          (products[i].num_tiles + kBlockTiles - 1) / kBlockTiles * argument.num_row_blocks;
    }
    argument.table.num_products = static_cast<int>(count);
    stream.Launch(
        launch.kernel,
        {.grid = {static_cast<unsigned int>(num_blocks), static_cast<unsigned int>(num_splits)},
         .threads = kThreads,
         .shared_bytes = launch.shared_bytes},
        argument);
    products = products.subspan(count);
  }
}

}  // namespace kvgate::kernels::cuda
