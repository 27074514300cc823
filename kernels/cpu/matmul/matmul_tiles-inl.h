// Shared parts of the register tiles of products: shapes, output of sums, and prefetching of
// weights. Included once per SIMD target.
#if defined(KVGATE_KERNELS_CPU_MATMUL_TILES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef KVGATE_KERNELS_CPU_MATMUL_TILES_INL_H_
#undef KVGATE_KERNELS_CPU_MATMUL_TILES_INL_H_
#else
#define KVGATE_KERNELS_CPU_MATMUL_TILES_INL_H_
#endif

#include <hwy/cache_control.h>
#include <hwy/highway.h>

#include <algorithm>

#include "kernels/cpu/machine/simd-inl.h"
#include "kernels/cpu/matmul/matmul_kernels.h"

HWY_BEFORE_NAMESPACE();
namespace kvgate::kernels::cpu::matmul {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;
namespace simd = machine::HWY_NAMESPACE;

// 16 vector registers hold a tile of 6 rows and 2 vectors with its operands; 32 hold 12 and 2.
constexpr int kMaxTileRows = (simd::kLanes == 16 || HWY_TARGET == HWY_NEON) ? 12 : 6;
constexpr int kVectorsPerPanel = static_cast<int>(kPanelRows / simd::kLanes);
static_assert(kVectorsPerPanel >= 2);
// Vectors per tile of `rows` rows if the weights come directly from memory. With few rows it is a
// whole panel, which is then read as one stream. That keeps up with memory (a line of f16 per four
// cycles), and the hardware prefetcher follows one stream better than two panels at once or
// explicit prefetches (87 % of a core's read bandwidth instead of 75 %).
constexpr int VectorsFor(int rows) { return rows <= 3 ? std::min(kVectorsPerPanel, 4) : 2; }

// ---- int16 products -------------------------------------------------------------------------

using D16 = hn::Repartition<int16_t, simd::DF>;
using V16 = hn::Vec<D16>;

// Lane i: a[2i] * b[2i] + a[2i+1] * b[2i+1]; exact in int32, as |a| <= 128 and b is a quant of x.
HWY_INLINE simd::VI32 PairProducts(V16 a, V16 b) {
  const simd::DI32 di;
#if HWY_ARCH_X86 && HWY_TARGET <= HWY_SSE4
  simd::VI32 unused = hn::Zero(di);
  return hn::ReorderWidenMulAccumulate(di, a, b, hn::Zero(di), unused);  // pmaddwd
#else
  const simd::VI32 a32 = hn::BitCast(di, a);
  const simd::VI32 b32 = hn::BitCast(di, b);
  const simd::VI32 high = hn::Mul(hn::ShiftRight<16>(a32), hn::ShiftRight<16>(b32));
  const simd::VI32 low = hn::Mul(hn::ShiftRight<16>(hn::ShiftLeft<16>(a32)),
                                 hn::ShiftRight<16>(hn::ShiftLeft<16>(b32)));
  return hn::Add(high, low);
#endif
}

// Returns sum + PairProducts(a, b).
HWY_INLINE simd::VI32 AddPairProduct(V16 a, V16 b, simd::VI32 sum) {
#if HWY_ARCH_X86 && HWY_TARGET == HWY_AVX3_DL
  // Inline assembly, because Highway's functions for this target lack the attribute that the
  // intrinsic needs.
  asm("vpdpwssd %2, %1, %0" : "+v"(sum.raw) : "v"(a.raw), "v"(b.raw));
#else
  sum = hn::Add(sum, PairProducts(a, b));
  KVGATE_IN_REGISTER(sum);
#endif
  return sum;
}

// ---- output ---------------------------------------------------------------------------------

// The destination of one tile's sums.
struct TileOutput {
  float* y;           // first row, first column of the tile
  int64_t stride;     // columns of y
  int64_t columns;    // columns of y from here on; fewer than the tile's in the last panel
  const float* bias;  // at the tile's first column, or null
  bool accumulate;
  bool first_block;  // first block of columns of x: y has no partial sum yet
};

HWY_INLINE TileOutput OutputAt(const MatMulPart& part, int first_row, int64_t first_column,
                               int64_t k) {
  const int64_t stride = part.weight->rows();
  return {.y = part.y + first_row * stride + first_column,
          .stride = stride,
          .columns = stride - first_column,
          .bias = part.bias == nullptr ? nullptr : part.bias + first_column,
          .accumulate = part.accumulate,
          .first_block = k == 0};
}

template <int kRows, int kVectors>
HWY_INLINE void AddWholeTile(const simd::VF (&sums)[kRows][kVectors], const TileOutput& out) {
  const simd::DF df;
  KVGATE_UNROLL
  for (int r = 0; r < kRows; ++r) {
    KVGATE_UNROLL
    for (int v = 0; v < kVectors; ++v) {
      float* y = out.y + r * out.stride + v * simd::kLanes;
      simd::VF base = hn::Zero(df);
      if (!out.first_block) {
        base = hn::LoadU(df, y);
      } else {
        if (out.bias != nullptr) base = hn::LoadU(df, out.bias + v * simd::kLanes);
        if (out.accumulate) base = hn::Add(base, hn::LoadU(df, y));
      }
      hn::StoreU(hn::Add(base, sums[r][v]), df, y);
    }
  }
}

// The same additions for a tile that extends past the last column of y.
template <int kRows, int kVectors>
HWY_NOINLINE void AddPartTile(const simd::VF (&sums)[kRows][kVectors], const TileOutput& out) {
  HWY_ALIGN float row[kVectors * simd::kLanes];
  for (int r = 0; r < kRows; ++r) {
    for (int v = 0; v < kVectors; ++v) hn::Store(sums[r][v], simd::DF(), row + v * simd::kLanes);
    float* y = out.y + r * out.stride;
    for (int64_t column = 0; column < out.columns; ++column) {
      float base = 0.0f;
      if (!out.first_block) {
        base = y[column];
      } else {
        if (out.bias != nullptr) base = out.bias[column];
        if (out.accumulate) base += y[column];
      }
      y[column] = base + row[column];
    }
  }
}

template <int kRows, int kVectors>
HWY_INLINE void AddTile(const simd::VF (&sums)[kRows][kVectors], const TileOutput& out) {
  if (out.columns <= 0) return;
  if (out.columns >= static_cast<int64_t>(kVectors * simd::kLanes)) {
    AddWholeTile(sums, out);
  } else {
    AddPartTile(sums, out);
  }
}

// Prefetches the part of y to which a tile will be added.
template <int kRows>
HWY_INLINE void PrefetchTile(const TileOutput& out) {
  KVGATE_UNROLL
  for (int r = 0; r < kRows; ++r) hwy::Prefetch(out.y + r * out.stride);
}

// ---- weights ahead --------------------------------------------------------------------------

// A few tiles of rows take about as long to compute as their weights take to arrive from memory. So
// the next block is prefetched line by line while the current one is multiplied; doing one after
// the other would add the two times. With more tiles, memory is not the bottleneck.
constexpr size_t kTilesAheadMax = 12;
constexpr int kRowsAheadMin = 4;

struct Ahead {
  const std::byte* from = nullptr;  // any readable address if there is nothing to prefetch
  size_t step = 0;                  // bytes between prefetches

