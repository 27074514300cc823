// Shared parts of the product kernels: finding a block's product, and storing a sum.
#pragma once

#include <span>

#include "kernels/cuda/device/device.cuh"
#include "kernels/cuda/matmul/matmul_kernels.h"

namespace kvgate::kernels::cuda::matmul {

struct ProductTable {
  Product products[kProductsMax];
  int64_t num_products;
};

// Returns the last product whose first block is not past this one.
KVGATE_DEVICE const Product& ProductOfBlock(const ProductTable& table, int block) {
  int index = 0;
  while (index + 1 < table.num_products && table.products[index + 1].first_block <= block) ++index;
  return table.products[index];
}

// The grid of one product: a block has block_tiles tiles of outputs and block_rows rows of x.
struct BlockGrid {
  int num_tiles;
  int block_tiles;
  int num_row_blocks;
  int block_rows;
};
struct TilePlace {
  int first_tile;
  int first_row;
};
// Number of output blocks that are processed as a group, in which blocks are ordered by rows first.
// Blocks that run at the same time then share weights and x in the L2 cache.
inline constexpr int kGroupBlocks = 8;
KVGATE_DEVICE TilePlace PlaceOfBlock(const BlockGrid& grid, int block) {
  const int num_output_blocks = (grid.num_tiles + grid.block_tiles - 1) / grid.block_tiles;
  const int group = block / (kGroupBlocks * grid.num_row_blocks);
  const int in_group = block - group * kGroupBlocks * grid.num_row_blocks;
  const int left = num_output_blocks - group * kGroupBlocks;
  const int width = left < kGroupBlocks ? left : kGroupBlocks;
  return {.first_tile = (group * kGroupBlocks + in_group % width) * grid.block_tiles,
          .first_row = in_group / width * grid.block_rows};
}

// Fills the table with the products of a launch and their first blocks. Returns the number of
// blocks.
inline int FillTable(std::span<const Product> products, int block_tiles, int num_row_blocks,
                     ProductTable& table) {
  table = {};
  table.num_products = static_cast<int64_t>(products.size());
  int num_blocks = 0;
  for (size_t i = 0; i < products.size(); ++i) {
    table.products[i] = products[i];
    table.products[i].first_block = num_blocks;
    num_blocks += (products[i].num_tiles + block_tiles - 1) / block_tiles * num_row_blocks;
  }
  return num_blocks;
}

// Copies a chunk of every kRowStep-th row of x to shared memory, with rows kRowBytes apart. `first`
// is the first row's chunk; step_bytes is the distance between two of them. Missing rows become
// zeros.
template <int kRows, int kRowStep, int kRowBytes, typename Step>
KVGATE_DEVICE void CopyRowChunks(std::byte* to, const std::byte* first, Step step_bytes,
                                 int rows_left) {
  const std::byte* from = first;
  KVGATE_UNROLL
  for (int row = 0; row < kRows; row += kRowStep) {
    const bool is_there = row < rows_left;
    device::CopyAsync16(to + row * kRowBytes, is_there ? from : first, is_there);
    from += step_bytes;
  }
}

// The work of a block of a launch by expert. Blocks of a group are adjacent, because they share x.
struct GroupPlace {
  RowGroup group;
  int product;
  int index;  // index among the product's blocks for this group
};

KVGATE_DEVICE GroupPlace GroupPlaceOf(const ExpertProducts& products, int blocks_of_product) {
  const int block = static_cast<int>(blockIdx.x);
  const int blocks_of_group = blocks_of_product * products.num_products;
  const int in_group = block % blocks_of_group;
  return {.group = products.groups[block / blocks_of_group],
          .product = in_group / blocks_of_product,
          .index = in_group % blocks_of_product};
}

// Returns the matrix of the group's expert, or null if this kind of kernel has nothing to do.
KVGATE_DEVICE const ExpertMatrix* MatrixOf(const ExpertProducts& products, const GroupPlace& place,
                                           PackedKind kind) {
  if (place.group.count == 0) return nullptr;
  const ExpertMatrix* matrices = place.product == 0 ? products.matrices[0] : products.matrices[1];
  const ExpertMatrix* matrix = matrices + place.group.expert;
  return matrix->kind == static_cast<uint64_t>(kind) ? matrix : nullptr;
}

// Returns the address of y of the group's first row.
KVGATE_DEVICE float* OutputOf(const ExpertProducts& products, const GroupPlace& place) {
  return (place.product == 0 ? products.y[0] : products.y[1]) +
         int64_t{place.group.first} * products.outputs;
}

KVGATE_DEVICE int64_t SourceOf(const RowSources& sources, int row) {
  const int pair = sources.pairs == nullptr ? row : sources.pairs[row];
  return pair / static_cast<int>(sources.per_row);
}

KVGATE_DEVICE void FinishOutput(const Product& product, float* all_y, int row, int output,
                                float sum, float x_scale) {
  float* y = all_y + int64_t{row} * product.rows + output;
  float value = sum * product.row_scales[output] * x_scale;
  if (product.bias != nullptr) value += product.bias[output];
  if (product.accumulates != 0) value += *y;
  *y = value;
}

// The same for what a lane holds of kTiles tiles of 16 outputs x 8 rows, which follow each other
// along the rows: sums[4 * i + part] is output `output` (parts 0 and 1) or output + 8, row
// first_row + 8 * i + part % 2. Everything is read before anything is written, because a read after
// a write would wait for memory once per value.
template <int kTiles>
KVGATE_DEVICE void FinishTiles(const Product& product, float* all_y, const HalfRows& x,
                               int first_row, int output, const float* sums) {
  float row_scale[2] = {};
  float bias[2] = {};
  KVGATE_UNROLL
  for (int half = 0; half < 2; ++half) {
    if (output + 8 * half >= product.rows) continue;
    row_scale[half] = product.row_scales[output + 8 * half];
    if (product.bias != nullptr) bias[half] = product.bias[output + 8 * half];
  }
  float x_scale[kTiles][2] = {};
  float old[kTiles][4] = {};
  KVGATE_UNROLL
  for (int i = 0; i < kTiles * 4; ++i) {
    const int row = first_row + i / 4 * 8 + i % 2;
    const int column = output + i % 4 / 2 * 8;
    if (row >= x.num_rows) continue;
    if (i % 4 < 2) x_scale[i / 4][i % 2] = x.scales[row];
    if (product.accumulates != 0 && column < product.rows) {
      old[i / 4][i % 4] = all_y[int64_t{row} * product.rows + column];
    }
  }
  KVGATE_UNROLL
  for (int i = 0; i < kTiles * 4; ++i) {
    const int row = first_row + i / 4 * 8 + i % 2;
    const int half = i % 4 / 2;
    float value = sums[i] * row_scale[half] * x_scale[i / 4][i % 2];
    if (product.bias != nullptr) value += bias[half];
    if (product.accumulates != 0) value += old[i / 4][i % 4];
    if (row < x.num_rows && output + 8 * half < product.rows) {
      all_y[int64_t{row} * product.rows + output + 8 * half] = value;
    }
  }
}

}  // namespace kvgate::kernels::cuda::matmul
