// Products of many rows: tiles of 128 outputs x 32, 64 or 128 rows of x, with tensor cores.
//
// A block of 8 warps loads units of its weights and the same columns of x to shared memory, several
// stages ahead. 4 warps divide the outputs (two tiles of 16 each), 2 the rows; a warp unpacks the
// units of its tiles in registers. At the end of a segment its sums are added to the total and
// restart from zero, which takes two sets of accumulators, each half of the registers for 128 rows.
// If there are fewer blocks than multiprocessors, blocks divide a product's segments and write
// partial sums.
#include <algorithm>
#include <type_traits>

#include "base/check.h"
#include "kernels/cuda/matmul/matmul_kernels.h"
#include "kernels/cuda/matmul/packed_units.cuh"
#include "kernels/cuda/matmul/product.cuh"

namespace kvgate::kernels::cuda::matmul {

using device::CopyWait;
using device::kWarpLanes;
using device::LaneIndex;
using device::WarpIndex;

namespace {

constexpr int kOutputWarps = 4;
constexpr int kRowWarps = 2;
constexpr int kThreads = kOutputWarps * kRowWarps * kWarpLanes;
constexpr int kWarpTiles = 2;
constexpr int kBlockTiles = kOutputWarps * kWarpTiles;
static_assert(kBlockTiles * kTileRows == kBlockOutputs);

struct ManyRowsArgument {
  HalfRows x;
  ProductTable table;
  int num_row_blocks;
  int is_split;        // a block computes segment blockIdx.y and writes its sums to `parts`
  int64_t num_stages;  // units in shared memory: as many as fit, at least two
};
static_assert(std::has_unique_object_representations_v<ManyRowsArgument>);

// kRowTiles: tiles of 8 rows per warp.
template <PackedKind kKind, int kRowTiles>
struct ManyRows {
  using Units = PackedUnits<kKind>;
  static constexpr int kRows = kRowWarps * kRowTiles * 8;
  static constexpr int kUnitBytes = Units::kShape.unit_bytes();
  static constexpr int kWeightBytes = kBlockTiles * kUnitBytes;
  static constexpr int kRowBytes = Units::kShape.unit_columns() * 2;
  static constexpr int kStageBytes = kWeightBytes + kRows * kRowBytes;
  // Share of a Hopper multiprocessor's 227 KiB: all of it for 128 rows, half of it for fewer.
  static constexpr int kBlocks = kRowTiles == 8 ? 1 : 2;
  static constexpr int kStagesMost = (kBlocks == 1 ? 200 : 108) * 1024 / kStageBytes;
  static constexpr int kStages = kStagesMost > 6 ? 6 : kStagesMost;
  static_assert(kStages >= 3);

  // Parts of a unit that are unrolled together: 128 registers are not enough for more with 64 rows.
  static constexpr int kPartsAtOnce = kRowTiles == 4 ? 1 : Units::kParts;

  using Sums = float[kWarpTiles][kRowTiles][4];

  // The outputs and rows of this block.
  struct Place {
    const std::byte* weight;  // of the block's first tile
    int num_units;
    int num_tiles;  // tiles from the first one on, at most kBlockTiles
    int first_tile;
    int first_row;
  };

  static KVGATE_DEVICE Place PlaceOf(const Product& product, const TilePlace& at) {
    const int tiles = product.num_tiles - at.first_tile;
    return {.weight = product.weight + at.first_tile * Units::TileBytes(product.num_units),
            .num_units = product.num_units,
            .num_tiles = tiles < kBlockTiles ? tiles : kBlockTiles,
            .first_tile = at.first_tile,
            .first_row = at.first_row};
  }

  // This thread's share of copying successive units to shared memory: a warp copies one tile of the
  // weights, a thread a chunk of every kRowStep-th row of x. Missing rows and outputs become zeros.
  class Copier {
   public:
    KVGATE_DEVICE Copier(const HalfRows& x, const Place& place, int first_unit) {
      constexpr int kTileOfWarp = kBlockTiles / (kThreads / kWarpLanes);
      static_assert(kTileOfWarp == 1);
      has_tile_ = WarpIndex() < place.num_tiles;
      weight_ = place.weight;
      if (has_tile_) {
        weight_ += WarpIndex() * Units::TileBytes(place.num_units) +
                   int64_t{first_unit} * kUnitBytes + LaneIndex() * 16;
      }
      const int thread = static_cast<int>(threadIdx.x);
      const int row = thread / kChunks;
      rows_left_ = x.num_rows - place.first_row - row;
      step_bytes_ = kRowStep * x.padded_columns * 2;
      x_ = reinterpret_cast<const std::byte*>(x.values) +
           (int64_t{place.first_row} + row) * x.padded_columns * 2 +
           int64_t{first_unit} * kRowBytes + thread % kChunks * 16;
      weight_to_ = WarpIndex() * kUnitBytes + LaneIndex() * 16;
      x_to_ = kWeightBytes + row * kRowBytes + SwizzledChunk(row, thread % kChunks) * 16;
    }

