// Products of many rows for compute capability 9.0: tiles of 128 outputs x 128 or 192 rows of x,
// with matrix instructions of whole warpgroups, which alone use the tensor cores fully.
//
// A block is two warpgroups with 64 outputs each; a warp has a tile of 16. Weights are loaded from
// global memory to registers in the order of fragments and unpacked there. x goes through shared
// memory in stages of 64 columns, several ahead, and both warpgroups read it. While the
// instructions of 32 columns run, the next fragments are prepared. Segments are added as in
// matmul_many.cu, with two sets of accumulators, which limits a tile's rows. Quantized weights need
// registers for unpacking and are limited to 128 rows.
//
// The columns of x are in the order of the instructions (ColumnOrder::kSteps). The bits equal those
// of the other kernels if the device adds the 16 products of a step in the same order in both
// instructions, which DeviceMatMul verifies before it uses these kernels.
#include <algorithm>
#include <type_traits>

#include "base/check.h"
#include "kernels/cuda/matmul/matmul_kernels.h"
#include "kernels/cuda/matmul/packed_units.cuh"
#include "kernels/cuda/matmul/product.cuh"

namespace kvgate::kernels::cuda::matmul {

using device::LaneIndex;
using device::Vector16;

namespace {

constexpr int kThreads = 8 * device::kWarpLanes;
constexpr int kBlockTiles = kThreads / device::kWarpLanes;
static_assert(kBlockTiles * kTileRows == kBlockOutputs);
constexpr int kStageColumns = 64;
constexpr int kRowBytes = kStageColumns * 2;
constexpr int kRowChunks = kRowBytes / 16;
constexpr size_t kSharedBytesMax = size_t{208} << 10;  // of 227 KiB

struct WarpgroupRowsArgument {
  HalfRows x;
  ProductTable table;
  int64_t num_row_blocks;
};
static_assert(std::has_unique_object_representations_v<WarpgroupRowsArgument>);

constexpr int StageBytes(int rows) { return rows * kRowBytes; }
// One stage is being read, one may still be read by warps that are behind, the others are in
// flight.
constexpr int NumStages(int rows) {
  return std::min<int>(8, static_cast<int>(kSharedBytesMax) / StageBytes(rows));
}

// A lane's fragments for successive 32 columns. Of<p>() returns part p. Advance(p) may be called
// when the instructions that read part p - 1 have finished.
//
// 16-bit weights are stored as fragments and loaded three parts ahead.
template <PackedKind kKind>
class Fragments {
 public:
  // num_stages is that of the tile; 0 means that there is no tile, and its fragments are zeros.
  KVGATE_DEVICE Fragments(const std::byte* tile, int num_stages, uint32_t)
      : from_(tile + LaneIndex() * 16), parts_left_(num_stages * 2) {
    KVGATE_UNROLL
    for (int slot = 0; slot < kSlots - 1; ++slot) Load(slot);
    KVGATE_UNROLL
    for (int i = 0; i < 8; ++i) a_[kSlots - 1][i / 4][i % 4] = 0;
  }
  template <int kPart>
  KVGATE_DEVICE void Prepare() {}
  template <int kPart>
  KVGATE_DEVICE uint32_t (&Of())[2][4] {
    return a_[kPart % kSlots];
  }
  template <int kPart>
  KVGATE_DEVICE void Advance() {
    Load((kPart + kSlots - 1) % kSlots);
  }

 private:
  using Units = PackedUnits<kKind>;
  static constexpr int kSlots = 4;
  static constexpr int kPartBytes = 2 * kPieceBytes;

  KVGATE_DEVICE void Load(int slot) {
    typename Units::Part part{};
    KVGATE_UNROLL
    for (int row = 0; row < 2; ++row) {
      const Vector16 piece =
          parts_left_ > 0 ? device::LoadOnce(from_ + row * kPieceBytes) : Vector16{};
      KVGATE_UNROLL
      for (int i = 0; i < 4; ++i) part.codes[4 * row + i] = piece.word[i];
    }
    --parts_left_;
    from_ += kPartBytes;
    Units::MakeFragments(part, 0, a_[slot]);
  }

