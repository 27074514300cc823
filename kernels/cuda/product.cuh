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

KVGATE_DEVICE void FinishOutput(const Product& product, int row, int output, float sum,
                                float x_scale) {
  float* y = product.y + int64_t{row} * product.rows + output;
  float value = sum * product.row_scales[output] * x_scale;
  if (product.bias != nullptr) value += product.bias[output];
  if (product.accumulates != 0) value += *y;
  *y = value;
}

}  // namespace kvgate::kernels::cuda