    KVGATE_DEVICE void CopyUnit(std::byte* stage) {
      constexpr int kTilePieces = kUnitBytes / 16;
      KVGATE_UNROLL
      for (int begin = 0; begin < kTilePieces; begin += kWarpLanes) {
        if (begin + kWarpLanes > kTilePieces && LaneIndex() >= kTilePieces - begin) break;
        device::CopyAsync16(stage + weight_to_ + begin * 16, weight_ + (has_tile_ ? begin * 16 : 0),
                            has_tile_);
      }
      CopyRowChunks<kRows, kRowStep, kRowBytes>(stage + x_to_, x_, step_bytes_, rows_left_);
      weight_ += has_tile_ ? kUnitBytes : 0;
      x_ += kRowBytes;
    }

   private:
    static constexpr int kChunks = kRowBytes / 16;
    static constexpr int kRowStep = kThreads / kChunks;  // even: all rows have the same swizzle
    static_assert(kRowStep % 2 == 0 && kRows % kRowStep == 0);

    const std::byte* weight_;
    const std::byte* x_;
    int rows_left_;
    int step_bytes_;
    int weight_to_;
    int x_to_;
    bool has_tile_;
  };

  static KVGATE_DEVICE void MultiplyUnit(const std::byte* stage, uint32_t offset_pair, Sums& sums) {
    const std::byte* weight = stage + WarpIndex() / kRowWarps * kWarpTiles * kUnitBytes;
    const std::byte* x = stage + kWeightBytes;
    KVGATE_NO_UNROLL
    for (int first = 0; first < Units::kParts; first += kPartsAtOnce) {
      KVGATE_UNROLL
      for (int i = 0; i < kPartsAtOnce; ++i) {
        MultiplyPart(weight, x, first + i, offset_pair, sums);
      }
    }
  }

  static KVGATE_DEVICE void MultiplyPart(const std::byte* weight, const std::byte* x, int part,
                                         uint32_t offset_pair, Sums& sums) {
    const int lane = LaneIndex();
    uint32_t a[kWarpTiles][2][4];
    KVGATE_UNROLL
    for (int tile = 0; tile < kWarpTiles; ++tile) {
      Units::MakeFragments(Units::LoadPart(weight + tile * kUnitBytes, part, lane), offset_pair,
                           a[tile]);
    }
    KVGATE_UNROLL
    for (int i = 0; i < kRowTiles; ++i) {
      const int row = (WarpIndex() % kRowWarps * kRowTiles + i) * 8 + lane / 4;
      const device::Vector16 b = *reinterpret_cast<const device::Vector16*>(
          x + row * kRowBytes + SwizzledChunk(row, part * 4 + lane % 4) * 16);
      KVGATE_UNROLL
      for (int step = 0; step < 2; ++step) {
        KVGATE_UNROLL
        for (int tile = 0; tile < kWarpTiles; ++tile) {
          device::MmaHalf(sums[tile][i], a[tile][step], {b.word[2 * step], b.word[2 * step + 1]});
        }
      }
    }
  }

