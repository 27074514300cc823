// DeviceMatMul: products with weights on the device, by tensor cores.
//
// Numerics. x and weights are converted to f16. Each row of x and of a weight is scaled by its own
// power of two so that its largest magnitude is in [2^14, 2^15): values keep 11 significant bits,
// whatever the dtype's range, and nothing overflows. Sums are f32. f32 weights are multiplied in
// f32 without tensor cores (they are small: routers, test models).
//
// Order. K is split into kSegments equal parts of whole k-steps of 16. Each is summed by one chain
// of matrix instructions, k ascending, and the parts are added in order. For few rows, one warp
// processes a segment and the sums meet in shared memory; for many rows, one warp processes the
// segments in sequence. So the bits of a row do not depend on the number of rows (invariant, see
// kernels/backend.h). `fast` passes many rows with dense weights to cuBLASLt instead.
//
// Devices of compute capability 9.0 have matrix instructions of whole warpgroups, used for many
// rows. PTX does not specify in which order they add their 16 products, so Open multiplies the same
// numbers with both instructions and uses them only if all bits are equal (wgmma_self_test.h).
//
// Weights are stored in the order of the matrix instruction's operands: for 16 rows x 16 columns, a
// lane's fragment is one 16-byte piece (16-bit weights) and a warp's 512 bytes are contiguous.
// Quantized weights are packed so that a lane unpacks its own fragments from one load.
#pragma once

#include <memory>
#include <span>

#include "base/result.h"
#include "kernels/backend.h"
#include "kernels/cuda/device/command_stream.h"

namespace kvgate::kernels::cuda::matmul {

struct DeviceMatMulOptions {
  bool is_fast = false;
  int num_multiprocessors = 1;
  size_t shared_bytes_max = size_t{99} << 10;  // per block; at least that of compute capability 8.6
  bool has_warpgroups = false;                 // compute capability 9.0
};

class DeviceMatMul {
 public:
  // Returns kUnsupported for is_fast if libcublasLt cannot be loaded. The stream must outlive this.
  static Result<std::unique_ptr<DeviceMatMul>> Open(const DeviceMatMulOptions& options,
                                                    device::CommandStream& stream);
  virtual ~DeviceMatMul() = default;

  // Supports every weight dtype of kernels/dtype.h; one without its own kernel is dequantized to
  // f16 (bytes() shows it). Returns kOverloaded without enough device memory. Does not keep the
  // view.
  virtual Result<std::unique_ptr<Weight>> LoadWeight(const WeightView& view) = 0;
  // As Backend::MatMul. Scratch for x in f16 grows to the largest num_rows * K and is kept.
  virtual void Run(const float* x, int num_rows, std::span<const MatMulTask> tasks) = 0;
  // Returns true if the device has warpgroup instructions that add in the same order as the others.
  virtual bool uses_warpgroups() const = 0;
};

}  // namespace kvgate::kernels::cuda::matmul
