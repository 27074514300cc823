// DeviceMatMul: products with weights on the device, by tensor cores.
//
// Numbers. x and weights become f16, each row of x and each row of a weight scaled by a power of
// two of its own so that its largest magnitude is in [2^14, 2^15): 11 bits of every value survive,
// whatever its dtype's range, and nothing overflows. Sums are f32. f32 weights are multiplied in
// f32 without tensor cores (they are small: routers, test models).
//
// Order. K is cut into kSegments equal parts, whole k-steps of 16; each is summed by one chain of
// matrix instructions, k rising; the parts are added in order. Few rows: one warp a segment, summed
// through shared memory. Many rows: one warp takes the segments in turn. So the bits of a row do
// not depend on how many there are (kernels/backend.h, invariant). `fast` gives many rows of dense
// weights to cuBLASLt instead.
//
// Devices of 9.0 have matrix instructions of whole warpgroups, for many rows. PTX does not say in
// which order one adds its 16 products, so Open multiplies the same numbers by both kinds; they are
// used only where all bits are equal (warpgroup_trial.h).
//
// Weights lie in the order in which the matrix instruction takes them: for 16 rows x 16 columns a
// lane's fragment is one 16-byte piece (16-bit weights), and a warp's 512 bytes are consecutive;
// quantized ones likewise, codes packed so that a lane unpacks its own fragments from one load.
#pragma once

#include <memory>
#include <span>

#include <kvgate/result.h>

#include "kernels/backend.h"
#include "kernels/cuda/command_stream.h"

namespace kvgate::kernels::cuda {

struct DeviceMatMulOptions {
  bool is_fast = false;
  int num_multiprocessors = 1;
  size_t shared_bytes_max = size_t{99} << 10;  // of a block; at least what devices of 8.6 have
  bool has_warpgroups = false;                 // a device of 9.0
};

class DeviceMatMul {
 public:
  // kUnsupported: is_fast, and libcublasLt cannot be loaded. The stream outlives this.
  static Result<std::unique_ptr<DeviceMatMul>> Open(const DeviceMatMulOptions& options,
                                                    CommandStream& stream);
  virtual ~DeviceMatMul() = default;

  // Every dtype of kernels/dtype.h; what has no kernel of its own is dequantized to f16 (bytes()
  // shows it). kOverloaded: the device has not so much memory left. The view's bytes are not
  // needed afterwards.
  virtual Result<std::unique_ptr<Weight>> LoadWeight(const WeightView& view) = 0;
  // As Backend::MatMul. Scratch for x in f16 grows to the largest num_rows * K and is kept.
  virtual void Run(const float* x, int num_rows, std::span<const MatMulTask> tasks) = 0;
  // The device has instructions of warpgroups, and they were found to add like the others.
  virtual bool uses_warpgroups() const = 0;
};

}  // namespace kvgate::kernels::cuda