  static KVGATE_DEVICE void AddSegment(Sums& sums, Sums& total) {
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

  template <typename Work>
  static KVGATE_DEVICE void Finish(const Work& work, const Product& product, const Place& place,
                                   const Sums& total) {
    const int row = place.first_row + WarpIndex() % kRowWarps * kRowTiles * 8 + LaneIndex() % 4 * 2;
    KVGATE_UNROLL
    for (int tile = 0; tile < kWarpTiles; ++tile) {
      const int output =
          (place.first_tile + WarpIndex() / kRowWarps * kWarpTiles + tile) * kTileRows +
          LaneIndex() / 4;
      if (work.is_split()) {
        StoreParts(work.x().num_rows, product, row, output, total[tile]);
      } else {
        FinishTiles<kRowTiles>(product, work.y(), work.x(), row, output, &total[tile][0][0]);
      }
    }
  }

  static KVGATE_DEVICE void StoreParts(int num_rows, const Product& product, int first_row,
                                       int output, const float (&sums)[kRowTiles][4]) {
    const int64_t width = int64_t{product.num_tiles} * kTileRows;
    if (output >= width) return;  // output + 8 is in the same tile
    float* parts = product.parts + blockIdx.y * width * num_rows;
    KVGATE_UNROLL
    for (int i = 0; i < kRowTiles * 4; ++i) {
      const int row = first_row + i / 4 * 8 + i % 2;
      if (row < num_rows) parts[row * width + output + i % 4 / 2 * 8] = sums[i / 4][i % 4];
    }
  }
};

// Waits until the oldest of num_stages - 1 units has arrived.
KVGATE_DEVICE void WaitForUnit(int num_stages) {
  switch (num_stages) {
    case 2:
      return CopyWait<0>();
    case 3:
      return CopyWait<1>();
    case 4:
      return CopyWait<2>();
    case 5:
      return CopyWait<3>();
    default:
      return CopyWait<4>();
  }
}

// Computes all outputs of a place with a whole block. `work` is queried for each value when it is
// needed, because keeping them in registers would exceed the limit.
template <PackedKind kKind, int kRowTiles, typename Work>
KVGATE_DEVICE void RunPlace(const Work& work, const Product& product,
                            const typename ManyRows<kKind, kRowTiles>::Place& place) {
  using Many = ManyRows<kKind, kRowTiles>;
  const int num_stages = work.num_stages();
  const int first_segment = static_cast<int>(blockIdx.y);
  const int end_segment = work.is_split() ? first_segment + 1 : kSegments;
  int unit = SegmentBegin(first_segment, place.num_units);
  const int end = SegmentBegin(end_segment, place.num_units);
  std::byte* stages = device::SharedMemory();
  typename Many::Copier copier(work.x(), place, unit);
  for (int i = 0; i < num_stages - 1; ++i) {
    if (unit + i < end) copier.CopyUnit(stages + i * Many::kStageBytes);
    device::CopyCommit();
  }
  const bool has_outputs = WarpIndex() / kRowWarps * kWarpTiles < place.num_tiles;
  typename Many::Sums sums = {};
  typename Many::Sums total = {};
  int stage = 0;
  KVGATE_NO_UNROLL
  for (int segment = first_segment; segment < end_segment; ++segment) {
    const int segment_end = SegmentBegin(segment + 1, place.num_units);
    KVGATE_NO_UNROLL
    for (; unit < segment_end; ++unit) {
      WaitForUnit(num_stages);
      device::SyncThreads();  // the unit is visible to all, and the stage to be filled next is not
                              // read
      if (unit + num_stages - 1 < end) {
        copier.CopyUnit(stages + (stage == 0 ? num_stages - 1 : stage - 1) * Many::kStageBytes);
      }
      device::CopyCommit();
      if (has_outputs) {
        Many::MultiplyUnit(stages + stage * Many::kStageBytes, work.offset_pair(), sums);
      }
      stage = stage + 1 == num_stages ? 0 : stage + 1;
    }
    Many::AddSegment(sums, total);
  }
  Many::Finish(work, product, place, total);
}

struct DenseWork {
  const ManyRowsArgument& argument;
  const Product& product;

  KVGATE_DEVICE const HalfRows& x() const { return argument.x; }
  KVGATE_DEVICE float* y() const { return product.y; }
  KVGATE_DEVICE uint32_t offset_pair() const { return product.offset_pair; }
  KVGATE_DEVICE bool is_split() const { return argument.is_split != 0; }
  KVGATE_DEVICE int num_stages() const { return static_cast<int>(argument.num_stages); }
};

template <PackedKind kKind, int kRowTiles>
KVGATE_KERNEL void KVGATE_LAUNCH_BOUNDS(kThreads, (ManyRows<kKind, kRowTiles>::kBlocks))
    ManyRowsKernel(ManyRowsArgument argument) {
  using Many = ManyRows<kKind, kRowTiles>;
  const int block = static_cast<int>(blockIdx.x);
  const Product& product = ProductOfBlock(argument.table, block);
  const TilePlace at = PlaceOfBlock({.num_tiles = product.num_tiles,
                                     .block_tiles = kBlockTiles,
                                     .num_row_blocks = argument.num_row_blocks,
                                     .block_rows = Many::kRows},
                                    block - product.first_block);
  RunPlace<kKind, kRowTiles>(DenseWork{argument, product}, product, Many::PlaceOf(product, at));
}

struct ManyExpertRowsArgument {
  HalfRows x;
  ExpertProducts products;
  int64_t num_stages;
};
static_assert(std::has_unique_object_representations_v<ManyExpertRowsArgument>);

// The rows of one group, counted from its first row.
struct ExpertWork {
  const ManyExpertRowsArgument& argument;
  const GroupPlace& place;
  uint32_t kept_offset_pair;  // kept, because the loop would otherwise read it again for every unit