  const std::byte* from_;
  int parts_left_;
  uint32_t a_[kSlots][2][4];
};

// Codes: a unit of four parts is loaded while the previous one is unpacked.
template <PackedKind kKind>
requires(ShapeOf(kKind).bits < 16) class Fragments<kKind> {
 public:
  KVGATE_DEVICE Fragments(const std::byte* tile, int num_stages, uint32_t offset_pair)
      : from_(tile), units_left_(num_stages / 2), offset_pair_(offset_pair) {
    Load(pieces_);
    Load(next_);
  }
  template <int kPart>
  KVGATE_DEVICE void Prepare() {
    Units::MakeFragments(Units::PartOf(pieces_, kPart), offset_pair_, a_[kPart % 2]);
  }
  template <int kPart>
  KVGATE_DEVICE uint32_t (&Of())[2][4] {
    return a_[kPart % 2];
  }
  template <int kPart>
  KVGATE_DEVICE void Advance() {
    if constexpr (kPart == Units::kParts - 1) {
      KVGATE_UNROLL
      for (int i = 0; i < Units::kPieces; ++i) pieces_[i] = next_[i];
      Load(next_);
    }
  }

 private:
  using Units = PackedUnits<kKind>;
  static_assert(Units::kParts == 4);

  KVGATE_DEVICE void Load(Vector16 (&pieces)[Units::kPieces]) {
    KVGATE_UNROLL
    for (int i = 0; i < Units::kPieces; ++i) {
      pieces[i] = units_left_ > 0 ? device::LoadOnce(from_ + Units::OffsetInUnit(i, LaneIndex()))
                                  : Vector16{};
    }
    --units_left_;
    from_ += Units::kShape.unit_bytes();
  }

  const std::byte* from_;
  int units_left_;
  uint32_t offset_pair_;
  Vector16 pieces_[Units::kPieces];
  Vector16 next_[Units::kPieces];
  uint32_t a_[2][2][4];
};

// This thread's share of copying successive stages of x to shared memory: a chunk of every
// kRowStep-th row. Missing rows become zeros.
template <int kRows>
class StageCopier {
 public:
  KVGATE_DEVICE StageCopier(const HalfRows& x, int first_row, int num_stages) {
    const int thread = static_cast<int>(threadIdx.x);
    const int row = thread / kRowChunks;
    const int chunk = thread % kRowChunks;
    from_ = reinterpret_cast<const std::byte*>(x.values) +
            (int64_t{first_row} + row) * x.padded_columns * 2 + chunk * 16;
    step_bytes_ = int64_t{kRowStep} * x.padded_columns * 2;
    rows_left_ = x.num_rows - first_row - row;
    stages_left_ = num_stages;
    to_ = row * kRowBytes + (chunk ^ row % 8) * 16;
  }

  // Starts one group of copies, which is empty after the last stage.
  KVGATE_DEVICE void CopyStage(std::byte* stage) {
    if (stages_left_ > 0) {
      CopyRowChunks<kRows, kRowStep, kRowBytes>(stage + to_, from_, step_bytes_, rows_left_);
    }
    device::CopyCommit();
    --stages_left_;
    from_ += kRowBytes;
  }

 private:
  static constexpr int kRowStep = kThreads / kRowChunks;  // multiple of 8: one swizzle for all
  static_assert(kRowStep % 8 == 0 && kRows % kRowStep == 0);

  const std::byte* from_;
  int64_t step_bytes_;
  int rows_left_;
  int stages_left_;
  int to_;
};

template <PackedKind kKind, int kRows>
class WarpgroupRows {
 public:
  KVGATE_DEVICE WarpgroupRows(const HalfRows& x, const Product& product, const TilePlace& place)
      : product_(product),
        place_(place),
        num_stages_(product.num_units * kStagesOfUnit),
        tile_(place.first_tile + device::WarpIndex()),
        copier_(x, place.first_row, num_stages_),
        fragments_(product.weight +
                       (has_tile() ? tile_ * Units::TileBytes(product.num_units) : int64_t{0}),
                   has_tile() ? num_stages_ : 0, product.offset_pair) {}

