// Operations on one row or one run of values, one table of functions per SIMD target. The bits of a
// result depend on the row alone: sums have a fixed shape for each number of columns, and values
// past the last whole vector use the same vector code on a padded copy.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/backend.h"

namespace kvgate::kernels::cpu {

struct RowKernels {
  // As the operation of Backend, for one row; y may be x.
  void (*norm)(const float* x, const NormArgs& norm, int64_t columns, float* y);
  // Rotates one token's heads in place; `table` is its [rotary_dim / 2, 2] of {cos, sin}.
  void (*rope)(float* x, const Backend::RopeArgs& args, const float* table);
  // As the operations of Backend; `out` may be `gate` or `up`.
  void (*glu)(GluKind kind, const float* gate, const float* up, size_t count, float* out);
  void (*add_scaled)(const float* x, float factor, size_t count, float* y);
  void (*scale)(float factor, size_t count, float* x);
  void (*soft_cap)(float cap, size_t count, float* x);
  // Converts `count` consecutive stored elements to f32; any alignment.
  void (*widen)(DType dtype, const std::byte* from, int64_t count, float* to);
  // Convert f32 to the bits of f16 or bf16 (to nearest even), or of fp8_e4m3.
  void (*narrow16)(DType dtype, const float* from, int64_t count, uint16_t* to);
  void (*narrow8)(const float* from, int64_t count, uint8_t* to);
};

RowKernels RowKernelsFor(int64_t target);

}  // namespace kvgate::kernels::cpu