  HWY_INLINE void Ask() {
    __builtin_prefetch(from, 0, 2);  // to L2, because L1 holds the current operands
    from += step;
  }
};

// Splits the prefetching of the next block of weights evenly over the passes over the current one.
class BlockAhead {
 public:
  // `asks` is the number of prefetches per pass.
  struct Shape {
    int64_t offset;  // byte offset of the block in its panel; `bytes` is its size
    size_t bytes;
    int64_t asks;
    size_t num_passes;
  };
  BlockAhead(const MatMulPart& part, int64_t panel, const Shape& shape)
      : here_(part.weight->panel(panel) + shape.offset), asks_(static_cast<size_t>(shape.asks)) {
    if (part.tiles.size() > kTilesAheadMax || panel + 1 >= part.panel_end) return;
    next_ = part.weight->panel(panel + 1) + shape.offset;
    const size_t num_asks = shape.num_passes * asks_;
    step_ = (shape.bytes + num_asks - 1) / num_asks;
  }
  Ahead NextPass() {
    if (next_ == nullptr) return {.from = here_, .step = 0};
    const Ahead ahead{.from = next_, .step = step_};
    next_ += step_ * asks_;
    return ahead;
  }

 private:
  const std::byte* here_;
  const std::byte* next_ = nullptr;
  size_t asks_;
  size_t step_ = 0;
};

}  // namespace HWY_NAMESPACE
}  // namespace kvgate::kernels::cpu::matmul
HWY_AFTER_NAMESPACE();

#endif  // include guard per target