  KVGATE_DEVICE void Run() {
    for (int i = 0; i < kAhead; ++i) copier_.CopyStage(StageAt(i));
    while (segment_end_ == 0) NextSegment();
    KVGATE_NO_UNROLL
    for (int stage = 0; stage < num_stages_; stage += 2) {
      RunStage<0>(stage);
      if (stage + 1 < num_stages_) RunStage<1>(stage + 1);
    }
    device::WarpgroupWait<0>();  // all have finished already; this tells the compiler
  }

  KVGATE_DEVICE void Finish(const HalfRows& x) const {
    constexpr int kTilesAtOnce = 8;
    const int row = place_.first_row + LaneIndex() % 4 * 2;
    const int output = tile_ * kTileRows + LaneIndex() / 4;
    KVGATE_UNROLL
    for (int first = 0; first < kRows / 8; first += kTilesAtOnce) {
      FinishTiles<kTilesAtOnce>(product_, product_.y, x, row + first * 8, output,
                                total_ + first * 4);
    }
  }

 private:
  using Units = PackedUnits<kKind>;
  static constexpr int kStagesOfUnit = ShapeOf(kKind).unit_columns() / kStageColumns;
  static constexpr int kStages = NumStages(kRows);
  static constexpr int kAhead = kStages - 2;

  KVGATE_DEVICE bool has_tile() const { return tile_ < product_.num_tiles; }
  static KVGATE_DEVICE std::byte* StageAt(int index) {
    return device::SharedMemory() + index * StageBytes(kRows);
  }

  KVGATE_DEVICE void NextSegment() {
    ++segment_;
    segment_end_ = SegmentBegin(segment_ + 1, product_.num_units) * kStagesOfUnit;
  }

  // kHalf: which of the two stages over which the fragments' parts are counted.
  template <int kHalf>
  KVGATE_DEVICE void RunStage(int stage) {
    device::CopyWait<kAhead - 1>();
    device::PublishShared();
    device::SyncThreads();  // the stage is visible to all, and the one before the last is not read
    RunPart<2 * kHalf>(0);
    copier_.CopyStage(StageAt(at_ < 2 ? at_ + kAhead : at_ - 2));
    device::WarpgroupWait<1>();
    fragments_.template Advance<2 * kHalf>();
    RunPart<2 * kHalf + 1>(1);
    if (stage + 1 == segment_end_) {
      device::WarpgroupWaitAll(sums_);
      KVGATE_UNROLL
      for (int i = 0; i < kRows / 2; ++i) total_[i] += sums_[i];
      has_sums_ = false;
      do {
        NextSegment();
      } while (segment_end_ == stage + 1 && segment_ + 1 < kSegments);
    } else {
      device::WarpgroupWait<1>();
    }
    fragments_.template Advance<2 * kHalf + 1>();
    at_ = at_ + 1 == kStages ? 0 : at_ + 1;
  }

  template <int kPart>
  KVGATE_DEVICE void RunPart(int part_of_stage) {
    fragments_.template Prepare<kPart>();
    uint32_t(&a)[2][4] = fragments_.template Of<kPart>();
    device::WarpgroupFence(a);
    device::WarpgroupMma<kRows>(sums_, a[0], StageAt(at_), part_of_stage * 2, has_sums_);
    device::WarpgroupMma<kRows>(sums_, a[1], StageAt(at_), part_of_stage * 2 + 1, true);
    device::WarpgroupCommit();
    has_sums_ = true;
  }

