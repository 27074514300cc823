// Compares a device's two kinds of matrix instructions. `invariant` numerics can mix them only if
// both add in the same way, which is undocumented and can only be tested on the device itself.
#pragma once

#include "base/result.h"
#include "kernels/cuda/device/command_stream.h"

namespace kvgate::kernels::cuda::matmul {

// Returns true if products with warpgroup instructions have the same bits as those with warp
// instructions, in 24,576 sums of 512 products with very different magnitudes. Returns kOverloaded
// without memory for the numbers (1 MiB). REQUIRES: a device of compute capability 9.0.
Result<bool> WarpgroupsAddAlike(device::CommandStream& stream);

}  // namespace kvgate::kernels::cuda::matmul
