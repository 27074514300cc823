// CublasLt: products by NVIDIA's library, for `fast` numerics. It is looked for when it is asked
// for (dlopen): the program runs without it.
#pragma once

#include <cstdint>
#include <memory>

#include <kvgate/result.h>

#include "kernels/cuda/command_stream.h"

namespace kvgate::kernels::cuda {

// sums[m, n] = sum over k of x[m, k] * weight[n, k]; f16, the sums f32, all row-major and
// 16-aligned.
struct CublasProduct {
  const void* weight = nullptr;
  const void* x = nullptr;
  float* sums = nullptr;
  int64_t num_rows = 0;
  int64_t num_outputs = 0;
  int64_t columns = 0;        // and a row of the weight is so long
  int64_t x_row_columns = 0;  // from one row of x to the next
};

class CublasLt {
 public:
  // kUnsupported: no libcublasLt, one without what is needed, or a build for the emulator.
  static Result<std::unique_ptr<CublasLt>> Open(CommandStream& stream);
  virtual ~CublasLt() = default;
  // Notes it. This object lives until it has run.
  virtual void Note(const CublasProduct& product) = 0;
};

}  // namespace kvgate::kernels::cuda
