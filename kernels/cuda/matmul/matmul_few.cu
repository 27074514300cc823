// Products of at most 8 rows, whose time is that of reading the weights once.
//
// A block is a tile of 16 outputs, a warp one segment of K. The warp streams the segment's
// contiguous bytes from global memory to registers, kDepth units ahead, unpacks them and
// multiplies. The first units are requested before x is converted, so that the conversion costs no
// extra time. The segments' sums are added in shared memory.
#include <algorithm>
#include <type_traits>

#include "base/check.h"
#include "kernels/cuda/matmul/matmul_kernels.h"
#include "kernels/cuda/matmul/packed_units.cuh"
#include "kernels/cuda/matmul/product.cuh"

namespace kvgate::kernels::cuda::matmul {

using device::LaneIndex;

namespace {

constexpr int kThreads = kSegments * device::kWarpLanes;
constexpr int kSums = kTileRows * kFewRows;  // per segment

struct FewRowsArgument {
  InputRows x;
  ProductTable table;
};
static_assert(std::has_unique_object_representations_v<FewRowsArgument>);

// Shared memory: x, then the rest.
struct FewRowsShared {
  std::byte* x;
  float* sums;       // [kSegments][kFewRows][kTileRows]
  float* x_scales;   // [kFewRows]
  uint32_t* maxima;  // [kFewRows][8]
};
constexpr size_t kRestBytes = (kSegments * kSums + kFewRows + kFewRows * 8) * sizeof(float);
static_assert(kRestBytes <= kFewRowsRestBytesMax);

KVGATE_DEVICE FewRowsShared SharedOf(const HalfRows& x) {
  FewRowsShared shared{};
  shared.x = device::SharedMemory();
  shared.sums = reinterpret_cast<float*>(shared.x + x.num_rows * x.padded_columns * 2);
  shared.x_scales = shared.sums + kSegments * kSums;
  shared.maxima = reinterpret_cast<uint32_t*>(shared.x_scales + kFewRows);
  return shared;
}

// Fills shared.x and shared.x_scales; a barrier must follow.
KVGATE_DEVICE void PrepareRows(const InputRows& x, const FewRowsShared& shared) {
  const int row_bytes = x.halves.padded_columns * 2;
  const int thread = static_cast<int>(threadIdx.x);
  if (x.halves.values != nullptr) {
    const int chunks = row_bytes / 16;
    for (int i = thread; i < x.halves.num_rows * chunks; i += kThreads) {
      const int row = i / chunks;
      device::CopyAsync16(shared.x + row * row_bytes + SwizzledChunk(row, i % chunks) * 16,
                          reinterpret_cast<const std::byte*>(x.halves.values) + int64_t{i} * 16,
                          true);
    }
    device::CopyCommit();
    if (thread < x.halves.num_rows) shared.x_scales[thread] = x.halves.scales[thread];
    device::CopyWait<0>();
    return;
  }
  for (int row = 0; row < x.halves.num_rows; ++row) {
    const float* from = x.x + row * x.columns;
    const auto columns = static_cast<int>(x.columns);
    const uint32_t magnitude = BlockMagnitude(from, columns, shared.maxima + row * 8);
    const float multiplier = device::BitsToFloat(MultiplierBits(magnitude));
    if (thread == 0) shared.x_scales[row] = device::BitsToFloat(InverseBits(magnitude));
    for (int pair = thread; pair < x.halves.padded_columns / 2; pair += kThreads) {
      std::byte* chunk = shared.x + row * row_bytes + SwizzledChunk(row, pair / 4) * 16;
      reinterpret_cast<uint32_t*>(chunk)[pair % 4] = ScaledPair(from, columns, pair, multiplier);
    }
  }
}

template <PackedKind kKind>
KVGATE_DEVICE void LoadUnit(const std::byte* tile, int num_units, int unit,
                            device::Vector16 (&pieces)[PackedUnits<kKind>::kPieces]) {
  KVGATE_UNROLL
  for (int i = 0; i < PackedUnits<kKind>::kPieces; ++i) {
    pieces[i] =
        device::LoadOnce(tile + PackedUnits<kKind>::OffsetInTile(num_units, unit, i, LaneIndex()));
  }
}

template <PackedKind kKind>
KVGATE_DEVICE void MultiplyUnit(const device::Vector16 (&pieces)[PackedUnits<kKind>::kPieces],
                                const HalfRows& x, const std::byte* shared_x, int unit,
                                uint32_t offset_pair, float (&sum)[4]) {
  using Units = PackedUnits<kKind>;
  const int row = LaneIndex() / 4;
  KVGATE_UNROLL
  for (int part = 0; part < Units::kParts; ++part) {
    uint32_t a[2][4];
    Units::MakeFragments(Units::PartOf(pieces, part), offset_pair, a);
    device::Vector16 b{};
    if (row < x.num_rows) {
      const int chunk = (unit * Units::kParts + part) * 4 + LaneIndex() % 4;
      b = *reinterpret_cast<const device::Vector16*>(shared_x + row * x.padded_columns * 2 +
                                                     SwizzledChunk(row, chunk) * 16);
    }
    device::MmaHalf(sum, a[0], {b.word[0], b.word[1]});
    device::MmaHalf(sum, a[1], {b.word[2], b.word[3]});
  }
}

// Computes one tile of 16 outputs of a product with a whole block; y_of() returns the start of its
// y.
template <PackedKind kKind, typename YOf>
KVGATE_DEVICE void RunTile(const Product& product, const InputRows& input, int tile_index,
                           YOf y_of) {
  using Units = PackedUnits<kKind>;
  // Units in flight. The 16 warps of a multiprocessor then have 36 to 96 KiB requested; 25 KiB
  // would cover the memory latency at full bandwidth. More than 12 pieces would exceed the
  // registers.
  constexpr int kDepth = Units::kPieces > 4 ? 2 : 3;
  const HalfRows& x = input.halves;
  const std::byte* tile = product.weight + tile_index * Units::TileBytes(product.num_units);
  const int end = SegmentBegin(device::WarpIndex() + 1, product.num_units);
  int unit = SegmentBegin(device::WarpIndex(), product.num_units);
  device::Vector16 pieces[kDepth][Units::kPieces];
  KVGATE_UNROLL
  for (int i = 0; i < kDepth; ++i) {
    if (unit + i < end) LoadUnit<kKind>(tile, product.num_units, unit + i, pieces[i]);
  }
  const FewRowsShared shared = SharedOf(x);
  PrepareRows(input, shared);
  device::SyncThreads();

  float sum[4] = {};
  for (; unit < end; unit += kDepth) {
    KVGATE_UNROLL
    for (int i = 0; i < kDepth; ++i) {
      const int here = unit + i;
      if (here >= end) break;
      MultiplyUnit<kKind>(pieces[i], x, shared.x, here, product.offset_pair, sum);
      if (here + kDepth < end) {
        LoadUnit<kKind>(tile, product.num_units, here + kDepth, pieces[i]);
      }
    }
  }
  float* mine = shared.sums + device::WarpIndex() * kSums + LaneIndex() % 4 * 2 * kTileRows;
  const int g = LaneIndex() / 4;
  mine[g] = sum[0];
  mine[kTileRows + g] = sum[1];
  mine[g + 8] = sum[2];
  mine[kTileRows + g + 8] = sum[3];
  device::SyncThreads();
  const int place = static_cast<int>(threadIdx.x);
  const int row = place / kTileRows;
  const int output = tile_index * kTileRows + place % kTileRows;
  if (row >= x.num_rows || output >= product.rows) return;
  float total = 0;
  for (int segment = 0; segment < kSegments; ++segment) {
    total += shared.sums[segment * kSums + place];
  }
  FinishOutput(product, y_of(), row, output, total, shared.x_scales[row]);
}

template <PackedKind kKind>
KVGATE_KERNEL void KVGATE_LAUNCH_BOUNDS(kThreads, 3) FewRowsKernel(FewRowsArgument argument) {
  const int block = static_cast<int>(blockIdx.x);
  const Product& product = ProductOfBlock(argument.table, block);
  RunTile<kKind>(product, argument.x, block - product.first_block, [&] { return product.y; });
}

struct FewExpertRowsArgument {
  InputRows x;
  RowSources sources;
  ExpertProducts products;
};
static_assert(std::has_unique_object_representations_v<FewExpertRowsArgument>);

template <PackedKind kKind>
KVGATE_KERNEL void KVGATE_LAUNCH_BOUNDS(kThreads, 3)
    FewExpertRowsKernel(FewExpertRowsArgument argument) {
  const int num_tiles = (argument.products.outputs + kTileRows - 1) / kTileRows;
  const GroupPlace place = GroupPlaceOf(argument.products, num_tiles);
  const ExpertMatrix* matrix = MatrixOf(argument.products, place, kKind);
  if (matrix == nullptr) return;  // applies to the whole block
  InputRows x = argument.x;
  x.halves.num_rows = place.group.count;
  if (x.halves.values != nullptr) {
    x.halves.values += int64_t{place.group.first} * x.halves.padded_columns;
    x.halves.scales += place.group.first;
  } else {
    x.x += SourceOf(argument.sources, place.group.first) * x.columns;
  }
  float* y = OutputOf(argument.products, place);
  RunTile<kKind>(matrix->product, x, place.index, [y] { return y; });
}

struct FewRowsKernels {
  void (*dense)(FewRowsArgument);
  void (*expert)(FewExpertRowsArgument);
};

template <PackedKind kKind>
constexpr FewRowsKernels KernelsOf() {
  return {.dense = &FewRowsKernel<kKind>, .expert = &FewExpertRowsKernel<kKind>};
}

FewRowsKernels KernelsOf(PackedKind kind) {
  switch (kind) {
    case PackedKind::kHalves:
      return KernelsOf<PackedKind::kHalves>();
    case PackedKind::kPlainHalves:
      return KernelsOf<PackedKind::kPlainHalves>();
    case PackedKind::kCodes4:
      return KernelsOf<PackedKind::kCodes4>();
    case PackedKind::kCodes4Mins:
      return KernelsOf<PackedKind::kCodes4Mins>();
    case PackedKind::kCodes4Of16:
      return KernelsOf<PackedKind::kCodes4Of16>();
    case PackedKind::kCodes6Mins:
      return KernelsOf<PackedKind::kCodes6Mins>();
    case PackedKind::kCodes6Of16:
      return KernelsOf<PackedKind::kCodes6Of16>();
    case PackedKind::kCodes8:
      return KernelsOf<PackedKind::kCodes8>();
    case PackedKind::kFloats:
      break;
  }
  KVGATE_CHECK(false, "a kind with tiles");
}

}  // namespace

void LaunchFewRows(PackedKind kind, const InputRows& x, std::span<const Product> products,
                   device::CommandStream& stream) {
  const size_t x_bytes = static_cast<size_t>(x.halves.num_rows) * x.halves.padded_columns * 2;
  KVGATE_CHECK(x.halves.num_rows <= kFewRows && x_bytes <= kFewRowsBytesMax, "few rows");
  while (!products.empty()) {
    FewRowsArgument argument{};
    argument.x = x;
    const auto some = products.first(std::min<size_t>(products.size(), kProductsMax));
    const int num_blocks = FillTable(some, 1, 1, argument.table);
    stream.Launch(KernelsOf(kind).dense,
                  {.grid = {static_cast<unsigned int>(num_blocks)},
                   .threads = kThreads,
                   .shared_bytes = x_bytes + kRestBytes},
                  argument);
    products = products.subspan(some.size());
  }
}

void LaunchFewRows(PackedKind kind, const InputRows& x, const RowSources& sources,
                   const ExpertProducts& products, device::CommandStream& stream) {
  const size_t x_bytes = static_cast<size_t>(products.rows_of_group) * x.halves.padded_columns * 2;
  KVGATE_CHECK(products.rows_of_group <= kFewRows && x_bytes <= kFewRowsBytesMax, "few rows");
  const int num_tiles = (products.outputs + kTileRows - 1) / kTileRows;
  const int num_blocks = products.num_groups * products.num_products * num_tiles;
  stream.Launch(KernelsOf(kind).expert,
                {.grid = {static_cast<unsigned int>(num_blocks)},
                 .threads = kThreads,
                 .shared_bytes = x_bytes + kRestBytes},
                {.x = x, .sources = sources, .products = products});
}

}  // namespace kvgate::kernels::cuda::matmul
