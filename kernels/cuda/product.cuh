// What the kernels of products share: finding a block's product, and what becomes of a sum.
#pragma once

#include "kernels/cuda/device.cuh"
#include "kernels/cuda/matmul_kernels.h"

namespace kvgate::kernels::cuda {

struct ProductTable {
  Product products[kProductsMax];
  int64_t num_products;
};

// The last product whose first block is not past this one.
KVGATE_DEVICE const Product& ProductOfBlock(const ProductTable& table, int block) {
  int index = 0;
  while (index + 1 < table.num_products && table.products[index + 1].first_block <= block) ++index;
  return table.products[index];
}

// What a block of a launch by expert works on. Blocks of a group stand together: they share x.
struct GroupPlace {
  RowGroup group;
  int product;
  int index;  // of the product's blocks for this group
};

KVGATE_DEVICE GroupPlace GroupPlaceOf(const ExpertProducts& products, int blocks_of_product) {
  const int block = static_cast<int>(blockIdx.x);
  const int blocks_of_group = blocks_of_product * products.num_products;
  const int in_group = block % blocks_of_group;
  return {.group = products.groups[block / blocks_of_group],
          .product = in_group / blocks_of_product,
          .index = in_group % blocks_of_product};
}

// The matrix of the group's expert, null where there is nothing to do for kernels of this kind.
KVGATE_DEVICE const ExpertMatrix* MatrixOf(const ExpertProducts& products, const GroupPlace& place,
                                           PackedKind kind) {
  if (place.group.count == 0) return nullptr;
  const ExpertMatrix* matrices = place.product == 0 ? products.matrices[0] : products.matrices[1];
  const ExpertMatrix* matrix = matrices + place.group.expert;
  return matrix->kind == static_cast<uint64_t>(kind) ? matrix : nullptr;
}

// Where y of the group's first row is.
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

}  // namespace kvgate::kernels::cuda
