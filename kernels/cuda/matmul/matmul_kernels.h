// The launches that DeviceMatMul consists of. All kernels give a row the same bits; matmul.h
// specifies the order of additions. Argument structs have no padding, so that equal launches are
// equal bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "kernels/cuda/device/command_stream.h"
#include "kernels/cuda/matmul/packed_layout.h"

namespace kvgate::kernels::cuda::matmul {

// One product: y[m, n] = (sum * row_scales[n]) * x_scales[m] (+ bias[n]) (+ the old y).
struct Product {
  const std::byte* weight = nullptr;
  const float* row_scales = nullptr;
  const float* bias = nullptr;
  float* y = nullptr;
  float* parts = nullptr;  // [kSegments][num_rows][num_tiles * kTileRows] if segments are split
  int rows = 0;            // outputs
  int num_tiles = 0;
  int num_units = 0;
  int first_block = 0;       // of this product in the launch; set by the launch
  uint32_t offset_pair = 0;  // 1024 + the codes' offset, as f16, twice
  uint32_t accumulates = 0;
};

// Maximum number of products per launch, limited by the size of its argument.
inline constexpr int kProductsMax = 16;

// x in f16: row-major, rows of padded_columns, padded with zeros. values * x_scales gives x.
struct HalfRows {
  const uint16_t* values = nullptr;
  const float* scales = nullptr;
  int num_rows = 0;
  int padded_columns = 0;
};

// x as f32, and the memory for x in f16 if it is or will be packed.
struct InputRows {
  const float* x = nullptr;
  int64_t columns = 0;
  HalfRows halves;  // values may be null in FewRows: then each block packs for itself
};

// The order of x's columns in f16. kSteps: within 32 columns, the 16 of one matrix instruction are
// followed by those of the other, as in the packed weights (packed_layout.h).
enum class ColumnOrder : uint8_t { kNatural, kSteps };

void LaunchPackRows(const InputRows& x, ColumnOrder order, device::CommandStream& stream);

// Rows of one matrix instruction, and the maximum bytes of x that a block keeps.
inline constexpr int kFewRows = 8;
inline constexpr size_t kFewRowsBytesMax = size_t{112} << 10;
inline constexpr size_t kFewRowsRestBytesMax = size_t{8} << 10;  // in addition to x
// Products of one kind. REQUIRES: num_rows <= kFewRows, num_rows * padded_columns * 2 <=
// kFewRowsBytesMax.
void LaunchFewRows(PackedKind kind, const InputRows& x, std::span<const Product> products,
                   device::CommandStream& stream);

// Products of one kind. With is_split, every segment has its own blocks, which write their sums to
// `parts`, and LaunchAddParts must follow.
void LaunchManyRows(PackedKind kind, const HalfRows& x, std::span<const Product> products,
                    bool is_split, size_t shared_bytes_max, device::CommandStream& stream);
// Returns the rows of x per block of LaunchManyRows: 32, 64 or 128.
int RowsOfBlock(int num_rows);
// Outputs per block.
inline constexpr int kBlockOutputs = 128;

// Products of one kind, not split, for compute capability 9.0; x is in ColumnOrder::kSteps.
struct WarpgroupShape {
  int rows_of_block = 0;
  int num_row_blocks = 0;
  int num_blocks = 0;
};
// Returns the shape with the shortest estimated time.
WarpgroupShape WarpgroupShapeOf(PackedKind kind, int num_rows, std::span<const Product> products,
                                int num_multiprocessors);
void LaunchWarpgroupRows(PackedKind kind, const HalfRows& x, std::span<const Product> products,
                         const WarpgroupShape& shape, device::CommandStream& stream);

void LaunchAddParts(const HalfRows& x, std::span<const Product> products,
                    device::CommandStream& stream);

// Computes y of a product from its sums [num_rows, rows] in `parts`, which may be y itself.
void LaunchFinishRows(const HalfRows& x, const Product& product, device::CommandStream& stream);

// Multiplies f32 weights, row-major [rows, columns], with f32 x.
void LaunchFloatRows(const float* x, int num_rows, int columns, const Product& product,
                     device::CommandStream& stream);

// ---- products by expert: each row of x by a matrix of its own, which the device has chosen ----

class PackedWeight;
// The caller sets y, bias and accumulates.
Product ProductOf(const PackedWeight& weight);

// Row i of such a product's x is row pairs[i] / per_row of the source, or row i if pairs is null.
struct RowSources {
  const int* pairs = nullptr;
  int64_t per_row = 1;
};

// The rows [first, first + count) use one expert's matrix. A launch covers the maximum number of
// groups; unused ones have a count of 0.
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

// Up to two products of the same x. All matrices have the same number of outputs.
struct ExpertProducts {
  const ExpertMatrix* matrices[2] = {};  // [num_experts], device memory
  float* y[2] = {};                      // [rows, outputs]
  const RowGroup* groups = nullptr;      // [num_groups], device memory
  int num_groups = 0;
  int rows_of_group = 0;  // at most
  int num_products = 0;
  int outputs = 0;
};

// As LaunchPackRows above; rows are taken from `sources`.
void LaunchPackRows(const InputRows& x, const RowSources& sources, device::CommandStream& stream);
// Skips matrices of other kinds, which other launches handle. If x has no halves, groups have one
// row, and x.x is indexed by `sources`, whose pairs must be null. REQUIRES: rows_of_group <=
// kFewRows, rows_of_group * padded_columns * 2 <= kFewRowsBytesMax.
void LaunchFewRows(PackedKind kind, const InputRows& x, const RowSources& sources,
                   const ExpertProducts& products, device::CommandStream& stream);
// REQUIRES: rows_of_group is a result of RowsOfBlock.
void LaunchManyRows(PackedKind kind, const HalfRows& x, const ExpertProducts& products,
                    size_t shared_bytes_max, device::CommandStream& stream);
void LaunchFloatRows(const float* x, int columns, const RowSources& sources,
                     const ExpertProducts& products, device::CommandStream& stream);

}  // namespace kvgate::kernels::cuda::matmul
