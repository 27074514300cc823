// The launches that DeviceMatMul is made of. All kernels give a row the same bits: matmul.h says in
// which order they add. What is an argument has no padding, so that equal launches are equal bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "kernels/cuda/command_stream.h"
#include "kernels/cuda/packed_layout.h"

namespace kvgate::kernels::cuda {

// One product: y[m, n] = (sum * row_scales[n]) * x_scales[m] (+ bias[n]) (+ the old y).
struct Product {
  const std::byte* weight = nullptr;
  const float* row_scales = nullptr;
  const float* bias = nullptr;
  float* y = nullptr;
  float* parts = nullptr;  // [kSegments][num_rows][num_tiles * kTileRows] where segments are split
  int rows = 0;            // outputs
  int num_tiles = 0;
  int num_units = 0;
  int first_block = 0;       // of the launch, this product's; set by the launch
  uint32_t offset_pair = 0;  // 1024 + a code's offset, as f16, twice
  uint32_t accumulates = 0;
};

// Products of one launch: as many as its argument holds.
inline constexpr int kProductsMax = 16;

// x in f16: row-major, rows of padded_columns, zeros past the end; values * x_scales are x.
struct HalfRows {
  const uint16_t* values = nullptr;
  const float* scales = nullptr;
  int num_rows = 0;
  int padded_columns = 0;
};

// x as f32, and where it is or will be packed, as f16.
struct InputRows {
  const float* x = nullptr;
  int64_t columns = 0;
  HalfRows halves;  // values may be null in FewRows: then each block packs for itself
};

// Order of x's columns in f16. kSteps: of each 32 columns those of a matrix instruction's 16 after
// the others', as they stand in the packed weights (packed_layout.h).
enum class ColumnOrder : uint8_t { kNatural, kSteps };

void LaunchPackRows(const InputRows& x, ColumnOrder order, CommandStream& stream);

// Rows that one matrix instruction takes, and bytes of x that a block keeps.
inline constexpr int kFewRows = 8;
inline constexpr size_t kFewRowsBytesMax = size_t{112} << 10;
inline constexpr size_t kFewRowsRestBytesMax = size_t{8} << 10;  // beside x
// Products of one kind. REQUIRES: num_rows <= kFewRows, num_rows * padded_columns * 2 <=
// kFewRowsBytesMax.
void LaunchFewRows(PackedKind kind, const InputRows& x, std::span<const Product> products,
                   CommandStream& stream);

// Products of one kind. is_split: every segment has blocks of its own, whose sums go to `parts`,
// and LaunchAddParts follows.
void LaunchManyRows(PackedKind kind, const HalfRows& x, std::span<const Product> products,
                    bool is_split, size_t shared_bytes_max, CommandStream& stream);
// Rows of x that a block of LaunchManyRows takes: 32, 64 or 128.
int RowsOfBlock(int num_rows);
// Outputs that it takes.
inline constexpr int kBlockOutputs = 128;

// Products of one kind, not split, on devices of 9.0; x is in ColumnOrder::kSteps.
struct WarpgroupShape {
  int rows_of_block = 0;
  int num_row_blocks = 0;
  int num_blocks = 0;
};
// What takes the device least time.
WarpgroupShape WarpgroupShapeOf(PackedKind kind, int num_rows, std::span<const Product> products,
                                int num_multiprocessors);
void LaunchWarpgroupRows(PackedKind kind, const HalfRows& x, std::span<const Product> products,
                         const WarpgroupShape& shape, CommandStream& stream);

void LaunchAddParts(const HalfRows& x, std::span<const Product> products, CommandStream& stream);

// y of a product from its sums [num_rows, rows], which lie in `parts`; they may be y.
void LaunchFinishRows(const HalfRows& x, const Product& product, CommandStream& stream);

// f32 weights, row-major [rows, columns], f32 x.
void LaunchFloatRows(const float* x, int num_rows, int columns, const Product& product,
                     CommandStream& stream);

// ---- products by expert: each row of x by a matrix of its own, which the device has chosen ----

class PackedWeight;
// y, bias and accumulates are the caller's.
Product ProductOf(const PackedWeight& weight);

// Row i of such a product's x is row pairs[i] / per_row of what lies there; of null pairs, i's.
struct RowSources {
  const int* pairs = nullptr;
  int64_t per_row = 1;
};

// Rows [first, first + count) take one expert's matrix. A launch is for as many groups as there can
// be; those that there are not have a count of 0.
struct RowGroup {
  int expert;
  int first;
  int count;
  int padding;
};

struct ExpertMatrix {
  Product product;  // y is null
  uint64_t kind;    // a PackedKind
};

// Up to two products of one x. All matrices have the same outputs.
struct ExpertProducts {
  const ExpertMatrix* matrices[2] = {};  // [num_experts], device memory
  float* y[2] = {};                      // [rows, outputs]
  const RowGroup* groups = nullptr;      // [num_groups], device memory
  int num_groups = 0;
  int rows_of_group = 0;  // at most
  int num_products = 0;
  int outputs = 0;
};

// As LaunchPackRows; rows come from `sources`.
void LaunchPackRows(const InputRows& x, const RowSources& sources, CommandStream& stream);
// Matrices of other kinds are left to other launches. Where x has no halves, groups are of one row,
// and x.x is of `sources`, which has no pairs.
// REQUIRES: rows_of_group <= kFewRows, rows_of_group * padded_columns * 2 <= kFewRowsBytesMax.
void LaunchFewRows(PackedKind kind, const InputRows& x, const RowSources& sources,
                   const ExpertProducts& products, CommandStream& stream);
// REQUIRES: rows_of_group is one that RowsOfBlock gives.
void LaunchManyRows(PackedKind kind, const HalfRows& x, const ExpertProducts& products,
                    size_t shared_bytes_max, CommandStream& stream);
void LaunchFloatRows(const float* x, int columns, const RowSources& sources,
                     const ExpertProducts& products, CommandStream& stream);

}  // namespace kvgate::kernels::cuda