  KVGATE_DEVICE HalfRows x() const {
    HalfRows x = argument.x;
    x.values += int64_t{place.group.first} * x.padded_columns;
    x.scales += place.group.first;
    x.num_rows = place.group.count;
    return x;
  }
  KVGATE_DEVICE float* y() const { return OutputOf(argument.products, place); }
  KVGATE_DEVICE uint32_t offset_pair() const { return kept_offset_pair; }
  KVGATE_DEVICE bool is_split() const { return false; }
  KVGATE_DEVICE int num_stages() const { return static_cast<int>(argument.num_stages); }
};

template <PackedKind kKind, int kRowTiles>
KVGATE_KERNEL void KVGATE_LAUNCH_BOUNDS(kThreads, (ManyRows<kKind, kRowTiles>::kBlocks))
    ManyExpertRowsKernel(ManyExpertRowsArgument argument) {
  using Many = ManyRows<kKind, kRowTiles>;
  const int num_blocks = (argument.products.outputs + kBlockOutputs - 1) / kBlockOutputs;
  const GroupPlace group = GroupPlaceOf(argument.products, num_blocks);
  const ExpertMatrix* matrix = MatrixOf(argument.products, group, kKind);
  if (matrix == nullptr) return;  // applies to the whole block
  const Product& product = matrix->product;
  RunPlace<kKind, kRowTiles>(
      ExpertWork{argument, group, product.offset_pair}, product,
      Many::PlaceOf(product, {.first_tile = group.index * kBlockTiles, .first_row = 0}));
}

struct ManyRowsLaunch {
  void (*kernel)(ManyRowsArgument);
  void (*expert_kernel)(ManyExpertRowsArgument);
  size_t stage_bytes;
  int stages_max;
};

template <PackedKind kKind, int kRowTiles>
constexpr ManyRowsLaunch LaunchOf() {
  using Many = ManyRows<kKind, kRowTiles>;
  return {.kernel = &ManyRowsKernel<kKind, kRowTiles>,
          .expert_kernel = &ManyExpertRowsKernel<kKind, kRowTiles>,
          .stage_bytes = Many::kStageBytes,
          .stages_max = Many::kStages};
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

int64_t StagesOf(const ManyRowsLaunch& launch, size_t shared_bytes_max) {
  const auto num_stages = std::min<int64_t>(
      launch.stages_max, static_cast<int64_t>(shared_bytes_max / launch.stage_bytes));
  KVGATE_CHECK(num_stages >= 2, "two stages fit the smallest shared memory");
  return num_stages;
}

}  // namespace

int RowsOfBlock(int num_rows) { return num_rows <= 32 ? 32 : num_rows <= 64 ? 64 : 128; }

void LaunchManyRows(PackedKind kind, const HalfRows& x, std::span<const Product> products,
                    bool is_split, size_t shared_bytes_max, device::CommandStream& stream) {
  const int rows_of_block = RowsOfBlock(x.num_rows);
  const ManyRowsLaunch launch = LaunchFor(kind, rows_of_block);
  ManyRowsArgument argument{};
  argument.x = x;
  argument.num_row_blocks = (x.num_rows + rows_of_block - 1) / rows_of_block;
  argument.is_split = is_split ? 1 : 0;
  argument.num_stages = StagesOf(launch, shared_bytes_max);
  while (!products.empty()) {
    const auto some = products.first(std::min<size_t>(products.size(), kProductsMax));
    const int num_blocks = FillTable(some, kBlockTiles, argument.num_row_blocks, argument.table);
    stream.Launch(launch.kernel,
                  {.grid = {static_cast<unsigned int>(num_blocks), is_split ? kSegments : 1u},
                   .threads = kThreads,
                   .shared_bytes = static_cast<size_t>(argument.num_stages) * launch.stage_bytes},
                  argument);
    products = products.subspan(some.size());
  }
}

void LaunchManyRows(PackedKind kind, const HalfRows& x, const ExpertProducts& products,
                    size_t shared_bytes_max, device::CommandStream& stream) {
  KVGATE_CHECK(RowsOfBlock(products.rows_of_group) == products.rows_of_group, "a block's rows");
  const ManyRowsLaunch launch = LaunchFor(kind, products.rows_of_group);
  const int64_t num_stages = StagesOf(launch, shared_bytes_max);
  const int blocks_of_product = (products.outputs + kBlockOutputs - 1) / kBlockOutputs;
  const int num_blocks = products.num_groups * products.num_products * blocks_of_product;
  stream.Launch(launch.expert_kernel,
                {.grid = {static_cast<unsigned int>(num_blocks)},
                 .threads = kThreads,
                 .shared_bytes = static_cast<size_t>(num_stages) * launch.stage_bytes},
                {.x = x, .products = products, .num_stages = num_stages});
}

}  // namespace kvgate::kernels::cuda::matmul