  const Product& product_;
  const TilePlace place_;
  const int num_stages_;
  const int tile_;
  StageCopier<kRows> copier_;
  Fragments<kKind> fragments_;
  int segment_ = -1;
  int segment_end_ = 0;
  int at_ = 0;
  bool has_sums_ = false;
  float sums_[kRows / 2] = {};
  float total_[kRows / 2] = {};
};

template <PackedKind kKind, int kRows>
KVGATE_KERNEL void KVGATE_LAUNCH_BOUNDS(kThreads, 1)
    WarpgroupRowsKernel(WarpgroupRowsArgument argument) {
  const int block = static_cast<int>(blockIdx.x);
  const Product& product = ProductOfBlock(argument.table, block);
  const TilePlace place = PlaceOfBlock({.num_tiles = product.num_tiles,
                                        .block_tiles = kBlockTiles,
                                        .num_row_blocks = static_cast<int>(argument.num_row_blocks),
                                        .block_rows = kRows},
                                       block - product.first_block);
  WarpgroupRows<kKind, kRows> rows(argument.x, product, place);
  rows.Run();
  rows.Finish(argument.x);
}

using Kernel = void (*)(WarpgroupRowsArgument);

Kernel KernelFor(PackedKind kind, int rows_of_block) {
  switch (kind) {
    case PackedKind::kHalves:
      return rows_of_block == 192 ? &WarpgroupRowsKernel<PackedKind::kHalves, 192>
                                  : &WarpgroupRowsKernel<PackedKind::kHalves, 128>;
    case PackedKind::kCodes4:
      return &WarpgroupRowsKernel<PackedKind::kCodes4, 128>;
    case PackedKind::kCodes4Mins:
      return &WarpgroupRowsKernel<PackedKind::kCodes4Mins, 128>;
    case PackedKind::kCodes4Of16:
      return &WarpgroupRowsKernel<PackedKind::kCodes4Of16, 128>;
    case PackedKind::kCodes6Mins:
      return &WarpgroupRowsKernel<PackedKind::kCodes6Mins, 128>;
    case PackedKind::kCodes6Of16:
      return &WarpgroupRowsKernel<PackedKind::kCodes6Of16, 128>;
    case PackedKind::kCodes8:
      return &WarpgroupRowsKernel<PackedKind::kCodes8, 128>;
    case PackedKind::kFloats:
    case PackedKind::kPlainHalves:
      break;
  }
  KVGATE_CHECK(false, "a kind whose tiles lie in fragments' order");
}

int CountBlocks(std::span<const Product> products, int num_row_blocks) {
  int count = 0;
  for (const Product& product : products) {
    count += (product.num_tiles + kBlockTiles - 1) / kBlockTiles * num_row_blocks;
  }
  return count;
}

}  // namespace

WarpgroupShape WarpgroupShapeOf(PackedKind kind, int num_rows, std::span<const Product> products,
                                int num_multiprocessors) {
  const auto shape_of = [&](int rows_of_block) {
    const int num_row_blocks = (num_rows + rows_of_block - 1) / rows_of_block;
    return WarpgroupShape{.rows_of_block = rows_of_block,
                          .num_row_blocks = num_row_blocks,
                          .num_blocks = CountBlocks(products, num_row_blocks)};
  };
  const WarpgroupShape narrow = shape_of(128);
  if (kind != PackedKind::kHalves) return narrow;
  const WarpgroupShape wide = shape_of(192);
  const auto waves = [&](const WarpgroupShape& shape) {
    return (shape.num_blocks + num_multiprocessors - 1) / num_multiprocessors;
  };
  return waves(wide) * 192 <= waves(narrow) * 128 ? wide : narrow;
}

void LaunchWarpgroupRows(PackedKind kind, const HalfRows& x, std::span<const Product> products,
                         const WarpgroupShape& shape, device::CommandStream& stream) {
  WarpgroupRowsArgument argument{};
  argument.x = x;
  argument.num_row_blocks = shape.num_row_blocks;
  while (!products.empty()) {
    const auto some = products.first(std::min<size_t>(products.size(), kProductsMax));
    const int num_blocks = FillTable(some, kBlockTiles, shape.num_row_blocks, argument.table);
    stream.Launch(KernelFor(kind, shape.rows_of_block),
                  {.grid = {static_cast<unsigned int>(num_blocks)},
                   .threads = kThreads,
                   .shared_bytes = static_cast<size_t>(NumStages(shape.rows_of_block) *
                                                       StageBytes(shape.rows_of_block))},
                  argument);
    products = products.subspan(some.size());
  }
}

}  // namespace kvgate::kernels::cuda::matmul
