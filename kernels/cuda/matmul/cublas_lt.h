// CublasLt: products by NVIDIA's library, for `fast` numerics. The library is loaded with dlopen
// when it is requested, so the program also runs without it.
#pragma once

#include <cstdint>
#include <memory>

#include "base/result.h"
#include "kernels/cuda/device/command_stream.h"

namespace kvgate::kernels::cuda::matmul {

// sums[m, n] = sum over k of x[m, k] * weight[n, k]; f16 operands, f32 sums, all row-major and
// 16-aligned.
struct CublasProduct {
  const void* weight = nullptr;
  const void* x = nullptr;
  float* sums = nullptr;
  int64_t num_rows = 0;
  int64_t num_outputs = 0;
  int64_t columns = 0;        // also the length of a row of the weight
  int64_t x_row_columns = 0;  // distance between rows of x
};

class CublasLt {
 public:
  // Returns kUnsupported if libcublasLt is missing or too old, or in a build for the emulator.
  static Result<std::unique_ptr<CublasLt>> Open(device::CommandStream& stream);
  virtual ~CublasLt() = default;
  // Records the product. This object must live until it has run.
  virtual void Note(const CublasProduct& product) = 0;
};

}  // namespace kvgate::kernels::cuda::matmul
